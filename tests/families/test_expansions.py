"""What stands for a layer may be another for other sizes: no member is given the constants and operands of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.sources import read_source
from clgraph.core.frozen import frozen
from clgraph.families.making import MADE_BYTES
from clgraph.families.notes import NOTE
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import primitive
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from tests.support.family_models import numbers
from tests.support.graphs import FLOAT, INT, graph
from tests.support.members import compare, random_members
from tests.support.open_branches import random_branching_model
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

CLASSES = pytest.mark.parametrize("device_class", ["cpu", "gpu"])
ROWS, COLUMNS = np.array([4, 0, 2]), np.array([1, 3, 3, 0])


@primitive
@frozen
class Picked(Composite):
    """Rows and columns of pictures ``[n, c, h, w]``, first those of which there are more to leave out."""

    kind: ClassVar[str] = "picked_for_test"

    def compose(self, c: Composition) -> Sequence[str]:
        (x,) = c.inputs
        *_, h, w = c.layout(x).shape
        parts = [(1, ROWS), (2, COLUMNS)]
        y = c.add(Transpose((0, 2, 3, 1)), x)
        for axis, places in parts if h > w else parts[::-1]:
            y = c.add(Gather(axis), y, c.constant(places))
        return (c.add(Transpose((0, 3, 1, 2)), y),)


@primitive
@frozen
class Placed(Composite):
    """Pictures ``[n, c, h, w]`` and a number for each place, a constant."""

    kind: ClassVar[str] = "placed_for_test"
    made: ClassVar[list[int]] = []

    def compose(self, c: Composition) -> Sequence[str]:
        places = np.zeros(c.layout(c.inputs[0]).shape[2:], np.float32)
        self.made.append(places.nbytes)
        return (c.add(Eltwise("add"), c.inputs[0], c.constant(places)),)


def picking(limit: bool) -> Topology:
    """Return a model with the operator above, whose height is 90 where it is to be *limit*ed by a size of its own."""
    t = Topology()
    x = t.add("a", Activation("sigmoid"), t.input("x", ("n", 8, 90 if limit else "h", "w")))
    t.output("y", t.add("z", Softmax((3,)), t.add("picked", Picked(), x)))
    return t


@CLASSES
@pytest.mark.parametrize("limit", [False, True])
def test_the_order_of_operators_inside_a_layer_is_that_of_the_member(
    device: str, device_class: str, limit: bool
) -> None:
    """The operators have the same names in both orders, and the same kinds: their axes and constants are others."""
    sizes = ((90, 40), (90, 120), (90, 91)) if limit else ((7, 20), (20, 7), (6, 6), (40, 39))
    members = [{"x": numbers(2, 8, h, w)} for h, w in sizes]
    found = compare("picked", picking(limit), members, device, {"device_class": device_class})
    assert not found.wrong
    assert found.members == len(sizes)


node = helper.make_node
SAME = {"w": numbers(16, 16)}
BODIES: dict[str, tuple[Any, Any]] = {
    "operands": (([node("Sub", ["a", "b"], ["o"])], {}), ([node("Sub", ["b", "a"], ["o"])], {})),
    "values": (([node("Identity", ["a"], ["o"])], {}), ([node("Identity", ["b"], ["o"])], {})),
    "numbers": (([node("LeakyRelu", ["c"], ["o"], alpha=0.1)], {}), ([node("LeakyRelu", ["c"], ["o"], alpha=0.5)], {})),
    "constants": (([node("MatMul", ["a", "k"], ["o"])], {"k": SAME["w"]}),
                  ([node("MatMul", ["a", "k"], ["o"])], {"k": 2 * SAME["w"]})),
    "operators": (([node("Sigmoid", ["c"], ["o"])], {}), ([node("Tanh", ["c"], ["o"])], {})),
    "more": (([node("Sigmoid", ["c"], ["o"])], {}), ([node("Exp", ["c"], ["p"]), node("Sigmoid", ["p"], ["o"])], {})),
}  # fmt: skip


def choosing(what: str, limit: int) -> onnx.ModelProto:
    """Return a model of ``x`` [n, s, 16] that computes one body where s is above *limit*, else the other."""
    bodies = [graph(nodes, [], [("o", FLOAT, None)], **constants) for nodes, constants in BODIES[what]]
    nodes = [
        node("Sigmoid", ["x"], ["a"]),
        node("Tanh", ["x"], ["b"]),
        node("MatMul", ["x", "w"], ["c"]),
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["size"], axis=0),
        node("Greater", ["size", "limit"], ["above"]),
        node("If", ["above"], ["z"], then_branch=bodies[0], else_branch=bodies[1]),
        node("Neg", ["z"], ["y"]),
    ]
    constants = {"one": np.array([1]), "limit": np.array([limit]), **SAME}
    return open_model(nodes, {"x": (FLOAT, ("n", "s", 16))}, constants)


@CLASSES
@pytest.mark.parametrize("limit", [100, 700])
@pytest.mark.parametrize("what", BODIES)
def test_the_body_that_sizes_choose_is_that_of_the_member(
    device: str, device_class: str, what: str, limit: int
) -> None:
    """The representative and its witnesses are all above the limit, or all below it."""
    members = [{"x": numbers(2, s, 16)} for s in (5, 320, 800)]
    source = read_source(choosing(what, limit), None, None)
    found = compare(what, source, members, device, {"device_class": device_class})
    assert not found.wrong
    assert found.members == len(members)
    assert found.bound >= 1


@CLASSES
def test_the_body_that_an_input_chooses_may_take_other_operands(device: str, device_class: str) -> None:
    """The representative's takes one, a member's two, and the node before it has the name of either."""
    bodies = [
        graph([node("Mul", ["x", "factor"], ["o"])], [], [("o", FLOAT, None)], factor=np.float32(5)),
        graph([node("Neg", ["x"], ["o"])], [], [("o", FLOAT, None)]),
    ]
    nodes = [
        node("Equal", ["k", "wanted"], ["chosen"]),
        node("If", ["chosen"], ["z"], then_branch=bodies[0], else_branch=bodies[1]),
        node("Abs", ["z"], ["y"]),
    ]
    model = open_model(nodes, {"x": (FLOAT, ("n",)), "k": (INT, ())}, {"wanted": np.array(3)})
    x = numbers(8)
    with clgraph.compile(model, device, config={"device_class": device_class}) as compiled:
        for k in (3, 1, 3):
            y = compiled.run({"x": x, "k": np.array(k)})["y"]
            np.testing.assert_array_equal(y, np.abs(x) * np.float32(5 if k == 3 else 1))


def test_a_saved_family_knows_what_stands_for_its_layers(device: str, tmp_path: Path) -> None:
    source, shapes = choosing("operands", 100), [(2, s, 16) for s in (320, 5, 120)]
    model = clgraph.compile(source, device)
    model.run({"x": numbers(*shapes[0])})
    model.save(tmp_path / "model.clg")
    loaded = clgraph.load(tmp_path / "model.clg", device)
    for shape in shapes:
        x = numbers(*shape)
        a, b = 1 / (1 + np.exp(-x)), np.tanh(x)
        # A sigmoid within 8 units of numbers below 1, a tanh within 6 (post_apply.clh), NumPy's own and the difference.
        limit = (8 + 6 + 2) * 2.0**-24
        np.testing.assert_allclose(loaded.run({"x": x})["y"], b - a if shape[1] > 100 else a - b, rtol=0, atol=limit)
        assert loaded.program.notes[NOTE].startswith("bound" if shape[1] > 100 else "compiled whole")


@pytest.mark.parametrize("seed", [2, 4, 5, 7])
def test_members_of_random_models_that_choose_by_size_are_those_of_whole_compilations(device: str, seed: int) -> None:
    topology = read_source(random_branching_model(seed), None, None)
    groups = [[("x", axis)] for axis in (0, 2, 3)]
    members = random_members(topology, groups, {"x": numbers(2, 8, 24, 20)}, 6, seed)
    assert not compare(f"random {seed}", topology, members, device).wrong


def test_no_family_is_made_with_constants_of_gigabytes(device: str) -> None:
    """Extremes have many times the sizes of what is run, a constant for each place the square of that."""
    t = Topology()
    t.output("y", t.add("placed", Placed(), t.input("x", ("n", 8, "h", "w"))))
    Placed.made.clear()
    model = clgraph.compile(t, device)
    model.run({"x": numbers(2, 8, 30, 40)})
    assert model.program.notes[NOTE].startswith("bound")
    assert 1 << 20 < max(Placed.made) <= MADE_BYTES
