"""Move average pooling in front of the 1x1 convolution that it follows. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import ClassVar

from clgraph.core.layout import Layout
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pooling import Pooling
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.weight_scaling import followers
from clgraph.passes.rewriting import apart, read_outside


class HoistPooling(Pass):
    """Let average pooling average what a 1x1 convolution reads instead of what it makes.

    A mean of sums of products is the sum of products of means: equal up to rounding, since every average divides by the
    number of elements it adds. The same holds for constant scales and shifts of the channels between the two. All keep
    their names. Wants that padding is not counted, that nothing else stands between, and that it saves arithmetic.
    """

    name: ClassVar[str] = "hoist_pooling"
    handles: ClassVar[Mapping[str, str]] = {
        "convolution": "of one point: what averages its result averages its input instead",
        "pooling": "an average moves in front of the 1x1 convolution that it follows",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, moved = list[str](), 0
        for pool in program:
            chain = _in_front(program, pool)
            if not chain:
                continue
            conv = chain[0]
            if (reason := _why_not(program, chain, pool)) is not None:
                notes.append(f"{pool.name}: not in front of {conv.name}: {reason}")
                continue
            _hoist(program, chain, pool)
            notes.append(f"{pool.name}: in front of {conv.name}, which it followed")
            moved += 1
        self.note(program, notes)
        return moved


def _in_front(program: Program, pool: Node) -> list[Node]:
    """Return the 1x1 convolution that an average follows, with what scales its channels between; empty for none."""
    if not isinstance(pool.primitive, Pooling) or pool.primitive.function != "average":
        return []
    between, node = list[Node](), pool.inputs[0].producer
    while node is not None and isinstance(node.primitive, Activation | Eltwise):
        between.insert(0, node)
        moving = [v for v in node.inputs if v.constant is None]
        node = moving[0].producer if len(moving) == 1 else None
    if node is None or not isinstance(node.primitive, Convolution) or prod(node.inputs[1].layout.shape[2:]) != 1:
        return []
    return [node, *between] if not between or followers(program, node)[0] == between else []


def _hoist(program: Program, chain: Sequence[Node], pool: Node) -> None:
    """Put *pool* in front of *chain*, whose nodes are made again on the smaller values."""
    first = program.insert(pool.primitive, [chain[0].inputs[0]], sources=[pool], before=chain[-1])
    old, value, made = chain[0].inputs[0], first.output, list[Node]()
    for node in chain:
        inputs = [value if v is old else v for v in node.inputs]
        made.append(program.insert(node.primitive, inputs, sources=[node], before=pool))
        old, value = node.output, made[-1].output
    program.rewire(pool.output, value)
    for node in (pool, *reversed(chain)):
        program.erase(node)
    first.name = pool.name
    for node, copy in zip(chain, made, strict=True):
        copy.name, copy.output.name = node.name, node.output.name
    value.name = pool.output.name


def _why_not(program: Program, chain: Sequence[Node], pool: Node) -> str | None:
    conv, p = chain[0], pool.primitive
    c = conv.primitive
    assert isinstance(c, Convolution)
    assert isinstance(p, Pooling)
    if conv.fused or pool.fused:
        return "operations are fused into one of them"
    if prod(c.strides) != 1 or any(map(any, c.pads)):
        return "the convolution has strides or pads"
    if p.count_include_pad and (any(map(any, p.pads)) or p.ceil_mode):
        return "it counts its padding, which the convolution's bias would not reach"
    if (why := read_outside(program, chain[-1].output, [pool]) or apart([*chain, pool])) is not None:
        return why
    x = conv.inputs[0].layout.plain()
    (small,) = p.infer([x])
    behind = _flops(c, p, [x, *(v.layout for v in conv.inputs[1:])], conv.output.layout, pool.output.layout)
    front = p.flops([x], [small]) + c.flops([small, *(v.layout for v in conv.inputs[1:])], [pool.output.layout])
    return None if front < behind else "it would be no less arithmetic"


def _flops(c: Convolution, p: Pooling, inputs: list[Layout], between: Layout, result: Layout) -> float:
    return c.flops(inputs, [between]) + p.flops([between], [result])
