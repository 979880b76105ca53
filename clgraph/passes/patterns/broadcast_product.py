"""Matrix products of many batch axes, a rule of ``decompose`` on CPUs: tiles walk two, and pack constants of four."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from clgraph.core.layout import Shape
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.rewriting import supersede

WALKED = 2
"""Batch axes that tiles of products walk."""

_Moving = tuple[bool, bool]
"""Whether a moves along a batch axis, and whether b does; the other is broadcast."""
_LEFT, _RIGHT = (True, False), (False, True)


def join_batches(program: Program, node: Node) -> bool:
    """Multiply ``[1, inner, M, K]`` by ``[outer, inner, K, N]`` where tiles do not walk the batch as it is.

    Axes along which only b moves come first, then those of both; axes of a alone are further rows. Votes of capsules
    are such, ``[10, 288]`` matrices by ``[2, 1, 288]`` vectors. The result is transposed to the order that it had.
    """
    p = node.primitive
    if not isinstance(p, MatMul) or node.fused or len(node.inputs) > 2 or not node.output.layout.dtype.floating:
        return False
    a, b = node.inputs
    if min(a.layout.rank, b.layout.rank) < 2 or node.output.layout.rank <= WALKED + 2 or not node.output.layout.count:
        return False
    batch, m, k, n = p.sizes(a.layout.shape, b.layout.shape)
    shapes = [_batch_of(x.layout.shape, len(batch)) for x in (a, b)]
    moving = [(x > 1, y > 1) for x, y in zip(*shapes, strict=True)]
    if _walked(moving, p) <= WALKED and (b.constant is None or b.layout.rank <= WALKED + 2):
        return False
    outer, rows = ([i for i, each in enumerate(moving) if each == one] for one in (_RIGHT, _LEFT))
    order = [*outer, *(i for i in range(len(batch)) if i not in outer and i not in rows), *rows]
    rank = len(batch)

    def add(step: Primitive, x: Value) -> Value:
        return program.insert(step, [x], sources=[node], before=node).output

    def turned(x: Value, axes: Sequence[int]) -> Value:
        return x if list(axes) == list(range(x.layout.rank)) else add(Transpose(tuple(axes)), x)

    def shaped(x: Value, shape: Shape) -> Value:
        return x if x.layout.shape == shape else add(Reshape(shape, zero_is_zero=True), x)

    def size(axes: Sequence[int]) -> int:
        return prod(batch[i] for i in axes)

    inner = size(order) // (size(outer) * size(rows))
    left = turned(shaped(a, (*shapes[0], *a.layout.shape[-2:])), (*order, *_last(rank, turn=p.transpose_a)))
    right = turned(shaped(b, (*shapes[1], *b.layout.shape[-2:])), (*order, rank, rank + 1))
    left = shaped(left, (1, inner, size(rows) * m, k))
    right = shaped(right, (size(outer), inner, *b.layout.shape[-2:]))
    y = program.insert(replace(p, transpose_a=False), [left, right], sources=[node], before=node).output
    y = shaped(y, (*(batch[i] for i in order), m, n))
    return supersede(program, node, turned(y, (*(order.index(i) for i in range(rank)), rank, rank + 1)))


def _batch_of(shape: Shape, rank: int) -> Shape:
    """Return the batch axes of *shape*, *rank* of them."""
    return (1,) * (rank - len(shape) + 2) + shape[:-2]


def _last(rank: int, *, turn: bool) -> tuple[int, int]:
    return (rank + 1, rank) if turn else (rank, rank + 1)


def _walked(moving: Sequence[_Moving], p: MatMul) -> int:
    """Return the batch axes that tiles walk: neighbours along which the same operands move are one.

    The last are further rows where the same b meets all of them.
    """
    runs = [one for one, _ in groupby(each for each in moving if any(each))]
    return len(runs) - (runs[-1:] == [_LEFT] and not p.transpose_a)
