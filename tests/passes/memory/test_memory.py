"""The memory passes together: memory_dependencies, oooq_memory_dependencies, plan_memory."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import DeviceMemoryError
from clgraph.graph.buffer import Buffer
from clgraph.ops.reshape import Reshape
from clgraph.passes.base import Context
from clgraph.passes.memory.plan_memory import PlanMemory, _pack, _within_bank, lower_bound, place_few, place_many
from clgraph.selector.query import DeviceInfo
from tests.support.fakes import fake_registry
from tests.support.memory import buffers_of, simulate, violations
from tests.support.programs import ADD, RELU, Net, compile_all
from tests.support.random_dags import ORDERED, UNORDERED, Counts, check_random, plan, random_program


@pytest.mark.parametrize("block", range(3))
def test_random_graphs_keep_every_value_until_its_last_reader(block: int) -> None:
    checked = Counts()
    for seed in range(block * 15, block * 15 + 15):
        checked.add(check_random(seed))
    # 15 plans in order and 15 out of order, three further orders of each of these.
    assert (checked.plans, checked.orders) == (30, 75)
    assert checked.nodes > 600
    assert checked.shared > 150


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_ten_thousand_random_graphs(block: int) -> None:
    with fake_registry():
        for seed in range(45 + block * 100, 145 + block * 100):
            check_random(seed)


def test_the_oracle_finds_a_planner_that_shares_too_much() -> None:
    """A buffer whose last reader is forgotten must show up in both checks."""
    found = 0
    for seed in range(20):
        program = plan(random_program(seed), ORDERED)
        for buffer in buffers_of(program):
            buffer.last = buffer.first
        PlanMemory().run(program, ORDERED)
        bad = bool(violations(program, out_of_order=False))
        if bad:
            with pytest.raises(AssertionError):
                simulate(program, list(program))
        found += bad
    assert found > 10


def test_parallel_branches_share_in_order_and_not_out_of_order() -> None:
    for context in (ORDERED, UNORDERED):
        net = Net()
        x = net.input("x", (1, 16, 8, 8))
        left = net.conv("l2", net.conv("l1", x, 16, 16), 16, 16)
        right = net.conv("r2", net.conv("r1", x, 16, 16), 16, 16)
        net.add("sum", ADD, left, right)
        program = plan(net.program("sum"), context)
        first, second = (program[n].output.buffer for n in ("l1", "r1"))
        assert first.meets(second) == context.out_of_order
        assert (first in second.conflicts) == context.out_of_order


def test_an_in_order_queue_adds_nothing_and_says_so() -> None:
    program = plan(random_program(3), ORDERED)
    assert "the queue runs in order" in program.notes["oooq_memory_dependencies"]


def test_a_result_takes_over_its_input_only_when_nothing_else_reads_it() -> None:
    net = Net()
    h = net.add("h", RELU, net.input("x", (1, 16, 8, 8)))
    net.add("y", RELU, net.add("a", ADD, net.add("g", RELU, h), h))
    program = plan(net.program("y"), ORDERED)
    buffers = {n.name: n.output.buffer for n in program}
    assert buffers["g"] is not buffers["h"]
    assert buffers["a"] in (buffers["g"], buffers["h"])
    assert buffers["y"] is buffers["a"]
    assert buffers["h"] is not program.inputs[0].buffer


def test_inputs_outputs_and_scratch_count() -> None:
    net = Net()
    net.conv("y", net.input("x", (1, 16, 8, 8)), 16, 16)
    program = compile_all(net.program("y"))
    names = {b.name for b in program.buffers}
    assert {"x", "y/scratch0"} <= names
    arena = program.arenas["null"]
    assert arena.lower_bound >= 2 * 4096 + 1024
    assert arena.nbytes == arena.lower_bound


def test_a_chain_needs_two_buffers_and_an_output_is_never_reused() -> None:
    net = Net()
    h = net.input("x", (1, 16, 8, 8))
    names = [h := net.conv(f"c{i}", h, 16, 16) for i in range(9)]
    program = plan(net.program(names[-1]), Context(denied=frozenset({"convolution.blocked"})))
    assert program.arenas["null"].nbytes == 2 * 4096
    net = Net()
    h = net.input("x", (1, 16, 8, 8))
    names = [h := net.conv(f"c{i}", h, 16, 16) for i in range(9)]
    program = plan(net.program(*names), Context(denied=frozenset({"convolution.blocked"})))
    assert len({n.output.buffer.offset for n in program}) == 9


@pytest.fixture(params=["few", "many"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Place buffers one against the other, and by columns of numbers."""
    monkeypatch.setattr("clgraph.passes.memory.plan_memory.FEW", 200 if request.param == "few" else 0)


def test_few_buffers_are_placed_as_many_are() -> None:
    random = np.random.default_rng(0)
    for bank in (1 << 40, 4096, 8192):
        for count in random.integers(1, 70, 40):
            rows = random.integers((0, -1, 0), (3000, 40, 12), (count, 3)).tolist()
            buffers = [Buffer(str(i), n, first=at, last=at + more) for i, (n, at, more) in enumerate(rows)]
            numbers = {b: (i, None) for i, b in enumerate(buffers)}
            found = place_few(buffers, bank)
            assert found == place_many(buffers, bank, conflicts=numbers)
            assert found is not None
            end = max(at + -(-b.nbytes // 64) * 64 for b, at in found.items())
            for most, wanted in ((end, found), (end - 1, None)):
                assert place_few(buffers, bank, most) == place_many(buffers, bank, most, conflicts=numbers) == wanted


@pytest.mark.usefixtures("ways")
def test_no_buffer_crosses_a_bank() -> None:
    context = Context(devices={"null": DeviceInfo(max_alloc=10_000)})
    program = plan(random_program(8), context)
    assert program.arenas["null"].nbytes > 0
    for buffer in buffers_of(program):
        bank = 10_000 // 64 * 64
        assert buffer.offset // bank == (buffer.offset + buffer.nbytes - 1) // bank
    with pytest.raises(DeviceMemoryError, match="at most 64 at once"):
        plan(random_program(8), Context(devices={"null": DeviceInfo(max_alloc=100)}))


@pytest.mark.usefixtures("ways")
def test_buffers_that_would_cross_a_bank_start_the_next_and_one_that_ends_with_it_stays() -> None:
    bank = 10_000 // 64 * 64
    net = Net()
    # All live from the beginning to the end: two of the first kind and one of the second do not fit one bank.
    sizes = {"a": 6400, "b": 6400, "c": 6400, "rest": bank - 6400}
    for name, nbytes in sizes.items():
        net.add(f"{name}_out", RELU, net.input(name, (1, nbytes // 4)))
    program = plan(net.program(*(f"{n}_out" for n in sizes)), Context(devices={"null": DeviceInfo(max_alloc=10_000)}))
    found = {v.name: v.buffer.offset for v in program.inputs if v.buffer is not None}
    assert len({found[n] // bank for n in "abc"}) == 3
    assert 0 in {(found[n] + nbytes) % bank for n, nbytes in sizes.items()}
    for buffer in buffers_of(program):
        assert buffer.offset // bank == (buffer.offset + buffer.nbytes - 1) // bank


def test_offsets_are_looked_at_one_by_one_only_where_the_last_leaves_the_first_bank() -> None:
    at = np.array([0, 64, 128])
    assert _within_bank(at, 64, 192) is at
    np.testing.assert_array_equal(_within_bank(at, 128, 192), [0, 64, 192])
    np.testing.assert_array_equal(_within_bank(np.array([0, 192, 320]), 64, 192), [0, 192, 320])
    np.testing.assert_array_equal(_within_bank(np.array([64, 320, 384]), 128, 192), [64, 384, 384])


def test_buffers_that_end_last_get_earlier_turns() -> None:
    """None of the orders finds the least memory here, nor do 64 moves of any buffer within them."""
    rows = [(1, 0, 1), (2, 1, 3), (2, 2, 4), (3, 3, 5), (2, 4, 6), (3, 5, 8), (1, 6, 7), (3, 7, 8)]
    buffers = [Buffer(str(i), 64 * n, first=first, last=last) for i, (n, first, last) in enumerate(rows)]
    assert _pack(buffers, 1 << 40, (0, 1, 2, 3), PlanMemory().moves).nbytes == lower_bound(buffers)


def test_the_lower_bound_is_the_most_bytes_alive() -> None:
    buffers = [Buffer("a", 100, first=0, last=2), Buffer("b", 64, first=1, last=1), Buffer("c", 1, first=2, last=5)]
    assert lower_bound(buffers) == 128 + 64
    random_ = np.random.default_rng(0)
    for _ in range(50):
        starts = random_.integers(0, 20, 12)
        rows = zip(starts, *random_.integers(0, 500, (2, 12)), strict=True)
        made = [Buffer("x", int(n), first=int(s), last=int(s + d)) for s, n, d in rows]
        alive = [sum(-(-b.nbytes // 64) * 64 for b in made if b.first <= t <= b.last) for t in range(600)]
        assert lower_bound(made) == max(alive)


def test_an_input_that_is_also_read_through_a_view_is_not_taken_over() -> None:
    for view in (True, False):
        net = Net()
        h = net.add("h", RELU, net.input("x", (1, 4, 4, 4)))
        other = net.add("view", Reshape((4, 4, 4)), h) if view else net.add("other", RELU, "x")
        net.add("z", ADD, h, other)
        program = plan(net.program("z"), ORDERED)
        assert (program["h"].output.buffer is program["z"].output.buffer) == (not view)


def test_out_of_order_a_chain_needs_two_buffers_too() -> None:
    net = Net()
    h = net.input("x", (1, 16, 8, 8))
    for i in range(9):
        h = net.conv(f"c{i}", h, 16, 16)
    program = plan(net.program(h), Context(out_of_order=True, denied=frozenset({"convolution.blocked"})))
    assert program.arenas["null"].nbytes == 2 * 4096
