"""Random graphs with joined, cut and reshaped tensors, planned and checked against the oracle of ``memory.py``."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields

from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.reshape import Reshape
from clgraph.ops.split import Split
from clgraph.passes.base import Context
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.passes.memory.prepare_buffer_fusing import PrepareBufferFusing
from clgraph.passes.placement.partition import Partition
from clgraph.passes.selection import select
from tests.support.memory import buffers_of, simulate, violations
from tests.support.poisoned import any_order
from tests.support.programs import ADD, RELU, Net

ORDERED, UNORDERED = Context(), Context(out_of_order=True)


def plan(program: Program, context: Context) -> Program:
    """Place, share, choose and plan, without any other rewrite."""
    Partition().run(program, context)
    PrepareBufferFusing().run(program, context)
    for node in program:
        if not node.in_place:
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


@dataclass
class Counts:
    """What has been checked: graphs, nodes in them, plans, buffers, those with several values, orders executed."""

    graphs: int = 0
    nodes: int = 0
    plans: int = 0
    buffers: int = 0
    shared: int = 0
    orders: int = 0

    def add(self, other: Counts) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))


def check_random(seed: int) -> Counts:
    """Plan one graph for both kinds of queue; raise ``AssertionError`` where a plan is wrong."""
    counts = Counts(graphs=1)
    for context in (ORDERED, UNORDERED):
        program = plan(random_program(seed), context)
        assert violations(program, out_of_order=context.out_of_order) == []
        buffers = buffers_of(program)
        assert all(b.offset is not None and b.offset % 64 == 0 for b in buffers)
        orders = [list(program)] + [any_order(program, s) for s in range(3 if context.out_of_order else 0)]
        for order in orders:
            simulate(program, order)
        arena = program.arenas["null"]
        assert max(b.offset + b.nbytes for b in buffers) <= arena.nbytes
        assert arena.lower_bound <= arena.nbytes <= arena.unshared
        shared = sum(len(values) > 1 for values in buffers.values())
        counts.add(Counts(0, len(program), 1, len(buffers), shared, len(orders)))
    return counts
