"""Where a topology is cut: without a device, before any shape is known."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import needs_stages, split
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.non_zero import NonZero
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.shape import ShapeOf


def sized_by(small: bool) -> Topology:
    """A reshape whose shape is an input, or computed from the large input."""
    t = Topology()
    x = t.input("x", ("n", 4))
    if small:
        shape = t.input("shape", (2,), np.int64)
        shape = t.add("twice", Eltwise("add"), shape, shape)
    else:
        sums = t.add("sums", Reduce("sum", (1,), keepdims=False), x)
        shape = t.add("shape", Reorder(DType.I64), sums)
    t.output("y", t.add("y", Reshape(reads=("shape",)), t.add("relu", Activation("relu"), x), shape))
    return t


def test_shape_arithmetic_needs_no_stages():
    t = Topology()
    x = t.input("x", ("n", 4))
    shape = t.add("shape", ShapeOf(), t.add("relu", Activation("relu"), x))
    t.output("y", t.add("y", Reshape(reads=("shape",)), x, shape))
    assert not needs_stages(t)
    assert [p.number for p in split(t)] == [0]


def test_what_small_inputs_decide_needs_no_stages():
    assert not needs_stages(sized_by(small=True))


@pytest.mark.parametrize(
    ("shape", "dtype", "staged"),
    [((4,), np.float32, False), (("n",), np.int64, False), (("n",), np.float32, True), ((300,), np.int64, True)],
)
def test_an_input_that_may_be_long_is_no_part_of_a_key(shape, dtype, staged):
    t = Topology()
    x, sizes = t.input("x", (2, 6)), t.input("sizes", shape, dtype)
    wanted = t.add("wanted", Reorder(DType.I64), t.add("largest", Reduce("max", (0,)), sizes))
    t.output("y", t.add("y", Reshape(reads=("shape",)), x, wanted))
    assert needs_stages(t) == staged


def test_a_reshape_by_computed_values_comes_when_they_are_there():
    t = sized_by(small=False)
    assert needs_stages(t)
    front, back = split(t)
    assert (front.number, back.number) == (0, 2)
    assert {x.name for x in front.topology.layers} == {"sums", "shape", "relu"}
    assert [x.name for x in back.topology.layers] == ["y"]
    assert {name for name, _ in front.topology.outputs} == {"relu", "shape"}


def test_what_decides_shapes_stands_between_the_pieces():
    t = Topology()
    x = t.input("x", (2, 3))
    places = t.add("places", NonZero(), t.add("relu", Activation("relu"), x))
    t.add("dead", NonZero(), x)
    t.output("y", t.add("more", Eltwise("add"), places, places))
    t.output("z", t.add("aside", Activation("abs"), x))
    pieces = split(t)
    assert [(p.number, [x.name for x in p.topology.layers]) for p in pieces] == [
        (0, ["relu", "aside"]),
        (1, ["places"]),
        (2, ["more"]),
    ]
    assert [p.compilable for p in pieces] == [True, False, True]


def test_the_build_of_what_depends_on_data_says_where_to_go():
    t = Topology()
    t.output("y", t.add("places", NonZero(), t.input("x", (2, 3))))
    from clgraph.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="compile the topology"):
        t.build()


def test_what_depends_on_known_data_is_computed_while_shapes_are_bound():
    t = Topology()
    places = t.add("places", NonZero(), t.constant("c", np.array([0, 3, 0, 2], np.int64)))
    t.output("y", places)
    assert not needs_stages(t)
    program = t.build()
    assert len(program) == 0
    np.testing.assert_array_equal(program.outputs[0][1].constant, [[1, 3]])


def test_every_piece_computes_from_constants_what_it_reads():
    t = Topology()
    w = t.constant("w", np.array([[1, -2, 3], [-4, 5, -6]], np.int8))
    whole = t.add("whole", Reorder(DType.F32), w)
    weights, kept = t.add("weights", Activation("abs"), whole), t.add("kept", Activation("neg"), whole)
    places = t.add("places", NonZero(), t.add("front", Eltwise("add"), t.input("x", (2, 3)), whole))
    t.output("y", t.add("back", Eltwise("mul"), t.add("floats", Reorder(DType.F32), places), weights))
    t.output("kept", kept)
    pieces = split(t)
    assert [[x.name for x in p.topology.layers] for p in pieces] == [
        ["whole", "kept", "front"],
        ["places"],
        ["whole", "weights", "floats", "back"],
    ]
    assert [list(p.topology.inputs) for p in pieces] == [["x"], ["front"], ["places"]]
    assert [[name for name, _ in p.topology.outputs] for p in pieces] == [["kept", "front"], ["places"], ["back"]]
