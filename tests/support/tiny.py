"""A tiny primitive with kernels of its own, as ordinary launches and as a tile function, and planned programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.selector.choose import Choice, HostReference
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, PostStep, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves
from clgraph.selector.jit import Jit
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.plan import Launch, Plan, Table, Tile
from clgraph.selector.post import post_codes
from clgraph.selector.query import DeviceInfo, Query, query_of
from clgraph.selector.sources import add_kernel_directory

add_kernel_directory(Path(__file__).parents[1] / "network" / "kernels")

SHIFTS = micro_family("shifts_test", {4: [Micro.of("shift_test.cl", SHIFT=s) for s in (1, 2)]})


@descriptor("scale_add_test", library="test", micros=("shifts_test",))
class ScaleAddDescriptor(Descriptor):
    x: Pointer
    y: Pointer
    count: Int
    chunk: Int
    id: Int
    factor: Float


@descriptor("copy_test", library="test")
class CopyDescriptor(Descriptor):
    x: Pointer
    y: Pointer
    count: Int


@dataclass(frozen=True, slots=True)
class Scale(Primitive):
    """``y = factor * x + shift``; with a second input, ``y = relu(factor * x + shift) * second``."""

    factor: float
    shift: int = 2

    kind: ClassVar[str] = "scale_test"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        y = np.float32(self.factor) * inputs[0] + np.float32(self.shift)
        return (np.maximum(y, np.float32(0)) * inputs[1] if len(inputs) > 1 else y,)


class ScaleTile(Implementation[Scale]):
    """A shift of 1 in 15 even tickets, of 2 in two uneven ones: neighbours in a chain are cut at other places."""

    name = "test.scale.tile"
    serves = Serves(dtypes=frozenset({DType.F32}))
    general = False

    @classmethod
    def plan(cls, q: Query[Scale]) -> Plan:
        count = q.inputs[0].count
        chunk = max(1, -(-count // 15) if q.primitive.shift == 1 else -(-count * 9 // 10))
        one = SHIFTS.id(q.device.simd, Micro.of("shift_test.cl", SHIFT=q.primitive.shift))
        d = ScaleAddDescriptor(Ref("in0"), Ref("out0"), count, chunk, one, q.primitive.factor)
        post: tuple[PostStep, ...] = ()
        if len(q.inputs) > 1:
            post = (PostStep(post_codes()["relu"]), PostStep(post_codes()["mul"], operand=Ref("in1")))
        return Plan((Tile("scale_add_test", d, -(-count // chunk), chunk * 4, post),))


class ScaleLaunch(Implementation[Scale]):
    """In two launches through scratch: first the factor, then the shift."""

    name = "test.scale.launch"
    serves = Serves(dtypes=frozenset({DType.F32}))
    general = True

    @classmethod
    def plan(cls, q: Query[Scale]) -> Plan:
        count, p = q.inputs[0].count, q.primitive
        jit = Jit().define(T=DType.F32)

        def launch(*args: Any) -> Launch:
            return Launch("twice_test.cl", "twice_test", jit, (-(-count // 8) * 8,), (8,), (*args, Table((count,))))

        first = launch("in0", "scratch0", p.factor, 0)
        return Plan((first, launch("scratch0", "out0", 1.0, p.shift)), (count * 4,))


def linked(value: Value, primitive: Primitive, name: str, *others: Value) -> Node:
    """Return a node on *value*."""
    inputs = (value, *others)
    out = Value(name, primitive.infer([v.layout for v in inputs])[0])
    return Node(name, primitive, inputs, (out,), len(inputs), origin=(name,))


def planned(program: Program, info: DeviceInfo, chosen: Sequence[Any], host: frozenset[str] = frozenset()) -> Program:
    """Give every node the next implementation of *chosen* and every value memory of its own, one behind the other."""
    end, bank = 0, info.max_alloc // 64 * 64

    def buffer(name: str, nbytes: int) -> Buffer:
        nonlocal end
        if end // bank != (end + nbytes - 1) // bank:
            end = -(-end // bank) * bank
        made = Buffer(name, nbytes, end, placement=info.name)
        end += -(-nbytes // 64) * 64
        return made

    for value in program.values:
        if value.constant is None:
            value.buffer = buffer(value.name, value.layout.nbytes)
    for node, implementation in zip(program, chosen, strict=True):
        node.placement = "host" if node.name in host else info.name
        query: Query[Any] = query_of(node, info)
        node.choice = Choice(query, HostReference if node.name in host else implementation, 0.0, "forced")
        plan = node.choice.plan()
        node.scratch = tuple(buffer(f"{node.name}/scratch{i}", n) for i, n in enumerate(plan.scratch))
    program.arenas[info.name] = Arena(end, end, end)
    program.milestone = Milestone.PLANNED
    return program
