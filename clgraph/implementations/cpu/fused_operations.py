"""Fused operations of tile functions: their list, what a micro-kernel applies in registers, and residuals."""

from __future__ import annotations

from typing import Any

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered, remembered_of_tuples
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.geometry import LANES, blocked_refusal, planes
from clgraph.selector.descriptor import NULL, Float, Int, Pointer, PostStep, fields
from clgraph.selector.post import post_steps
from clgraph.selector.query import Query


def post_refusal(q: Query[Any]) -> str | None:
    """Say why the operations fused into *q* cannot be a tile's list, or return ``None``."""
    return None if not q.fused or reads_nothing(q.fused) else _operands_refusal(q)


@remembered_of_tuples
def reads_nothing(fused: tuple[Fused, ...]) -> bool:
    """Say whether all are operations of a list that read nothing but the running value."""
    return all(not one.operands and one.operation is not None for one in fused)


@remembered
def _operands_refusal(q: Query[Any]) -> str | None:
    for fused in q.fused:
        if fused.operation is None:
            return f"{fused.primitive} has no post-operation"
        if len(fused.operands) > 1 and fused.primitive.kind != "quantize":
            return f"{fused.primitive} reads more than one operand"
        for slot in fused.operands:
            layout = q.inputs[slot]
            met = q.inputs[0] if fused.where == "pre" else q.outputs[0]
            axis = 1 - met.rank + layout.rank
            blocked = Format(tuple(range(layout.rank)), ((axis, LANES),)) if axis >= 0 else None
            if layout.format.blocks and layout.format != blocked:
                return f"reads operands in plain formats or in that of what they meet, not {layout.format}"
    return None


def pre_steps(q: Query[Any]) -> tuple[PostStep, ...]:
    """Return the operations in front of the blocked first input of *q*, as a list."""
    return post_steps(q, lambda layout: operand_pitches(layout, q.inputs[0]), q.pre)


def operand_pitches(layout: Layout, out: Layout) -> tuple[int, int, int, int, int]:
    """Return floats from one n, c-block, y, x, lane of *out* to the next in an operand broadcast to it.

    *out* has rank 2 to 4: ``[N, C]``, ``[N, C, W]`` or ``[N, C, H, W]``.
    """
    missing = out.rank - layout.rank
    pitch, inner = [0] * out.rank, 0
    for axis, (size, step) in enumerate(zip(layout.shape, layout.all_pitches, strict=True)):
        at = axis + missing
        if size == 1:
            continue
        pitch[at] = step
        if at == 1:
            block = layout.format.block(axis)
            inner = layout.inner_pitches[axis] if block > 1 else step
            pitch[at] = step if block > 1 else LANES * step
    y = pitch[2] if out.rank == 4 else 0
    x = pitch[-1] if out.rank > 2 else 0
    return pitch[0], pitch[1], y, x, inner


def blocked_posts(q: Query[Any], skip: int = 0) -> tuple[PostStep, ...]:
    """Return the list of *q* for a blocked result, without the first *skip* operations."""
    return post_steps(q, lambda layout: operand_pitches(layout, q.outputs[0]))[skip:]


@frozen
class InRegisters:
    """What a micro-kernel applies before it stores: one residual, then two bounds; ``taken`` operations of the list."""

    residual: int | None
    low: float
    high: float
    taken: int


@fields
class ResidualFields:
    """The residual, and floats from one image, channel block, row of it to the next."""

    res: Pointer
    res_n: Int
    res_c: Int
    res_y: Int


@fields
class InRegistersFields(ResidualFields):
    """The same, and the bounds."""

    low: Float
    high: Float


def in_registers(q: Query[Any]) -> InRegisters:
    """Split off the operations at the head of the list that are free: an equally blocked residual, a clip.

    A clip whose bounds do not enclose 0 stays in the list, because it would fill tail lanes.
    """
    post = q.post
    return UNBOUND if not post else clip(post) if reads_nothing(post) else _in_registers(q)


UNBOUND = InRegisters(None, float("-inf"), float("inf"), 0)


@remembered_of_tuples
def clip(post: tuple[Fused, ...]) -> InRegisters:
    """Return what registers take of a list that reads nothing but the running value."""
    return _bounded(post, None, 0)


@remembered
def _in_registers(q: Query[Any]) -> InRegisters:
    out, post, taken = q.outputs[0], q.post, 0
    residual = None
    if post and (operation := post[0].operation) and operation.name == "add":
        operand = q.inputs[post[0].operands[0]]
        if operand.shape == out.shape and operand.format == out.format and blocked_refusal(operand, "") is None:
            residual, taken = post[0].operands[0], 1
    return _bounded(post, residual, taken)


def _bounded(post: tuple[Fused, ...], residual: int | None, taken: int) -> InRegisters:
    low, high = float("-inf"), float("inf")
    if len(post) > taken and (operation := post[taken].operation):
        bounds = {"relu": (0.0, high), "clip": (operation.a, operation.b)}.get(operation.name)
        if bounds is not None and bounds[0] <= 0 <= bounds[1]:
            (low, high), taken = bounds, taken + 1
    return InRegisters(residual, low, high, taken)


def residual_overwritten(q: Query[Any]) -> frozenset[int]:
    """Return the slot of a residual that the result may take the place of: one laid out as the result is."""
    if not q.fused or reads_nothing(q.fused):
        return frozenset()
    slot = in_registers(q).residual
    return frozenset() if slot is None or q.inputs[slot] != q.outputs[0] else frozenset({slot})


def residual_fields(q: Query[Any], registers: InRegisters) -> dict[str, Any]:
    """Return the fields of :class:`ResidualFields`; ``NULL`` and zeros for no residual."""
    if registers.residual is None:
        return {"res": NULL, "res_n": 0, "res_c": 0, "res_y": 0}
    p = planes(q.inputs[registers.residual])
    return {"res": p.at(f"in{registers.residual}"), "res_n": p.n, "res_c": p.c, "res_y": p.y}


def in_registers_fields(q: Query[Any], registers: InRegisters) -> dict[str, Any]:
    """Return the fields of :class:`InRegistersFields`."""
    return {**residual_fields(q, registers), "low": registers.low, "high": registers.high}
