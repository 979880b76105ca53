from __future__ import annotations

import contextlib
import gc
from dataclasses import dataclass, replace

import numpy as np
import pytest

import clgraph
from clgraph.core.collector import PAUSED
from clgraph.core.dtype import DType
from clgraph.errors import InputError, ModelError, ShapeError, UnknownValueError, UnsupportedError
from clgraph.graph.known_values import MOST_EVALUATED_BYTES
from clgraph.graph.topology import Topology
from clgraph.ops.convolution import Convolution
from clgraph.ops.fill import Fill
from clgraph.ops.non_zero import NonZero
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from tests.support.programs import ADD, RELU, Net, lines


def _open() -> Topology:
    topology = Topology()
    topology.input("x", ("batch", 3, "?", "?"))
    topology.output("y", topology.add("relu", RELU, "x"))
    return topology


def test_shapes_bind_at_build_and_a_repeated_name_is_no_constraint() -> None:
    program = _open().build({"x": (2, 3, 5, 7)})
    assert lines(program) == ["relu f32:bfyx:2x3x5x7 = activation(function=relu)(x)"]
    assert program.outputs[0][0] == "y"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, r"input 'x' has shape \[batch, 3, \?, \?\]; give its sizes: --shape"),
        ({"x": (1, 4, 5, 5)}, r"\[1, 4, 5, 5\] does not fit"),
        ({"x": (1, 3, 5)}, "does not fit"),
        ({"x": (1, 3, -5, 5)}, "negative"),
        ({"x": "1355"}, "whole numbers, not '1355'"),
        ({"x": (1, 3, 5.5, 5)}, "whole numbers"),
        ({"x": 5}, "whole numbers"),
        ({"z": (1,)}, "no input is called 'z'; the inputs are 'x'"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        _open().build(shapes)


def test_inputs_and_outputs_are_shown_in_short() -> None:
    """A notebook, or ``print(model.inputs)``, shows a tuple of them: by their representation."""
    topology = _open()
    assert str(topology.inputs["x"]) == "x f32 [batch, 3, ?, ?]"
    assert repr((topology.inputs["x"],)) == "(<x f32 [batch, 3, ?, ?]>,)"


def test_a_layer_that_does_not_fit_names_itself_and_its_inputs() -> None:
    net = Net()
    net.add("wrong", Convolution(), net.input("x", (1, 5, 8, 8)), net.data("w", 4, 3, 3, 3))
    net.output("wrong")
    with pytest.raises(ShapeError, match=r"node 'wrong' .*f32:bfyx:1x5x8x8.*5 channels"):
        net.build()


def test_a_build_that_fails_keeps_nothing_of_what_it_has_built() -> None:
    """Families are made from builds of which most may fail, while Python's collector waits."""
    net = Net()
    net.add("wrong", Convolution(), net.input("x", (1, 5, 8, 8)), net.data("w", 4, 3, 3, 3))
    net.output("wrong")
    with contextlib.suppress(ShapeError):
        net.build()
    gc.collect()
    with PAUSED, contextlib.suppress(ShapeError):
        net.build()
    assert gc.collect() == 0


def test_a_shape_that_depends_on_data_is_refused_by_name() -> None:
    net = Net()
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), net.input("shape", (2,), np.int64))
    net.output("y")
    with pytest.raises(UnsupportedError, match=r"node 'y'.*must be known"):
        net.build()


def test_small_values_known_from_shapes_leave_no_layer() -> None:
    net = Net()
    shape = net.constant("shape", np.array([3, 2], np.int64))
    doubled = net.add("one", ADD, shape, net.constant("zero", np.zeros(2, np.int64)))
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), doubled)
    assert lines(net.program("y")) == ["y f32:bf:3x2 = reshape(shape=3x2)(x)"]


LARGE = 5000
"""More elements than are computed without need while shapes are bound."""


def _counted() -> Net:
    """Return a net whose ``count``, 6, depends on a large constant by a node that is not computed without need."""
    net = Net()
    net.constant("c", np.where(np.arange(LARGE) < 3, 2, -1).astype(np.float32))
    net.add("sum", Reduce("sum", (0,)), net.add("positive", RELU, "c"))
    net.add("count", Reorder(DType.I64), "sum")
    return net


def test_a_size_that_large_constants_decide_is_known() -> None:
    net = _counted()
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), "count")
    program = net.program("y")
    assert lines(program) == ["y f32:x:6 = reshape(shape=6)(x)"]


def test_what_large_constants_decide_stays_readable() -> None:
    net = _counted()
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), "count")
    net.add("z", ADD, "positive", net.input("v", (LARGE,)))
    program = net.program("y", "z")
    assert [n.name for n in program] == ["y", "z"]
    np.testing.assert_array_equal(program["z"].inputs[0].constant, np.maximum(net.constants["c"], 0))


def test_places_that_large_constants_decide_are_known() -> None:
    net = Net()
    net.constant("c", np.where(np.isin(np.arange(LARGE), (3, 7)), 1, -1).astype(np.float32))
    net.add("y", NonZero(), net.add("positive", RELU, "c"))
    program = net.program("y")
    assert len(program) == 0
    np.testing.assert_array_equal(program.outputs[0][1].constant, [[3, 7]])


def test_a_size_that_an_input_decides_among_constants_is_refused_and_nothing_is_computed() -> None:
    net = _counted()
    net.add("more", ADD, net.add("wide", Reduce("sum", (0,), keepdims=False), net.input("v", (LARGE,))), "sum")
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), net.add("n", Reorder(DType.I64), "more"))
    with pytest.raises(UnknownValueError, match=r"'y'.*input 1 \(shape\) must be known"):
        net.program("y")


def test_no_result_that_the_host_would_choke_on_is_computed_for_a_size() -> None:
    net = Net()
    net.add("sum", Reduce("max", (0,)), net.add("filled", Fill(6, DType.I64, ((MOST_EVALUATED_BYTES >> 3) + 1,))))
    net.add("y", Reshape(reads=("shape",)), net.input("x", (2, 3)), "sum")
    with pytest.raises(ShapeError, match="is computed with the shapes, and takes 1073741832 bytes"):
        net.program("y")


def test_names_are_made_once_and_before_they_are_read() -> None:
    net = Net()
    net.input("x", (1,))
    with pytest.raises(ModelError, match="two things are called 'x'"):
        net.constant("x", np.zeros(1, np.float32))
    with pytest.raises(ModelError, match="reads 'later'"):
        net.add("y", RELU, "later")
    with pytest.raises(ModelError, match="output 'z'"):
        net.output("z")


def test_what_is_written_anew_has_names_of_its_own() -> None:
    topology = Topology()
    topology.add("y", RELU, topology.input("x", (1,)))
    (layer,) = topology.layers
    anew = replace(topology, layers=[replace(layer, outputs=("z",))])
    anew.output("z")
    anew.add("y", RELU, "z")
    assert (topology.names, anew.names) == ({"x", "y"}, {"x", "y", "z"})
    with pytest.raises(ModelError, match="two things are called 'y'"):
        topology.constant("y", np.zeros(1, np.float32))


def test_annotation_and_origin_reach_the_node() -> None:
    net = Net()
    net.add("y", RELU, net.input("x", (1,)), annotation="gpu", origin=("Relu_7",))
    (node,) = net.program("y")
    assert (node.annotation, node.origin) == ("gpu", ("Relu_7",))


def test_the_size_of_an_input_that_is_taken_for_an_input_is_told_so() -> None:
    topology = Topology()
    topology.output("y", topology.input("x", ("batch", 3)))
    with pytest.raises(InputError, match=r"it is a size of x f32 \[batch, 3\]: give the whole shape of 'x'"):
        topology.build({"batch": (2,)})


class Twice(Topology):
    """A topology with a constructor of its own, as users derive one."""

    def __init__(self, size: int) -> None:
        super().__init__()
        x = self.input("x", (size, "n"))
        for name in ("a", "b"):
            self.add(name, RELU, x)
        self.add("c", ADD, "a", "b")
        self.output("c")


@pytest.mark.opencl
@pytest.mark.parametrize("shapes", [None, {"x": (2, 3)}], ids=["open", "given"])
def test_a_derived_topology_is_compiled_as_one_of_the_base_class(shapes) -> None:
    topology = Twice(2)
    model = clgraph.compile(topology, shapes=shapes, device="pocl")
    np.testing.assert_array_equal(model(np.array([[-1, 0, 2.5]] * 2, np.float32)), [[0, 0, 5]] * 2)
    assert str(topology.pruned()) == str(topology)
    assert type(topology.with_shapes({"x": (2, 5)})) is Topology


@dataclass(eq=False)
class Titled(Topology):
    title: str = ""


def test_a_derived_dataclass_is_plain_without_the_fields_of_its_own() -> None:
    titled = Titled(title="mine")
    titled.output("y", titled.add("y", RELU, titled.input("x", (2,))))
    assert type(titled.plain()) is Topology
    assert str(titled.pruned()) == str(titled)
