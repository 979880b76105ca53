"""The nearest elements of plain tensors, of any type, on CPU devices: along one axis, or two neighbours."""

from __future__ import annotations

from math import prod
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.resize import COORDINATES, RULES, Map, coordinate_map, middle
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WORDS = (1, 2, 4, 8)
"""Bytes that are moved as one."""

_RUN_BYTES = 32
"""Bytes of a pixel from which on it is copied as a run."""

_WIDEST = 1 << 16
"""Elements of a row, whose places scratch holds."""

_MOST_TIMES = 4
"""How often an element may be there for rows that are made by vectors."""


@descriptor("resize_nearest", library="rare", any_alignment=True)
class ResizeNearestDesc(Descriptor):
    """Fields as in ``resize_nearest.cl``."""

    inp: Pointer
    out: Pointer
    itemsize: Int
    in_height: Int
    in_width: Int
    height: Int
    width: Int
    unit: Int
    whole: Int
    times: Int
    rows: Int
    ticket_rows: Int
    rule: Int
    middle: Float
    factor_y: Float
    divisor_y: Float
    offset_y: Float
    factor_x: Float
    divisor_x: Float
    offset_x: Float


@frozen
class _Picture:
    """A tensor as [planes][rows][columns] of pixels.

    Attributes:
        rows, columns: The axes that are resized; no *rows* where it is one axis.
        word: Bytes that are moved as one; *unit* of them are a pixel.
    """

    rows: int | None
    columns: int
    word: int
    unit: int

    @property
    def whole(self) -> bool:
        """Whether a pixel is copied as one run."""
        return self.unit > 1 and self.unit * self.word >= _RUN_BYTES


def _picture(q: Query[Resize]) -> _Picture | str:
    """Return how the tensor is seen, or why it cannot be."""
    p, x, y = q.primitive, q.inputs[0].shape, q.outputs[0].shape
    resized = [axis for axis in range(len(x)) if p.scales[axis] != 1 or x[axis] != y[axis]]
    if not resized or len(resized) > 2 or resized[-1] - resized[0] != len(resized) - 1:
        return "resizes one axis, or two neighbours"
    unit, word = prod(x[resized[-1] + 1 :]), q.outputs[0].dtype.itemsize
    if unit * word in _WORDS:
        unit, word = 1, unit * word
    return _Picture(resized[0] if len(resized) > 1 else None, resized[-1], word, unit)


@implements(Resize, name="resize.nearest", serves=ANY_ELEMENTS)
class ResizeNearest(Implementation[Resize]):
    """A row of the result at a time, copied from the one before where that is the same."""

    @classmethod
    def limits(cls, q: Query[Resize]) -> str | None:
        p, x, (y,) = q.primitive, q.inputs[0], q.outputs
        if p.mode != "nearest" or p.coordinates not in COORDINATES or p.nearest not in RULES:
            return f"serves nearest, not {p.mode} with {p.coordinates} and {p.nearest}"
        if not x.is_dense_plain or not y.is_dense_plain or not x.count or not y.count:
            return "serves dense plain tensors of some elements"
        seen = _picture(q)
        if isinstance(seen, str):
            return seen
        return f"serves rows of up to {_WIDEST} elements" if _width(q, seen) > _WIDEST else count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _rows(q) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        p, x, y, seen = q.primitive, q.inputs[0].shape, q.outputs[0].shape, _seen(q)
        row, column = seen.rows, seen.columns
        tickets = _tickets(q)
        desc = ResizeNearestDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            itemsize=seen.word,
            in_height=1 if row is None else x[row],
            in_width=x[column],
            height=1 if row is None else y[row],
            width=y[column],
            unit=seen.unit,
            whole=int(seen.whole),
            times=_times(q, seen),
            rows=_rows(q),
            ticket_rows=tickets.each,
            rule=RULES[p.nearest],
            middle=middle(p),
            **_map_fields("y", Map(1.0, 1.0) if row is None else coordinate_map(p, row, x[row])),
            **_map_fields("x", coordinate_map(p, column, x[column])),
        )
        return Plan((Tile("resize_nearest", desc, tickets.count, scratch=4 * _width(q, seen)),))


def _map_fields(axis: str, found: Map) -> dict[str, Any]:
    return {
        f"factor_{axis}": found.factor,
        f"divisor_{axis}": found.divisor,
        f"offset_{axis}": found.offset,
    }


def _seen(q: Query[Resize]) -> _Picture:
    seen = _picture(q)
    if isinstance(seen, str):
        raise TypeError(seen)
    return seen


def _width(q: Query[Resize], seen: _Picture) -> int:
    """Return how many places a row has."""
    return q.outputs[0].shape[seen.columns] * (1 if seen.whole else seen.unit)


def _rows(q: Query[Resize]) -> int:
    return prod(q.outputs[0].shape[: _seen(q).columns])


def _times(q: Query[Resize], seen: _Picture) -> int:
    """Return how often each element of a row is there one after another, 0 where vectors do not make the row."""
    size, wanted = (v.shape[seen.columns] for v in (q.inputs[0], q.outputs[0]))
    times, rest = divmod(wanted, size)
    alike = seen.unit == 1 and not rest and 2 <= times <= _MOST_TIMES and q.primitive.repeats(seen.columns, size)
    return times if alike else 0


def _row_seconds(q: Query[Resize]) -> float:
    seen, unit = _seen(q), q.device.costs.unit
    width = _width(q, seen)
    nbytes = 2 * q.outputs[0].nbytes / _rows(q)
    apart = 0.0 if _times(q, seen) else unit("move.row") / 4 if seen.whole else unit("move.element")
    return unit("move.row") + nbytes * unit("move.byte") + width * apart


def _tickets(q: Query[Resize]) -> TicketRanges:
    return runs(_rows(q), _row_seconds(q), q.device)
