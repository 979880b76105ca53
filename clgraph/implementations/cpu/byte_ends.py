"""How sums of bytes become results on CPU devices: what a micro-kernel applies itself, and what is left as a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.byte_end_fields import (
    BYTES,
    COMPUTED,
    EXTREMES,
    FLOATS,
    NOTED,
    NOTED_BEHIND,
    SUMS,
    TWICE,
    End,
    end_numbers,
)
from clgraph.implementations.cpu.byte_heads import adds_alike, head_of
from clgraph.implementations.cpu.byte_lines import lines_of
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.noted_extreme import NoteExtreme
from clgraph.ops.quantize import Quantize
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.ops.sum_extremes import SumExtremes
from clgraph.selector.descriptor import NULL, Ref
from clgraph.selector.query import Query


@remembered
def end_of(q: Query[Any]) -> End | str:
    """Return the end of the sums of *q*, or why no kernel has it."""
    if isinstance(q.primitive, SumExtremes):
        return End(EXTREMES, 0, 0.0, end_numbers(first=1.0))
    if q.post and isinstance(q.post[-1].primitive, Quantize):
        return _computed_end(q)
    entries = lookup_of(q)
    if entries is not None:
        if len(q.post) < 2 or not isinstance(q.post[-2].primitive, StaticQuantize):
            return "looks up bytes that it rounds to"
        found = end_of(replace(q, fused=q.fused[:-1]))
        return replace(found, entries=entries) if isinstance(found, End) else found
    steps, y = q.post, q.outputs[0].dtype
    last = steps[-1].primitive if steps else None
    rounding = last if isinstance(last, StaticQuantize) else None
    if y != (DType.F32 if rounding is None else rounding.dtype) or y not in (DType.F32, DType.U8):
        return f"makes floats, or u8 that it rounds to last, not {y}"
    inner = steps[: len(steps) - (rounding is not None)]
    if rounding is not None and (limits := _limits(inner, rounding)) is not None:
        return End(BYTES, len(steps), 0.0, end_numbers(rounding.zero, *limits, first=rounding.scale))
    head = head_of(q, inner, floats=rounding is None)
    if rounding is not None and (limits := _limits(inner[len(head) :], rounding)) is not None:
        return head.end(TWICE, len(steps), 0.0, rounding, limits)
    bounds = {} if head.again or head.residual else _float_bounds(q, inner[len(head) :])
    taken = len(head) + bool(bounds)
    if rounding is None and not (bounds or head.within or head.again or head.residual):
        lines = lines_of(q, inner[taken:])
        bounds, taken = lines.numbers, taken + lines.taken
    notes = _notes(inner[taken:])
    listed = inner[taken : len(inner) - len(notes)]
    if (refused := listed_refusal(q, listed)) is not None:
        return refused
    by = 0.0 if rounding is None else rounding.scale
    if notes:
        bounds |= {"noting": NOTED_BEHIND if listed else NOTED}
    if taken or notes:
        found = head.end(SUMS, taken, by, rounding, (0, 255))
        return replace(found, numbers={**found.numbers, **bounds}, **notes)
    return End(FLOATS, 0, by, end_numbers(0 if rounding is None else rounding.zero))


def _computed_end(q: Query[Any]) -> End | str:
    """Return the end whose last rounding is by steps that the network computes: of bytes, by one scale."""
    last, y = q.post[-1], q.outputs[0]
    p, slots = last.primitive, last.operands
    assert isinstance(p, Quantize)
    scale, zeros = slots[0], slots[1] if len(slots) > 1 else None
    single = all(q.inputs[s].count == 1 for s in slots)
    if (y.dtype, q.inputs[scale].dtype) != (DType.U8, DType.F32) or p.narrow or not single:
        return f"rounds to u8 by one scale of f32, not to {y} by {q.inputs[scale]}"
    head = head_of(q, q.post[:-1])
    bounds = _float_bounds(q, q.post[len(head) : -1])
    if head.within or head.again or head.residual or len(head) + bool(bounds) + 1 < len(q.post):
        return "rounds by computed steps what is scaled, added to and bounded"
    found = head.end(COMPUTED, len(q.post), 0.0, None, (0, 255))
    return replace(found, numbers={**found.numbers, **bounds}, steps=scale, zeros=zeros)


def listed_of(q: Query[Any], end: End) -> tuple[Fused, ...]:
    """Return the operations that are a list."""
    behind = (end.last > 0, end.entries is not None, end.largest is not None, end.smallest is not None)
    return q.post[end.taken : len(q.post) - sum(behind)]


def lookup_of(q: Query[Any]) -> int | None:
    """Return the slot of the table in which the last operation looks up, ``None`` where there is none."""
    last = q.post[-1] if q.post else None
    return last.operands[0] if last is not None and isinstance(last.primitive, ByteLookup) else None


def operand_ref(q: Query[Any], slot: int | None) -> Ref:
    """Return the place of what is in *slot*, ``NULL`` for none."""
    return NULL if slot is None else Ref(f"in{slot}", q.inputs[slot].dtype.itemsize * q.inputs[slot].origin)


def operand_refs(q: Query[Any], end: End) -> dict[str, Any]:
    """Return the fields of a descriptor that say where the numbers of channels and the table are."""
    return {
        name: operand_ref(q, getattr(end, name))
        for name in ("by", "plus", "by_after", "plus_after", "entries", "largest", "smallest", "steps", "zeros")
    }


def written(q: Query[Any]) -> tuple[Layout, ...]:
    """Return what is written of the results of *q*: next to nothing where extremes are noted, which is not counted."""
    end = end_of(q)
    return () if isinstance(end, End) and end.mode == EXTREMES else q.outputs


def _limits(steps: Sequence[Fused], last: StaticQuantize) -> tuple[int, int] | None:
    """Return the bounds of the bytes after activations that are bounds; ``None`` where others are among *steps*."""
    low, high = 0, 255
    for step in steps:
        p = step.primitive
        if not isinstance(p, Activation) or p.function not in ("relu", "clip"):
            return None
        below, above = (0.0, np.inf) if p.function == "relu" else (p.alpha, p.beta)
        if below > above:
            return None
        (floor,), (ceiling,) = (last.reference(np.array([v], np.float32))[0] for v in (below, above))
        low, high = min(max(low, int(floor)), int(ceiling)), min(max(high, int(floor)), int(ceiling))
    return low, high


def _float_bounds(q: Query[Any], steps: Sequence[Fused]) -> dict[str, Any]:
    """Return the fields of bounds at the head of *steps*, none where there are none, or lanes behind the last channel.

    Those lanes are zeros, which bounds that enclose 0 leave alone.
    """
    p = steps[0].primitive if steps else None
    if not isinstance(p, Activation) or p.function not in ("relu", "clip"):
        return {}
    least, most = (0.0, np.inf) if p.function == "relu" else (p.alpha, p.beta)
    if q.outputs[0].shape[1] % LANES and not least <= 0 <= most:
        return {}
    return {"bounded": 1, "least": least, "most": most}


def _notes(steps: Sequence[Fused]) -> dict[str, int]:
    """Return the slots of the notes at the end of *steps* by their names in :class:`End`."""
    found: dict[str, int] = {}
    for step in reversed(steps):
        p = step.primitive
        if not isinstance(p, NoteExtreme):
            break
        found[{"max": "largest", "min": "smallest"}[p.function]] = step.operands[0]
    return found


def packed_operands(q: Query[Any], end: End | str) -> dict[int, Format]:
    """Return the formats of the numbers of channels that the micro-kernel reads whole blocks of."""
    if isinstance(end, str) or not q.outputs[0].shape[1] % LANES:
        return {}
    found = {}
    for slot in (end.by, end.plus, end.by_after, end.plus_after):
        if slot is not None and q.inputs[slot].count > 1:
            rank = q.inputs[slot].rank
            found[slot] = feature_blocked(rank) if rank == q.outputs[0].rank else _first_blocked(rank)
    return found


def _first_blocked(rank: int) -> Format:
    return Format(tuple(range(rank)), ((0, LANES),))


def listed_refusal(q: Query[Any], steps: Sequence[Fused]) -> str | None:
    """Say why a tile's list does not apply *steps* to floats in blocks, or return ``None``."""
    if any(isinstance(f.primitive, StaticQuantize) for f in steps):
        return "rounds last"
    if any(isinstance(f.primitive, DequantizeAdd) and not adds_alike(q, f.operands[0]) for f in steps):
        return "adds as many bytes as the result has elements, in its format"
    floats = [f for f in steps if not isinstance(f.primitive, DequantizeAdd)]
    if odd := [q.inputs[s] for f in floats for s in f.operands if q.inputs[s].dtype != DType.F32]:
        return f"reads operands of f32, not of {odd[0].dtype}"
    return None
