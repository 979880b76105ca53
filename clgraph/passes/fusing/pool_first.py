"""Average pooling in front of the 1x1 convolution that it follows."""

from __future__ import annotations

from math import prod

from clgraph.core.layout import Layout
from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.convolution import Convolution
from clgraph.ops.pooling import Pooling
from clgraph.passes.rewriting import apart, read_outside


def pool_first(program: Program, pool: Node, table: list[str]) -> Node | None:
    """Let *pool* average what a 1x1 convolution reads instead of what it makes, or note why not.

    A mean of sums of products is the sum of products of means: equal up to rounding, since every average divides by the
    number of elements it adds. Both keep their names. Wants that padding is not counted, that nothing stands between,
    and that it saves arithmetic.

    Returns:
        The convolution, which now makes the result; ``None`` where nothing changed.
    """
    p, conv = pool.primitive, pool.inputs[0].producer if pool.inputs else None
    if not isinstance(p, Pooling) or p.function != "average" or conv is None:
        return None
    c = conv.primitive
    if not isinstance(c, Convolution) or prod(conv.inputs[1].layout.shape[2:]) != 1:
        return None
    reason = _why_not(program, conv, pool, c, p)
    if reason is not None:
        table.append(f"{pool.name}: not in front of {conv.name}: {reason}")
        return None
    between = program.insert(p, [conv.inputs[0]], sources=[pool], before=conv)
    made = program.insert(c, [between.output, *conv.inputs[1:]], sources=[conv], before=pool)
    names = pool.name, conv.name, pool.output.name
    program.rewire(pool.output, made.output)
    program.erase(pool)
    program.erase(conv)
    between.name, made.name, made.output.name = names
    table.append(f"{between.name}: in front of {made.name}, which it followed")
    return made


def _why_not(program: Program, conv: Node, pool: Node, c: Convolution, p: Pooling) -> str | None:
    if conv.fused or pool.fused:
        return "operations are fused into one of them"
    if prod(c.strides) != 1 or any(map(any, c.pads)):
        return "the convolution has strides or pads"
    if p.count_include_pad and (any(map(any, p.pads)) or p.ceil_mode):
        return "it counts its padding, which the convolution's bias would not reach"
    if (why := read_outside(program, conv.output, [pool]) or apart([conv, pool])) is not None:
        return why
    x = conv.inputs[0].layout.plain()
    (small,) = p.infer([x])
    behind = _flops(c, p, [x, *(v.layout for v in conv.inputs[1:])], conv.output.layout, pool.output.layout)
    front = p.flops([x], [small]) + c.flops([small, *(v.layout for v in conv.inputs[1:])], [pool.output.layout])
    return None if front < behind else "it would be no less arithmetic"


def _flops(c: Convolution, p: Pooling, inputs: list[Layout], between: Layout, result: Layout) -> float:
    return c.flops(inputs, [between]) + p.flops([between], [result])
