"""The memory passes together: memory_dependencies, oooq_memory_dependencies, plan_memory."""

from __future__ import annotations

import random

import numpy as np
import pytest

from clgraph.errors import DeviceMemoryError
from clgraph.graph.buffer import Buffer
from clgraph.graph.program import Node, Program
from clgraph.ops.concat import Concat
from clgraph.ops.reshape import Reshape
from clgraph.ops.split import Split
from clgraph.passes.base import Context
from clgraph.passes.memory_dependencies import MemoryDependencies
from clgraph.passes.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.partition import Partition
from clgraph.passes.plan_memory import PlanMemory, lower_bound
from clgraph.passes.plan_memory import buffers_of as planned_buffers
from clgraph.passes.prepare_buffer_fusing import PrepareBufferFusing
from clgraph.passes.selection import is_in_place, select
from clgraph.selector.query import DeviceInfo
from tests.support.fakes import fake_registry
from tests.support.memory import buffers_of, simulate, violations
from tests.support.programs import ADD, RELU, Net, compile_all

ORDERED, UNORDERED = Context(), Context(out_of_order=True)


def plan(program: Program, context: Context) -> Program:
    """Place, share, choose and plan, without any other rewrite."""
    Partition().run(program, context)
    PrepareBufferFusing().run(program, context)
    for node in program:
        if not is_in_place(node):
            node.choice = select(context, node)
    for step in (MemoryDependencies(), OooqMemoryDependencies(), PlanMemory()):
        step.run(program, context)
    return program


def random_program(seed: int) -> Program:
    """Return a random graph of 2 to 40 nodes: chains, diamonds, wide layers, dead ends, and values in one buffer."""
    pick = random.Random(seed)
    net = Net()
    made = [net.input(f"x{i}", (1, 16, 2, 2)) for i in range(pick.randint(1, 3))]
    small = list(made)
    for i in range(pick.randint(2, 40)):
        reach = small[-pick.choice([1, 2, 4, 50]) :]
        kind = pick.choice(["relu", "relu", "add", "add", "conv", "concat", "split", "reshape"])
        a, b = pick.choice(reach), pick.choice(reach)
        if kind == "relu":
            small.append(net.add(f"n{i}", RELU, a))
        elif kind == "add":
            small.append(net.add(f"n{i}", ADD, a, b))
        elif kind == "conv":
            small.append(net.conv(f"n{i}", a, 16, 16))
        elif kind == "concat":
            parts = [pick.choice(small) for _ in range(pick.randint(2, 4))]
            joined = net.add(f"c{i}", Concat(1), *parts)
            net.add(f"n{i}", Split(1, (16,) * len(parts)), joined, outputs=[f"n{i}_{k}" for k in range(len(parts))])
            small += [f"n{i}_{k}" for k in range(len(parts))]
        elif kind == "split":
            joined = net.add(f"c{i}", Concat(2), a, b)
            small.append(net.add(f"n{i}", Reshape((1, 32, 2, 2)), joined))
            net.add(f"s{i}", Split(1, (16, 16)), small.pop(), outputs=(f"s{i}a", f"s{i}b"))
            small += [f"s{i}a", f"s{i}b"]
        else:
            flat = net.add(f"f{i}", Reshape((1, 64)), a)
            small.append(net.add(f"n{i}", Reshape((1, 16, 2, 2)), flat))
    for name in {pick.choice(small) for _ in range(pick.randint(1, 3))}:
        net.output(name)
    return net.build()


def any_order(program: Program, seed: int) -> list[Node]:
    """Return a random valid order of execution."""
    pick, done, order = random.Random(seed), set[Node](), list[Node]()
    waiting = list(program)
    while waiting:
        ready = [n for n in waiting if all(v.producer is None or v.producer in done for v in n.inputs)]
        node = pick.choice(ready)
        waiting.remove(node)
        done.add(node)
        order.append(node)
    return order


def check_random(seed: int) -> None:
    for context in (ORDERED, UNORDERED):
        program = plan(random_program(seed), context)
        assert violations(program, out_of_order=context.out_of_order) == []
        assert all(b.offset is not None and b.offset % 64 == 0 for b in buffers_of(program))
        orders = [list(program)] + [any_order(program, s) for s in range(3 if context.out_of_order else 0)]
        for order in orders:
            simulate(program, order)
        arena = program.arenas["null"]
        assert max(b.offset + b.nbytes for b in buffers_of(program)) <= arena.nbytes
        assert arena.lower_bound <= arena.nbytes <= arena.unshared


@pytest.mark.parametrize("block", range(10))
def test_random_graphs_keep_every_value_until_its_last_reader(block: int) -> None:
    for seed in range(block * 30, block * 30 + 30):
        check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_ten_thousand_random_graphs(block: int) -> None:
    with fake_registry():
        for seed in range(1000 + block * 100, 1100 + block * 100):
            check_random(seed)


def test_the_oracle_finds_a_planner_that_shares_too_much() -> None:
    """A buffer whose last reader is forgotten must show up in both checks."""
    found = 0
    for seed in range(40):
        program = plan(random_program(seed), ORDERED)
        victims = [b for b in buffers_of(program) if b.conflicts]
        for one in victims:
            for other in one.conflicts:
                other.conflicts.pop(one)
        PlanMemory().run(program, ORDERED)
        bad = bool(violations(program, out_of_order=False))
        if bad:
            with pytest.raises(AssertionError):
                simulate(program, list(program))
        found += bad
    assert found > 20


def test_parallel_branches_share_in_order_and_not_out_of_order() -> None:
    for context in (ORDERED, UNORDERED):
        net = Net()
        x = net.input("x", (1, 16, 8, 8))
        left = net.conv("l2", net.conv("l1", x, 16, 16), 16, 16)
        right = net.conv("r2", net.conv("r1", x, 16, 16), 16, 16)
        net.add("sum", ADD, left, right)
        program = plan(net.program("sum"), context)
        first, second = (program[n].output.buffer for n in ("l1", "r1"))
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
    names = {b.name for b in planned_buffers(program)}
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


def test_no_buffer_crosses_a_bank() -> None:
    context = Context(devices={"null": DeviceInfo(max_alloc=10_000)})
    program = plan(random_program(8), context)
    assert program.arenas["null"].nbytes > 0
    for buffer in buffers_of(program):
        bank = 10_000 // 64 * 64
        assert buffer.offset // bank == (buffer.offset + buffer.nbytes - 1) // bank
    with pytest.raises(DeviceMemoryError, match="at most 64 at once"):
        plan(random_program(8), Context(devices={"null": DeviceInfo(max_alloc=100)}))


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
