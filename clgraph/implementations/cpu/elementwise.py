"""Elementwise functions on CPU devices, of blocked and of plain tensors: a copy with a list of post-operations."""

from __future__ import annotations

from typing import Any

from clgraph.core.format import Format, feature_blocked
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import operand_proposals
from clgraph.implementations.cpu.copies import copy_fsv16, copy_rows
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, operand_pitches, post_refusal
from clgraph.implementations.cpu.geometry import LANES, blocked_refusal
from clgraph.implementations.cpu.narrow_rows import is_narrow, narrow_rows
from clgraph.implementations.cpu.rows import as_rows, row_pitches, row_posts
from clgraph.selector.descriptor import NULL, PostStep, Ref
from clgraph.selector.implementation import Formats, Implementation
from clgraph.selector.plan import Plan
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query


@remembered
def base_slot(q: Query[Any]) -> int | None:
    """Return the input that has the result's shape and from which the function has a post-operation, if any."""
    fitting = (s for s, x in enumerate(q.own) if x.shape == q.outputs[0].shape)
    return next((s for s in fitting if q.primitive.as_post(s) is not None), None)


def _own_step(q: Query[Any], slot: int, pitches: tuple[int, int, int, int, int]) -> PostStep:
    """Return the function itself as a step on input *slot*; *pitches* are the other input's, if it has one."""
    operation = q.primitive.as_post(slot)
    operand = NULL
    if q.arity == 2:
        other = q.inputs[1 - slot]
        operand = Ref(f"in{1 - slot}", other.origin * other.dtype.itemsize)
    return PostStep(post_codes()[operation.name], operation.a, operation.b, operand, pitches)


_SLOW = {"sin": "post.sine", "cos": "post.sine", "pow": "post.power"}
"""Functions that the compiler's library computes element by element: the unit of 16 of them."""


class _Elementwise(Implementation[Any]):
    """What both have in common: the result may take over the memory of the input that is like it."""

    @classmethod
    def overwrites(cls, q: Query[Any]) -> frozenset[int]:
        slot = base_slot(q)
        return frozenset() if slot is None or q.inputs[slot] != q.outputs[0] else frozenset({slot})

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        vectors = q.outputs[0].nbytes / 4 / LANES
        moved = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        functions = [getattr(p, "function", "") for p in (q.primitive, *(f.primitive for f in q.post))]
        slow = sum(q.device.costs.unit(_SLOW[f]) for f in functions if f in _SLOW)
        work = vectors * (q.device.costs.unit("copy.vector") * (2 + len(q.post)) + slow)
        return step_seconds(q.device, work, moved, 8 * q.device.workers)


class Blocked(_Elementwise):
    """One input has the result's shape and layout in blocks; another may be broadcast to it."""

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        slot = base_slot(q)
        if slot is None:
            return "requires an input of the result's shape and a function with a post-operation"
        if refused := blocked_refusal(q.inputs[slot], "the input") or blocked_refusal(q.outputs[0], "the result"):
            return refused
        for other in (x for i, x in enumerate(q.own) if i != slot):
            if other.format.blocks and other.format != feature_blocked(q.outputs[0].rank):
                return f"reads operands in plain formats or in its result's, not {other.format}"
        return post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Any]) -> tuple[Formats, ...]:
        out = q.outputs[0]
        if out.rank not in (3, 4):
            return ()
        return operand_proposals(q, (), range(len(q.inputs)), feature_blocked(out.rank), out)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        slot = base_slot(q) or 0
        pitches = (0, 0, 0, 0, 0) if q.arity == 1 else operand_pitches(q.inputs[1 - slot], q.outputs[0])
        return Plan((copy_fsv16(q, slot, (_own_step(q, slot, pitches), *blocked_posts(q))),))


class InRows(_Elementwise):
    """Plain tensors; one input has the result's shape, another may be broadcast along any of three merged axes."""

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        slot = base_slot(q)
        if slot is None:
            return "requires an input of the result's shape and a function with a post-operation"
        if odd := [x for x in (*q.inputs, *q.outputs) if x.format.blocks]:
            return f"serves formats without blocks, not {odd[0]}"
        if not q.outputs[0].is_dense_plain or not q.inputs[slot].format.is_plain:
            return "requires the result dense and plain, its equal plain"
        rows = as_rows(q, slot, _operands(q, slot))
        return rows if isinstance(rows, str) else post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Any]) -> tuple[Formats, ...]:
        out = q.outputs[0]
        return (Formats(tuple(Format.plain(x.rank) for x in q.inputs), (Format.plain(out.rank),)),)

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        slot = base_slot(q) or 0
        rows = as_rows(q, slot, _operands(q, slot))
        if isinstance(rows, str):
            raise TypeError(rows)
        own = row_pitches(rows, 0) if q.arity == 2 else (0, 0, 0, 0, 0)
        steps = (_own_step(q, slot, own), *row_posts(q, rows, int(q.arity == 2)))
        tile = narrow_rows if is_narrow(rows, steps) else copy_rows
        return Plan((tile(q, slot, rows, steps),))


def _operands(q: Query[Any], slot: int) -> list[int]:
    """Return the slots of every other tensor in the order in which the list reads them."""
    own = [1 - slot] if q.arity == 2 else []
    return [*own, *q.post_slots]
