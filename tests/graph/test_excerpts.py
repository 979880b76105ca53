"""Some layers of a topology as one of their own."""

import numpy as np

from clgraph.graph.excerpts import excerpt
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise


def whole():
    t = Topology(op_types={"sum": "Add"}, noted={"sum": "read otherwise"}, scattered=True)
    t.input("x", ("n", 3))
    t.input("unread", (2,))
    t.constant("w", np.ones(3, np.float32))
    t.add("bent", Activation("relu"), "x")
    t.add("sum", Eltwise("add"), "bent", "w", annotation="cpu")
    t.add("product", Eltwise("mul"), "sum", "x")
    t.output("y", "product")
    return t


def test_what_other_layers_make_is_an_input_of_any_shape_and_what_is_wanted_an_output():
    t = whole()
    part = excerpt(t, t.layers[1:], {"product", "bent"})
    assert str(part).splitlines() == [
        "topology",
        "  input bent unknown type unknown",
        "  input x f32 [n, 3]",
        "  const w f32:x:3",
        '  sum = eltwise(function=add)(bent, w) "cpu"',
        "  product = eltwise(function=mul)(sum, x)",
        "  output product",
        "  note sum: read otherwise",
    ]
    assert part.constants["w"] is t.constants["w"]


def test_it_knows_what_the_file_said_of_its_nodes():
    t = whole()
    part = excerpt(t, t.layers[:1], {"bent"})
    assert (part.op_types, part.noted, part.scattered) == (t.op_types, t.noted, True)
