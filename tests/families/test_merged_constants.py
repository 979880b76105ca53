"""Constants that sizes decide and that are equal: in one program, or for all the sizes that were built."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.sources import read_source
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import BindingError
from clgraph.families.rules import Guards
from clgraph.graph.composite import Composite
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from tests.support.graphs import FLOAT
from tests.support.members import compare


@frozen
class PlusPlaces(Composite):
    """``x + [0, 1, 2, ...]`` along the last axis, or up to *most* of it."""

    most: int = 1 << 30
    kind = "plus_places"

    def compose(self, c):
        size = c.layout(c.inputs[0]).shape[-1]
        places = np.minimum(np.arange(size), self.most)
        return (c.add(Eltwise("add"), c.inputs[0], c.constant(places)),)


@frozen
class PlusSize(Composite):
    """``x + size`` of the last axis, or *most* where that is smaller."""

    most: int = 30
    kind = "plus_size"

    def compose(self, c):
        size = np.array([min(c.layout(c.inputs[0]).shape[-1], self.most)])
        return (c.add(Eltwise("add"), c.inputs[0], c.constant(size)),)


@pytest.fixture
def places():
    saved = PRIMITIVES.snapshot()
    PRIMITIVES.register(PlusPlaces.kind, PlusPlaces)
    PRIMITIVES.register(PlusSize.kind, PlusSize)
    yield
    PRIMITIVES.restore(saved)


def net(most: int) -> Topology:
    t = Topology()
    t.input("x", (2, None), DType.I64)
    t.add("a", PlusPlaces(), "x")
    t.add("b", Activation("neg"), "a")
    t.add("y", PlusPlaces(most), "b")
    t.output("y", "y")
    return t


def run(compiled, size, most):
    x = np.arange(2 * size).reshape(2, size) % 7
    (y,) = compiled.run({"x": x}).values()
    np.testing.assert_array_equal(y, np.minimum(np.arange(size), most) - x - np.arange(size))
    return compiled.program.notes["family"]


@pytest.mark.opencl
def test_equal_constants_of_several_nodes_leave_a_family(places, device):
    compiled = clgraph.compile(net(1 << 30), device)
    assert "bound in" in run(compiled, 20, 1 << 30)
    assert "bound in" in run(compiled, 25, 1 << 30)


@pytest.mark.opencl
def test_masks_of_several_attentions_are_one_constant_of_a_member(device):
    """They are read by what attentions were fused into, whose layers come from no file."""
    names = ["x", "a", "b", "y"]
    nodes = [helper.make_node("Attention", [x, x, x], [y], is_causal=1) for x, y in pairwise(names)]
    values = [helper.make_tensor_value_info(name, FLOAT, (1, 2, "s", 8)) for name in ("x", "y")]
    model = helper.make_model(
        helper.make_graph(nodes, "causal", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 23)],
        ir_version=10,
    )
    random = np.random.default_rng(0)
    feeds = [{"x": random.standard_normal((1, 2, s, 8)).astype(np.float32)} for s in (5, 40)]
    for device_class in ("cpu", "gpu"):
        found = compare("causal", read_source(model, None, None), feeds, device, {"device_class": device_class})
        assert not found.wrong
        assert found.bound == 2
        compiled = clgraph.compile(model, device, config={"device_class": device_class})
        compiled.run(feeds[0])
        assert [v.layout.shape for v in compiled.program.constants] == [(5, 5)]


@pytest.mark.opencl
def test_constants_that_are_equal_for_some_sizes_alone_are_read_apart_for_others(places, device):
    compiled = clgraph.compile(net(400), device)
    for size in (20, 500):
        assert "is no longer 'a/constant1', which is read in its place" in run(compiled, size, 400)


@pytest.mark.opencl
def test_a_constant_that_is_the_same_for_all_sizes_that_were_built_is_made_again_for_a_member(places, device):
    t = Topology()
    t.input("x", (2, None), DType.I64)
    t.add("y", PlusSize(), "x")
    t.output("y", "y")
    compiled = clgraph.compile(t, device)
    for size in (50, 7):
        (y,) = compiled.run({"x": np.zeros((2, size), np.int64)}).values()
        assert "bound in" in compiled.program.notes["family"]
        assert (y == min(size, 30)).all()


def test_a_member_whose_constants_are_not_equal_is_refused():
    class Bindings:
        def bind(self, layers):
            assert layers == ()

        def array(self, name):
            return {"a": np.arange(3), "b": np.arange(3), "c": np.arange(4)}[name]

    Guards((), (), (), (), (("a", "b"),)).check(Bindings())
    with pytest.raises(BindingError, match="'a' is no longer 'c', which is read in its place"):
        Guards((), (), (), (), (("a", "c"),)).check(Bindings())
