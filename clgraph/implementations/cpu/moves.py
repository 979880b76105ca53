"""Copies of rows between plain tensors: concatenation, slices and splits on CPU devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.layout import Layout
from clgraph.core.memo import remembered
from clgraph.implementations.cpu.blocked import TILE
from clgraph.implementations.cpu.copies import copies, rows_step_seconds
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.concat import Concat
from clgraph.ops.slice import Slice
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Implementation
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

MOVES = replace(TILE, formats=False, halos=False, fuses=frozenset())


def _axes(shape: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...]) -> list[Axis]:
    return [Axis(size, (a, b)) for size, a, b in zip(shape, x, y, strict=True)]


@remembered
def _tiles(q: Query[Any]) -> tuple[Tile, ...] | str:
    """Return the copies that make up *q*, or why it is not one of them."""
    if not all(t.is_dense_plain for t in (*q.inputs, *q.outputs)):
        return "copies dense plain tensors"
    found: list[Tile] = []
    for inp, out, part, x, y in _parts(q):
        if 0 in part.shape:
            continue
        tiles = copies(inp, out, _axes(part.shape, x, y), q.device)
        if isinstance(tiles, str):
            return tiles
        found += tiles
    return tuple(found)


def _parts(q: Query[Any]) -> list[tuple[Ref, Ref, Layout, tuple[int, ...], tuple[int, ...]]]:
    """Return each part that moves: from where, to where, its layout, the pitches there and here."""
    p, x, y = q.primitive, q.inputs[0], q.outputs[0]
    parts = []
    start = 0
    if isinstance(p, Slice):
        steps = tuple(pitch * step for pitch, step in zip(x.all_pitches, p.steps, strict=True))
        offset = 4 * sum(at * pitch for at, pitch in zip(p.starts, x.all_pitches, strict=True))
        return [(Ref("in0", offset), Ref("out0"), y, steps, y.all_pitches)]
    for i, part in enumerate(q.inputs if isinstance(p, Concat) else q.outputs):
        if isinstance(p, Concat):
            at = Ref("out0", 4 * start * y.all_pitches[p.axis])
            parts.append((Ref(f"in{i}"), at, part, part.all_pitches, y.all_pitches))
        else:
            at = Ref("in0", 4 * start * x.all_pitches[p.axis])
            parts.append((at, Ref(f"out{i}"), part, x.all_pitches, part.all_pitches))
        start += part.shape[p.axis]
    return parts


class Moved(Implementation[Any]):
    """A copy of rows a part; of a part without elements none."""

    skips_empty = True

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        tiles = _tiles(q)
        return tiles if isinstance(tiles, str) else None if tiles else "serves no tensors without elements"

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        return sum(rows_step_seconds(tile, q.device) for tile in cls.plan(q).steps if isinstance(tile, Tile))

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        tiles = _tiles(q)
        if isinstance(tiles, str):
            raise TypeError(tiles)
        return Plan(tiles)
