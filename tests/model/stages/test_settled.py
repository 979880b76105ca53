"""Runs that have become alike, whose steps are joined: only as long as they are, and with the same results."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.errors import InputError
from clgraph.graph.topology import Topology
from clgraph.model.stages import repeats, settled
from clgraph.model.stages.compiled_piece import CompiledPiece
from clgraph.model.stages.host_layers import HostLayers
from clgraph.model.stages.model import StagedModel
from clgraph.model.stages.runner import PieceRunner
from clgraph.model.stages.settled import ALIKE, Settling
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.non_zero import NonZero
from clgraph.ops.reduce import Reduce
from tests.support.graphs import FLOAT, agrees, graph, model
from tests.support.stages import ENOUGH

node = helper.make_node

pytestmark = pytest.mark.opencl


def found_twice() -> Topology:
    """Return ``y = x[nonzero(x > 0)] + 1``, and the sum of it, for x of any length."""
    t = Topology()
    x = t.input("x", ("n",))
    above = t.add("above", Eltwise("greater"), x, t.constant("zero", np.array([0], np.float32)))
    picked = t.add("picked", Gather(0), x, t.add("places", NonZero(), above))
    more = t.add("more", Eltwise("add"), picked, t.constant("one", np.array([1], np.float32)))
    t.output("y", more)
    t.output("sum", t.add("total", Reduce("sum", (0, 1), keepdims=False), more))
    return t


def staged(made: clgraph.Model) -> StagedModel:
    assert isinstance(made, StagedModel)
    return made


def joined(made: clgraph.Model) -> bool:
    latest = staged(made)._runner._settling.latest
    return latest is not None and latest.joined is not None


def test_runs_alike_decide_nothing_and_others_are_decided_about(device: str, decided: list[PieceRunner]) -> None:
    with clgraph.compile(found_twice(), device=device) as made:
        x = np.arange(-3, 4, dtype=np.float32)
        for shift in range(ENOUGH):
            made.run({"x": x * np.float32(1 + shift)})
        decided.clear()
        for shift in range(3):
            y = np.roll(x, shift)
            got = made.run({"x": y})
            np.testing.assert_array_equal(got["y"], y[y > 0][None] + 1)
            assert got["sum"] == 9
        assert not decided
        for y in (np.abs(x) + 1, x[1:], np.concatenate([x, x]), x):  # others of the same shape, and of others
            np.testing.assert_array_equal(made.run({"x": y})["y"], y[y > 0][None] + 1)
            assert decided
            decided.clear()


def test_runs_that_turn_out_otherwise_are_joined_more_seldom(device: str) -> None:
    few, all_of_them = np.float32([1, -1, -1]), np.float32([1, 1, 1])
    with clgraph.compile(found_twice(), device=device) as made:
        for _ in range(ENOUGH):
            made.run({"x": few})
        way = staged(made)._runner._settling.latest
        assert way is not None
        wanted = way.wanted
        made.run({"x": all_of_them})  # as many have not been found before
        assert way.wanted == 2 * wanted
        for _ in range(2 * wanted + 1):
            assert not joined(made)
            made.run({"x": few})
        assert joined(made)


def test_runs_stay_joined_where_data_decide_which_plans_they_are(device: str, decided: list[PieceRunner]) -> None:
    ways = np.float32([[1, -1, -1], [1, 1, -1], [1, 1, 1]])
    with clgraph.compile(found_twice(), device=device) as made:
        for x in ways.repeat(ENOUGH, 0):
            made.run({"x": x})
        for _ in range(4 * ENOUGH):  # whatever has been turned out otherwise meanwhile
            made.run({"x": ways[0]})
        decided.clear()
        for x in [*ways, *ways[::-1]]:
            got = made.run({"x": x})
            np.testing.assert_array_equal(got["y"], x[x > 0][None] + 1)
            assert got["sum"] == 2 * (x > 0).sum()
        assert not decided


def test_runs_of_several_shapes_are_joined_side_by_side(device: str, decided: list[PieceRunner]) -> None:
    inputs = [np.arange(n, dtype=np.float32) - 1 for n in (4, 6, 9)]
    with clgraph.compile(found_twice(), device=device) as made:
        for _ in range(ENOUGH):
            for x in inputs:
                made.run({"x": x})
        decided.clear()
        for x in [*inputs, *inputs]:
            np.testing.assert_array_equal(made.run({"x": x})["y"], x[x > 0][None] + 1)
        assert not decided


def test_first_pieces_that_the_host_is_quicker_at_are_joined(
    device: str, monkeypatch: pytest.MonkeyPatch, decided: list[PieceRunner]
) -> None:
    t = Topology()
    x = y = t.input("x", ("n",))
    for i in range(15):
        y = t.add(f"more{i}", Eltwise("add"), y, x)
    t.output("y", t.add("picked", Gather(0), y, t.add("places", NonZero(), y)))
    prepare, slow = CompiledPiece.prepare, 1.0
    monkeypatch.setattr(CompiledPiece, "prepare", lambda self, feeds: prepare(self, feeds) + slow)
    monkeypatch.setattr(repeats, "COMPILING_SECONDS", (0.0, 0.0))
    monkeypatch.setattr(repeats, "BINDING_SECONDS", (0.0, 0.0))
    with clgraph.compile(t, device=device) as made:
        for _ in range(2 * ENOUGH):
            made.run({"x": np.float32([1, 0, 2])})
        assert staged(made)._runner.pieces[0].compiled.has_programs
        decided.clear()
        assert made.run({"x": np.float32([1, 0, 3])})["y"].tolist() == [[16, 48]]
        assert not decided


class Piece:
    """A piece that runs now here, now there."""

    def __init__(self, topology: Topology) -> None:
        self.on_host, self.names, self.settled = True, ("x",), HostLayers(topology)


def test_joined_runs_of_other_shapes_tell_where_their_pieces_run() -> None:
    t = Topology()
    t.output("y", t.input("x", ("n",)))
    piece, settling = Piece(t), Settling()
    short, long = np.zeros(1, np.float32), np.zeros(2, np.float32)
    for x, piece.on_host in ((short, True), (long, False)):
        for _ in range(1 + ALIKE):
            settling.note(t, [cast(Any, piece)], [x], alone=True)
    for x, on_host in ((short, True), (long, False), (short, True)):
        (got,) = settling.run([x]) or [None]
        assert got is x
        assert piece.on_host is on_host


def test_what_callers_get_is_theirs(device: str) -> None:
    x = np.float32([1, 2, -1])
    with clgraph.compile(found_twice(), device=device) as made:
        for _ in range(ENOUGH):
            made.run({"x": x})
        assert joined(made)
        first = made.run({"x": x})
        first["y"][...] = 7
        np.testing.assert_array_equal(made.run({"x": x})["y"], [[2, 3]])
        assert x.tolist() == [1, 2, -1]


def chosen() -> onnx.ModelProto:
    """A network that picks what is above zero, in one of two ways by the sign of the sum of all."""
    bodies = {
        "then_branch": graph([node("Mul", ["picked", "x"], ["a"])], [], [("a", FLOAT, None)]),
        "else_branch": graph([node("NonZero", ["picked"], ["p"]), node("Cast", ["p"], ["b"], to=FLOAT)], [],
                             [("b", FLOAT, None)]),
    }  # fmt: skip
    nodes = [
        node("Relu", ["x"], ["picked"]),
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "zero"], ["is"]),
        node("If", ["is"], ["y"], **bodies),
    ]
    return model(graph(nodes, [("x", FLOAT, ["n"])], [("y", FLOAT, None)], zero=np.float32(0)))


def test_branches_are_chosen_anew_in_each_run(device: str, decided: list[PieceRunner]) -> None:
    source = chosen()
    with clgraph.compile(source, device) as made:
        for run in range(4 * ENOUGH):
            agrees(made, source, {"x": np.float32([1, -2, 3]) if run % 2 else np.float32([-1, 2, -3])})
        decided.clear()
        for x in ([1, 1, 1], [-1, -1, -1], [3, -1, 3]):
            agrees(made, source, {"x": np.float32(x)})
        others = [piece for piece in decided if piece.bodies]
        assert not others, "which branch it is does not make a run of the model another"


def test_branches_without_layers_pass_on_what_they_are_given(device: str) -> None:
    def passing(*names: str, **constants: np.ndarray) -> onnx.GraphProto:
        nodes = [node("Identity", [name], [f"{name}_{i}"]) for i, name in enumerate(names)]
        return graph(nodes, [], [(f"{name}_{i}", FLOAT, None) for i, name in enumerate(names)], **constants)

    branches = {
        "then_branch": passing("x", "one", "two", one=np.float32([1])),
        "else_branch": passing("two", "x", "none", none=np.float32([0])),
    }
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Greater", ["sum", "most"], ["is"]),
        node("If", ["is"], ["a", "b", "c"], **branches),
    ]
    made_of = [(name, FLOAT, None) for name in "abc"]
    source = model(graph(nodes, [("x", FLOAT, ["m"]), ("two", FLOAT, ["n"])], made_of, most=np.float32(-1)))
    with clgraph.compile(source, device) as made:
        for run in range(2 * ENOUGH):
            x = np.float32([1, -2, run % 2])
            agrees(made, source, {"x": x, "two": np.float32([2, run])})
            got = made.run({"x": x, "two": x})
            assert not any(np.shares_memory(a, x) for a in got.values()), "outputs are the caller's own"


def test_a_failed_run_names_the_layer_and_the_next_one_is_right(device: str) -> None:
    source = model(graph([node("Cast", ["x"], ["y"], to=FLOAT, name="number")], [("x", TensorProto.STRING, ["n"])],
                         [("y", FLOAT, ["n"])]))  # fmt: skip
    with clgraph.compile(source, device) as made:
        for _ in range(ENOUGH):
            made.run({"x": np.array(["1", "2.5"], object)})
        assert joined(made)
        with pytest.raises(InputError, match="node 'number'"):
            made.run({"x": np.array(["1", "one"], object)})
        assert made.run({"x": np.array(["1", "3"], object)})["y"].tolist() == [1, 3]


def test_large_values_are_not_held_until_the_run_is_over(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settled, "_MOST_BYTES", 8)
    with clgraph.compile(found_twice(), device=device) as made:
        for _ in range(ENOUGH):
            made.run({"x": np.float32([1, 2, -1])})
        assert not joined(made)


def test_what_is_prepared_meanwhile_runs(device: str) -> None:
    x = np.float32([1, 2, -1])
    with clgraph.compile(found_twice(), device=device) as made:
        for _ in range(ENOUGH):
            made.run({"x": x})
        assert joined(made)
        made.prepare({"x": (3,)})
        np.testing.assert_array_equal(made.run({"x": x})["y"], [[2, 3]])
        assert not staged(made)._runner.pieces[0].on_host


def test_plans_count_for_programs_while_they_are_joined(device: str) -> None:
    t = Topology()
    places = t.add("places", NonZero(), t.input("x", ("n",)))
    value = t.add("picked", Gather(0), "x", places)
    for i in range(40):
        value = t.add(f"more_{i}", Eltwise("add"), value, value)
    t.output("y", value)
    with clgraph.compile(t, device=device) as made:
        x = np.ones(2000, np.float32)
        for _ in range(3000):
            made.run({"x": x})
            if not staged(made)._runner.pieces[-1].on_host:
                break
        else:
            pytest.fail("the host went on computing it")
