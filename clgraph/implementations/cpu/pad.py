"""Padding of elements of any type on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, MOST_PARTS, Move, MovedElements, move_seconds
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.pad import Pad
from clgraph.selector.descriptor import Ref
from clgraph.selector.general import value_words
from clgraph.selector.implementation import implements
from clgraph.selector.query import DeviceInfo, Query


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


def _filled(y: Layout, runs: Sequence[Sequence[PadSegment]], value: int, device: DeviceInfo) -> list[Move]:
    """Return the moves of *value* to what is left of *y* by one run of each axis, or to all, whichever takes less."""
    size, pitches = y.dtype.itemsize, y.all_pitches
    whole = [Move(None, Ref("out0"), (Axis(y.count, (0, 1)),), value)]
    if not all(runs):
        return whole
    inner = [run[0] for run in runs]
    parts: list[Move] = []
    for a, s in enumerate(inner):
        behind = s.at + s.size
        for at, count in ((0, s.at), (behind, y.shape[a] - behind)):
            if count:
                # The runs of the axes in front; all of those behind.
                sizes = (*(i.size for i in inner[:a]), count, *y.shape[a + 1 :])
                start = at * pitches[a] + sum(i.at * n for i, n in zip(inner[:a], pitches, strict=False))
                axes = tuple(Axis(n, (0, pitch)) for n, pitch in zip(sizes, pitches, strict=True))
                parts.append(Move(None, Ref("out0", size * start), axes, value))
    return min(whole, parts, key=lambda moves: sum(move_seconds(m, size, device) for m in moves))


def _at_once(x: Layout, y: Layout, runs: Sequence[Sequence[PadSegment]]) -> list[Move]:
    """Return a move for every run of an axis with every run of the others."""
    found, size = list[Move](), y.dtype.itemsize
    for segments in product(*runs):
        pairs = list(zip(segments, x.all_pitches, y.all_pitches, strict=True))
        inp = Ref("in0", size * sum(s.source * a for s, a, _ in pairs))
        out = Ref("out0", size * sum(s.at * b for s, _, b in pairs))
        found.append(Move(inp, out, tuple(Axis(s.size, (s.step * a, b)) for s, a, b in pairs)))
    return found


def _by_axes(x: Layout, y: Layout, runs: Sequence[Sequence[PadSegment]]) -> list[Move]:
    """Return the move of the input, then those around it within the result, the last axis first.

    There are two for an axis, where all at once are as many as all axes have runs, multiplied. *runs* begin with those
    of the input.
    """
    inner, pitches, size = [run[0] for run in runs], y.all_pitches, y.dtype.itemsize
    found = _at_once(x, y, [[s] for s in inner])
    for a in reversed(range(y.rank)):
        front = sum(s.at * pitch for s, pitch in zip(inner[:a], pitches, strict=False))
        for s in runs[a][1:]:
            source = s.source - inner[a].source + inner[a].at
            around = [Axis(i.size, (pitch, pitch)) for i, pitch in zip(inner[:a], pitches, strict=False)]
            behind = [Axis(n, (pitch, pitch)) for n, pitch in zip(y.shape[a + 1 :], pitches[a + 1 :], strict=True)]
            axes = (*around, Axis(s.size, (s.step * pitches[a], pitches[a])), *behind)
            places = (front + source * pitches[a], front + s.at * pitches[a])
            inp, out = (Ref("out0", size * place) for place in places)
            found.append(Move(inp, out, axes))
    return found


@implements(Pad, name="pad.elements", serves=ANY_ELEMENTS)
class PadElements(MovedElements):
    """The value around the input, or the input over it where that is sooner.

    Other modes: a move for each run of an axis with each of the others, or axis by axis, where that is sooner.
    """

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
            found = _filled(y, runs, high << 32 | low & 0xFFFFFFFF, q.device)
        ways = [_at_once(x, y, runs)] if prod(map(len, runs)) <= MOST_PARTS else []
        if all(runs):
            ways.append(_by_axes(x, y, runs))
        best = min(ways, key=lambda moves: sum(move_seconds(m, size, q.device) for m in moves), default=[])
        return found + best
