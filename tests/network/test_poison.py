"""Runs on memory full of NaN: right programs do not notice, and wrong kernels and plans do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ProgramError
from clgraph.graph.node import Value
from clgraph.graph.program import Milestone, Program
from clgraph.network.network import Network
from clgraph.network.poison import NAN, lives_in, planned_lives, poisoned_steps
from clgraph.passes.base import Context
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch, Plan, Table
from clgraph.selector.query import Query
from tests.support.models import image, small_model
from tests.support.poisoned import network_of, same_bits
from tests.support.tiny import Scale, ScaleLaunch, ScaleTile, linked, planned

pytestmark = pytest.mark.opencl


class Peek(Implementation[Scale]):
    """Adds nothing times the element behind its own: right wherever that happens to be a number."""

    name = "test.scale.peek"
    serves = Serves(dtypes=frozenset({DType.F32}))
    general = True

    @classmethod
    def plan(cls, q: Query[Scale]) -> Plan:
        count = q.inputs[0].count
        jit = Jit().define(T=DType.F32)
        return Plan((Launch("peek_test.cl", "peek_test", jit, (count,), None, ("in0", "out0", Table((count,)))),))


def chain(engine: Any, chosen: list[Any], out_of_order: bool = False) -> Program:
    """Return x -> a -> b -> c -> d, where d multiplies relu of a by c, with the memory that the passes plan."""
    x = Value("x", Layout(DType.F32, (3, 35)))
    a = linked(x, Scale(1.5, 1), "a")
    b = linked(a.output, Scale(-0.5, 2), "b")
    c = linked(b.output, Scale(3.0, 2), "c")
    d = linked(a.output, Scale(2.0, 1), "d", c.output)
    program = Program([x], [("y", d.output)], [a, b, c, d])
    planned(program, engine.info, chosen)
    program.milestone = Milestone.SELECTED
    for value in program.values:
        value.buffer = None
    context = Context(devices={engine.info.name: engine.info}, out_of_order=out_of_order)
    for step in (MemoryDependencies(), OooqMemoryDependencies(), PlanMemory()):
        step.run(program, context)
    program.milestone = Milestone.PLANNED
    return program


RIGHT = [ScaleTile, ScaleLaunch, ScaleTile, ScaleTile]
X = {"x": image((3, 35))}


def runs(program: Program, engine: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of a plain run and of a poisoned one."""
    engines = {engine.info.name: engine}
    return tuple(Network(program, engines, poison=poison).run(X)["y"] for poison in (False, True))


@pytest.mark.parametrize("out_of_order", [False, True])
def test_a_right_program_does_not_notice(out_of_order: bool, engine: Any) -> None:
    plain, poisoned = runs(chain(engine, RIGHT, out_of_order), engine)
    assert np.isfinite(plain).all()
    assert np.array_equal(plain, poisoned)


def test_a_kernel_that_reads_what_it_did_not_declare_is_found(engine: Any) -> None:
    for place in (1, 2):
        chosen = [*RIGHT[:place], Peek, *RIGHT[place + 1 :]]
        _, poisoned = runs(chain(engine, chosen), engine)
        assert np.isnan(poisoned).any()
        assert np.isnan(poisoned).sum() < poisoned.size


def test_a_plan_that_ends_a_life_one_step_early_is_found(engine: Any) -> None:
    program = chain(engine, RIGHT)
    buffer = program["a"].output.buffer
    assert buffer.last == 3
    buffer.last -= 1
    plain, poisoned = runs(program, engine)
    assert np.isfinite(plain).all()
    # The relu of NaN is 0, and so is all of the result.
    assert not poisoned.any()


def test_a_plan_that_places_two_lives_over_each_other_is_found(engine: Any) -> None:
    program = chain(engine, RIGHT)
    right, _ = runs(program, engine)
    for victim, other in (("a", "b"), ("a", "c")):
        spoilt = chain(engine, RIGHT)
        spoilt[other].output.buffer.offset = spoilt[victim].output.buffer.offset
        _, poisoned = runs(spoilt, engine)
        assert not np.array_equal(poisoned, right)


def test_a_scratch_that_is_read_before_it_is_written_is_found(engine: Any) -> None:
    class Lazy(ScaleLaunch):
        @classmethod
        def plan(cls, q: Query[Scale]) -> Plan:
            whole = super().plan(q)
            return Plan(whole.steps[1:], whole.scratch)

    _, poisoned = runs(chain(engine, [ScaleTile, Lazy, ScaleTile, ScaleTile]), engine)
    assert np.isnan(poisoned).all()


class Fills:
    """Stands for the memory of a device: notes what is filled."""

    constant_banks: tuple[()] = ()
    engine = SimpleNamespace(stream=SimpleNamespace(finish=lambda: None))

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []

    def fill(self, offset: int, nbytes: int, byte: int) -> None:
        assert byte == NAN
        self.found.append((offset, nbytes))


def test_everything_is_filled_at_the_start_and_each_buffer_at_both_ends_of_its_life(engine: Any) -> None:
    program = chain(engine, RIGHT)
    fills = Fills()
    for step in poisoned_steps(program, [], {engine.info.name: fills}, {}):
        step()
    x = program.inputs[0].buffer
    arena = program.arenas[engine.info.name].nbytes
    ends = [(b, end) for b, life in planned_lives(program).items() for end in life if 0 <= end < len(program)]
    outside = len(fills.found) - len(ends)
    start = {byte for at, count in fills.found[:outside] for byte in range(at, at + count)}
    assert start == set(range(arena)) - set(range(x.offset, x.offset + x.nbytes))
    assert sorted(fills.found[outside:]) == sorted((b.offset, -(-b.nbytes // 64) * 64) for b, _ in ends)
    assert len(ends) > 2 * len(program) - 2


def test_lives_from_the_edges_cover_those_of_the_plan(engine: Any) -> None:
    program = chain(engine, RIGHT)
    lives = lives_in(program, list(program))
    for buffer, (first, last) in planned_lives(program).items():
        assert lives[buffer][0] <= first
        assert last <= lives[buffer][1]


def test_without_any_optional_pass_nothing_shares_and_poison_is_not_noticed(device: str) -> None:
    model, feeds = small_model(33, 11), {"x": image((1, 3, 11, 11))}
    config = {"stop_after": "init"}
    plain = clgraph.compile(model, device, config=config).run(feeds)
    assert same_bits(clgraph.compile(model, device, config=config | {"poison": True}).run(feeds), plain)


class Spill(ScaleLaunch):
    """Scales right, and then clears one element behind its result."""

    name = "test.scale.spill"

    @classmethod
    def plan(cls, q: Query[Scale]) -> Plan:
        whole = super().plan(q)
        jit, count = Jit().define(T=DType.F32), q.outputs[0].count
        spill = Launch("spill_test.cl", "spill_test", jit, (1,), None, ("out0", Table((count,))))
        return Plan((*whole.steps, spill), whole.scratch)


def test_a_kernel_that_writes_behind_its_result_is_named(engine: Any) -> None:
    program = chain(engine, [Spill, *RIGHT[1:]])
    Network(program, {engine.info.name: engine}).run(X)
    network = Network(program, {engine.info.name: engine}, poison=True)
    with pytest.raises(ProgramError, match=r"node 'a': test\.scale\.spill writes 4 bytes outside of its results"):
        network.run(X)


def test_a_change_of_constants_is_found(device: str) -> None:
    feeds = {"x": image((1, 3, 11, 11))}
    model = clgraph.compile(small_model(33, 11), device, config={"poison": True})
    model.run(feeds)
    bound = network_of(model).bound
    (places,) = bound.places.values()
    bank, zeros = places.constant_banks[0], np.zeros(64, np.uint8)
    bound.steps.insert(-1, lambda: places.engine.stream.write(bank, 0, zeros))
    with pytest.raises(ProgramError, match=r"bytes of the constants of .* changed in a run"):
        model.run(feeds)
