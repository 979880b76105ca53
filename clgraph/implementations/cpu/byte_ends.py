"""How sums of bytes become results on CPU devices: what a micro-kernel applies itself, and what is left as a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.frozen import frozen
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
from clgraph.implementations.cpu.fused_operations import operand_pitches
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.noted_extreme import NoteExtreme
from clgraph.ops.on_steps import OnSteps
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
    head = _head(q, inner, floats=rounding is None)
    if rounding is not None and (limits := _limits(inner[len(head) :], rounding)) is not None:
        return head.end(TWICE, len(steps), 0.0, rounding, limits)
    bounds = {} if head.again or head.residual else _float_bounds(q, inner[len(head) :])
    taken = len(head) + bool(bounds)
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
    head = _head(q, q.post[:-1])
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


@frozen
class _Head:
    """Operations at the head of a list that a micro-kernel applies, each at most once and in this order.

    Attributes:
        last: A rounding of floats behind *residual* that nothing follows.
        single: *by* is one number for all channels.
    """

    within: Fused | None
    by: Fused | None
    plus: Fused | None
    again: Fused | None
    by_after: Fused | None
    plus_after: Fused | None
    residual: Fused | None
    last: Fused | None
    single: bool

    def __len__(self) -> int:
        first = (self.within, self.by, self.plus, self.again)
        return sum(f is not None for f in (*first, self.by_after, self.plus_after, self.residual, self.last))

    def end(self, mode: int, taken: int, last: float, rounding: StaticQuantize | None, limits: tuple[int, int]) -> End:
        """Return the end in which they stand, followed by bytes of *rounding* in *mode* TWICE."""
        within, again = self.within, self.again
        step = rounding.scale if mode == TWICE and rounding is not None else 1.0
        adds = again or self.residual
        # What a float is multiplied with to become a step of the rounding that comes next.
        inner = float(1 / np.float32(_alpha(again) if again else 1.0 if adds else step))
        said: dict[str, Any] = {"first": 1.0, "middle": inner, "adding": inner, "second": 1.0, "step": step}
        if within:
            said |= {"first": _alpha(within), "middle": _alpha(within) * inner, "within": 1, "floor": _low(within)}
        elif again and not self.by and not self.plus:
            said |= {"first": _alpha(again), "middle": 1.0}
        if again:
            said |= {"second": _alpha(again), "again": 1, "bottom": _low(again)}
        if again and (self.by_after or self.plus_after):
            ending = float(1 / np.float32(step))
            said |= {"after": 1, "later": _alpha(again) * ending, "ending": ending}
        if self.residual:
            p = self.residual.primitive
            assert isinstance(p, DequantizeAdd)
            joint = _joint(again, p, rounding if mode == TWICE else None)
            said |= joint or {"third": p.scale, "shift": float(p.zero)}
        if self.last:
            said |= {"finished": 1, "step": _alpha(self.last), "ending": _low(self.last)}
        operands = (self.by, self.plus, self.by_after, self.plus_after, self.residual)
        slots = [None if f is None else f.operands[0] for f in operands]
        said = {"zero": 0 if rounding is None else rounding.zero, "single": int(self.single), **said}
        low, high = limits
        return End(mode, taken, last, end_numbers(low=low, high=high, **said), *slots)


def _joint(again: Fused | None, p: DequantizeAdd, rounding: StaticQuantize | None) -> dict[str, Any] | None:
    """Return the fields of a sum of what *again* rounds with bytes in the order of steps, ``None`` where it is none.

    It becomes bytes by *rounding*, or floats. Bytes of a model that is signed are 128 more than its integers.
    """
    order, own, other = p.order, int(p.swapped), int(not p.swapped)
    if order is None or again is None:
        return None
    signed, (scale, zero) = p.zero - order.zeros[other], (order.scales[2], order.zeros[2])
    last = (scale, zero + signed) if rounding is None else (rounding.scale, rounding.zero)
    read = _alpha(again), -_low(again), p.scale, *last
    if read != (order.scales[own], order.zeros[own] + signed, order.scales[other], scale, zero + signed):
        return None
    second, third = order.ratios[own], order.ratios[other]
    said = {"joint": 1 + own, "second": second, "third": third, "shift": order.fixed, "zero": signed}
    return {**said, "step": scale, "ending": float(zero)}


def _head(q: Query[Any], steps: tuple[Fused, ...], *, floats: bool = False) -> _Head:
    left = list(steps)

    def take(fits: Callable[[Fused], bool]) -> Fused | None:
        return left.pop(0) if left and fits(left[0]) else None

    by, plus = (lambda f: _of_channels(q, f, "mul")), (lambda f: _of_channels(q, f, "add"))
    within, single = take(_rounds), take(lambda f: _of_all(q, f))
    by_, plus_, again = single or take(by), take(plus), take(_rounds)
    if within and not (by_ or plus_ or again):
        within, again = None, within
    after = (take(by), take(plus)) if again else (None, None)
    bytes_ = lambda f: isinstance(f.primitive, DequantizeAdd) and _adds_alike(q, f.operands[0])  # noqa: E731
    residual = None if any(after) else take(bytes_)
    adds = residual.primitive if residual else None
    plain = isinstance(adds, DequantizeAdd) and adds.order is None
    last = take(_rounds) if floats and plain and len(left) == 1 else None
    return _Head(within, by_, plus_, again, *after, residual=residual, last=last, single=single is not None)


def _rounds(step: Fused) -> bool:
    return isinstance(step.primitive, Activation) and step.primitive.function == "fake_quantize"


def _alpha(step: Fused) -> float:
    assert isinstance(step.primitive, Activation)
    return step.primitive.alpha


def _low(step: Fused) -> float:
    assert isinstance(step.primitive, Activation)
    return step.primitive.beta


def _of_all(q: Query[Any], step: Fused) -> bool:
    """Whether *step* multiplies with one number."""
    if not _does(step, "mul"):
        return False
    operand = q.inputs[step.operands[0]]
    return (operand.dtype, operand.count) == (DType.F32, 1)


def _does(step: Fused, function: str) -> bool:
    """Whether *step* is the binary *function*, of floats or from steps to steps."""
    p = step.primitive
    return p == Eltwise(function) or (isinstance(p, OnSteps) and p.function == function)


def _of_channels(q: Query[Any], step: Fused, function: str) -> bool:
    """Whether *step* does *function* with a number a channel, which lie side by side in whole blocks."""
    if not _does(step, function):
        return False
    (slot,), y = step.operands, q.outputs[0]
    operand = q.inputs[slot]
    if operand.dtype != DType.F32 or operand.count != y.shape[1]:
        return False
    if y.shape[1] % LANES and not (operand.format.blocks or (slot in q.constant and y.format.blocks)):
        return False
    return operand_pitches(operand, y)[1:] == (LANES, 0, 0, 1)


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


def _adds_alike(q: Query[Any], slot: int) -> bool:
    r, y = q.inputs[slot], q.outputs[0]
    return (r.dtype, r.shape, r.format) == (DType.U8, y.shape, y.format)


def listed_refusal(q: Query[Any], steps: Sequence[Fused]) -> str | None:
    """Say why a tile's list does not apply *steps* to floats in blocks, or return ``None``."""
    if any(isinstance(f.primitive, StaticQuantize) for f in steps):
        return "rounds last"
    if any(isinstance(f.primitive, DequantizeAdd) and not _adds_alike(q, f.operands[0]) for f in steps):
        return "adds as many bytes as the result has elements, in its format"
    floats = [f for f in steps if not isinstance(f.primitive, DequantizeAdd)]
    if odd := [q.inputs[s] for f in floats for s in f.operands if q.inputs[s].dtype != DType.F32]:
        return f"reads operands of f32, not of {odd[0].dtype}"
    return None
