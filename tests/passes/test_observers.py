from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

from clgraph.errors import ProgramError
from clgraph.graph.program import Milestone, Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Quantize
from clgraph.passes.base import Context, Pass
from clgraph.passes.constants.copying import copy_program
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import Dump, Time, Verify, _one_a_line
from clgraph.passes.patterns.init import Init
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.reference import random_feeds, run_reference
from clgraph.passes.verify_numbers import VerifyNumbers
from clgraph.selector.query import DeviceInfo
from tests.support.programs import ADD, RELU, Net, compile_all


@dataclass(frozen=True)
class Wrong(Pass):
    """Multiply the bias of the first convolution by a little more than 1, or break an edge."""

    how: str = "numbers"
    name = "wrong"
    needs = Milestone.BUILT

    def run(self, program: Program, context: Context) -> int:
        node = next(n for n in program if n.primitive.kind == "convolution")
        if self.how == "edges":
            node.inputs[0].unlink(node, 0)
        elif self.how == "order":
            program._order.nodes.reverse()
        else:
            program.rewire(
                node.inputs[1], replace(node.inputs[1], constant=node.inputs[1].constant * np.float32(1.001))
            )
        return 1


def _net() -> Net:
    net = Net()
    h = net.conv("a", net.input("x", (1, 16, 12, 12)), 16, 16)
    net.add("y", ADD, net.conv("b", net.add("relu", RELU, h), 16, 16, kernel=3), h)
    return net


def _with_wrong(place: int, how: str = "numbers") -> list[Pass]:
    passes = list(default_pipeline())
    passes.insert(place, Wrong(how))
    return passes


@pytest.mark.parametrize("place", [0, 1, 3, 9, 12, 15, 17])
def test_the_first_pass_that_changes_results_is_named(place: int) -> None:
    manager = PassManager(_with_wrong(place), [VerifyNumbers(Context())])
    with pytest.raises(ProgramError, match=f"pass {place:02} wrong changes output 'y': computed by the references"):
        manager.run(_net().program("y"), Context())


def test_right_passes_are_not_named() -> None:
    PassManager(default_pipeline(), [VerifyNumbers(Context())]).run(_net().program("y"), Context())


def test_from_compile_graph_on_the_device_is_asked() -> None:
    calls: list[Milestone] = []

    def execute(part: Program, feeds):
        calls.append(part.milestone)
        if not part.inputs:
            from clgraph.core.packing import pack

            node = next(iter(part))
            return (
                {"0": pack(node.reference(node.inputs[0].constant)[0], node.output.layout)}
                if len(part.outputs) == 1
                else {
                    name: pack(n.reference(n.inputs[0].constant)[0], n.output.layout)
                    for (name, v) in part.outputs
                    for n in (v.producer.inputs[0].producer,)
                }
            )
        results = run_reference(part, feeds)
        return {k: v * np.float32(1.01) for k, v in results.items()} if len(calls) > 5 else results

    context = Context(execute=execute, build=lambda part: 0)
    with pytest.raises(ProgramError, match="computed on the device"):
        PassManager(default_pipeline(), [VerifyNumbers(context)]).run(_net().program("y"), context)
    assert set(calls) == {Milestone.PLANNED}


@pytest.mark.parametrize("moved", [0.0, 1e-9])
def test_sums_of_doubles_may_be_added_in_any_order(moved: float) -> None:
    length = 4096
    t = Topology()
    x, w = t.input("x", (1, length), np.float64), t.input("w", (length, 1), np.float64)
    t.output("y", t.add("y", MatMul(), x, w))
    program, rng = t.build(), np.random.default_rng(1)
    # The terms are some thousands, their sum is 1: a unit of the sum is far less than the order of its terms moves.
    terms = rng.standard_normal(length // 2) * 1e3
    terms[-1] = 1.0
    signs = np.ones((length, 1))
    signs[length // 2 : -1] = -1
    feeds = {"x": np.concatenate([terms, terms])[None], "w": signs / 2}
    watcher = VerifyNumbers(Context(execute=lambda part, given: {"y": _one_by_one(given, moved)}), feeds)
    watcher.before(0, Wrong(), program)
    program.milestone = Milestone.PLANNED
    if moved:
        with pytest.raises(ProgramError, match="rounding does not explain"):
            watcher.confirm(program, "it")
    else:
        watcher.confirm(program, "it")


@pytest.mark.parametrize(("quotient", "explained"), [(25.50001, True), (25.4, False)])
def test_what_lies_as_near_to_a_half_as_rounding_may_be_a_step_off(quotient: float, explained: bool) -> None:
    program, feeds = _quantised(), {"x": np.full((1, 3), quotient * 0.1, np.float32)}
    steps = np.float32([[2.6, 2.5 if explained else 2.6, 2.6]])
    watcher = VerifyNumbers(Context(execute=lambda part, given: {"y": steps}), feeds)
    watcher.before(0, Wrong(), program)
    program.milestone = Milestone.PLANNED
    if explained:
        watcher.confirm(program, "it")
    else:
        with pytest.raises(ProgramError, match="rounding does not explain"):
            watcher.confirm(program, "it")


@pytest.mark.parametrize(("quotient", "explained"), [(25.501, True), (25.3, False)])
def test_behind_a_pass_that_rounds_so_may_what_its_rounding_moves_there(quotient: float, explained: bool) -> None:
    program, feeds = _quantised(), {"x": np.full((1, 3), quotient * 0.1, np.float32)}
    manager = PassManager([Halves(0.9998 if explained else 0.95)], [VerifyNumbers(HALF, feeds)])
    if explained:
        manager.run(program, HALF)
    else:
        with pytest.raises(ProgramError, match="halves changes output"):
            manager.run(program, HALF)


HALF = Context({"gpu": DeviceInfo("gpu", "gpu", simd=1)}, precision="f16")


@dataclass(frozen=True)
class Halves(Pass):
    """Says that it rounds, and multiplies the input by *factor*."""

    factor: float
    name = "halves"
    rounds = True

    def coarsest(self, context: Context) -> float:
        return 2.0**-10

    def run(self, program: Program, context: Context) -> int:
        (x,), first = program.inputs, program["q"]
        made = program.insert(Activation("linear", self.factor), [x], sources=[first], before=first)
        program.rewire(x, made.output, uses=[(first, 0)])
        return 1


def _quantised() -> Program:
    t = Topology()
    scale, zero = t.constant("scale", np.array(0.1, np.float32)), t.constant("zero", np.array(0, np.uint8))
    q = t.add("q", Quantize(), t.input("x", (1, 3)), scale, zero)
    t.output("y", t.add("y", Dequantize(), q, scale, zero))
    return t.build()


def _one_by_one(feeds, moved: float) -> np.ndarray:
    return np.cumsum(feeds["x"].ravel() * feeds["w"].ravel())[-1:, None] + moved


@pytest.mark.parametrize(
    ("how", "message"), [("edges", "does not list it as a reader"), ("order", "before it is made")]
)
def test_a_broken_program_names_the_pass(how: str, message: str) -> None:
    with pytest.raises(ProgramError, match=f"after pass 03 wrong: .*{message}"):
        PassManager(_with_wrong(3, how), [Verify()]).run(_net().program("y"), Context())


def test_dumps_are_numbered_and_readable(tmp_path) -> None:
    compile_all(_net().program("y"), observers=[Dump(tmp_path / "dumps")])
    passes = [p.name for p in default_pipeline()]
    expected = {"built", *(f"{i:02}_{name}" for i, name in enumerate(passes))}
    for suffix in ("txt", "dot", "json"):
        assert {p.stem for p in (tmp_path / "dumps").glob(f"*.{suffix}")} == expected
    last = json.loads((tmp_path / "dumps" / f"{len(passes) - 1:02}_build_kernels.json").read_text())
    assert last["milestone"] == "planned"
    assert all(node["implementation"] for node in last["nodes"])
    assert last["arenas"]["null"]["nbytes"] >= last["arenas"]["null"]["lower_bound"]
    assert (tmp_path / "dumps" / "built.txt").read_text().startswith("program built\n  input x f32:bfyx:1x16x12x12\n")


def test_an_element_of_a_dumps_lists_is_a_line() -> None:
    found = {"pass": 1, "none": [], "nodes": [{"a": [1, 2]}, "b"], "state": {"c": {}}}
    text = _one_a_line(found)
    assert json.loads(text) == found
    assert text.splitlines()[3:6] == [' "nodes": [', '  {"a": [1, 2]},', '  "b"']


def test_pictures_show_the_annotation_before_partition_and_the_placement_after(tmp_path) -> None:
    program = _net().program("y")
    next(iter(program)).annotation = "left half"
    compile_all(program, observers=[Dump(tmp_path)])
    last = next(tmp_path.glob("*_build_kernels.dot"))
    before, after = (tmp_path / "built.dot").read_text(), last.read_text()
    assert '\\n\\"left half\\""' in before
    assert "@null" not in before
    assert "left half" not in after
    assert "\\n@null" in after


def test_time_has_a_row_a_pass() -> None:
    time = Time()
    compile_all(_net().program("y"), observers=[time])
    assert [name for _, name, _, _ in time.rows] == [p.name for p in default_pipeline()]
    assert all(seconds >= 0 for *_, seconds in time.rows)


def test_exact_references_differ_from_rounded_ones_by_rounding() -> None:
    program = _net().program("y")
    feeds = random_feeds(program)
    exact, rounded = run_reference(program, feeds, exact=True)["y"], run_reference(program, feeds)["y"]
    assert (exact.dtype, rounded.dtype) == (np.float64, np.float32)
    # Two sums of 16 and 144 products of numbers near 1: at most (16 + 144 + 4) roundings of 2**-24 each, times the sum
    # of magnitudes, which the largest result stands in for with a factor of 16.
    bound = 164 * 2.0**-24 * 16 * np.abs(exact).max()
    assert 0 < np.abs(exact - rounded).max() < bound


def test_a_copy_shares_nothing_but_data() -> None:
    program = compile_all(_net().program("y"))
    copy = copy_program(program)
    assert str(copy) == str(program)
    originals = {id(x) for x in (*program, *program.values, *(v.buffer for v in program.values))}
    assert not originals & {id(x) for x in (*copy, *copy.values, *(v.buffer for v in copy.values if v.buffer))}
    assert [v.constant is w.constant for v, w in zip(program.constants, copy.constants, strict=True)] == [True, True]
    Init().run(copy, Context())
