"""Padding of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.pad import Pad
from clgraph.selector.descriptor import Ref
from clgraph.selector.general import value_words
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@frozen
class PadSegment:
    """A run of an axis of the result: *size* elements from *at* on, that come from *source* and on by *step*."""

    at: int
    size: int
    source: int
    step: int


def _segments(mode: str, size: int, before: int, after: int) -> list[PadSegment]:
    """Return the runs of an axis of *size* elements, the one that is the input's first; a pad below 0 cuts it."""
    cut = max(-before, 0)
    found = [PadSegment(max(before, 0), size - cut - max(-after, 0), cut, 1)]
    behind = max(before, 0) + found[0].size
    if mode == "edge":
        last = cut + found[0].size - 1
        found += [PadSegment(0, before, cut, 0), PadSegment(behind, after, last, 0)]
    elif mode == "reflect":
        found += [PadSegment(0, before, before, -1), PadSegment(behind, after, size - 2, -1)]
    elif mode == "wrap":
        found += [PadSegment(0, before, size - before, 1), PadSegment(behind, after, 0, 1)]
    return [s for s in found if s.size > 0]


@implements(Pad, name="pad.elements", serves=ANY_ELEMENTS)
class PadElements(MovedElements):
    """The result filled with the value and the input moved over it; other modes a move for each run of each axis."""

    @classmethod
    def refused(cls, q: Query[Pad]) -> str | None:
        p, shape = q.primitive, q.inputs[0].shape
        if not q.inputs[0].count:
            return "reads at least one element"
        if p.mode in ("reflect", "wrap") and any(n < 0 for pad in p.pads for n in pad):
            return "repeats what is left of an axis only where nothing is cut off it"
        if p.mode == "wrap" and any(max(pad) > size for pad, size in zip(p.pads, shape, strict=True)):
            return "goes round an axis once"
        return None

    @classmethod
    def moves(cls, q: Query[Pad]) -> Sequence[Move]:
        p, x, (y,) = q.primitive, q.inputs[0], q.outputs
        size = y.dtype.itemsize
        runs = [_segments(p.mode, d, *pad) for d, pad in zip(x.shape, p.pads, strict=True)]
        found: list[Move] = []
        if p.mode == "constant" and any(n > 0 for pad in p.pads for n in pad):
            low, high = value_words(p.value, y.dtype)
            found.append(Move(None, Ref("out0"), (Axis(y.count, (0, 1)),), high << 32 | low & 0xFFFFFFFF))
        for segments in product(*runs):
            pairs = list(zip(segments, x.all_pitches, y.all_pitches, strict=True))
            inp = Ref("in0", size * sum(s.source * a for s, a, _ in pairs))
            out = Ref("out0", size * sum(s.at * b for s, _, b in pairs))
            found.append(Move(inp, out, tuple(Axis(s.size, (s.step * a, b)) for s, a, b in pairs)))
        return found
