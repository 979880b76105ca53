"""The nearest elements of plain tensors, of any type, on CPU devices: along one axis, or two neighbours."""

from __future__ import annotations

from math import prod

from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.implementations.cpu.resize_map import ResizeMap, resize_map, rule_refusal
from clgraph.ops.resize import Resize
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_WORDS = (1, 2, 4, 8)
"""Bytes that are moved as one."""

_RUN_BYTES = 32
"""Bytes of a pixel from which on it is copied as a run."""

_WIDEST = 1 << 16
"""Elements of a row and rows of a plane, whose places scratch holds."""

_MOST_TIMES = 4
"""How often an element may be there for rows that are made by vectors."""


@descriptor("resize_nearest", library="rare", any_alignment=True)
class ResizeNearestDesc(ResizeMap, Descriptor):
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
    row_times: Int
    rows: Int
    ticket_rows: Int


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
        x, (y,) = q.inputs[0], q.outputs
        if refused := rule_refusal(q.primitive, ("nearest",)):
            return refused
        if not x.is_dense_plain or not y.is_dense_plain or not x.count or not y.count:
            return "serves dense plain tensors of some elements"
        seen = _picture(q)
        if isinstance(seen, str):
            return seen
        height = 1 if seen.rows is None else y.shape[seen.rows]
        if max(_width(q, seen), height) > _WIDEST:
            return f"serves planes of up to {_WIDEST} rows and columns"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[Resize]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _rows(q) * _row_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, y, seen = q.inputs[0].shape, q.outputs[0].shape, _seen(q)
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
            row_times=1 if row is None else _repeats(q, row),
            rows=_rows(q),
            ticket_rows=tickets.each,
            **resize_map(q, row, column),
        )
        return Plan((Tile("resize_nearest", desc, tickets.count, scratch=4 * (_width(q, seen) + desc.height)),))


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
    times = _repeats(q, seen.columns) if seen.unit == 1 else 0
    return times if 2 <= times <= _MOST_TIMES else 0


def _repeats(q: Query[Resize], axis: int) -> int:
    """Return how often each element along *axis* is there one after another, 0 where not all are as often."""
    size, wanted = (v.shape[axis] for v in (q.inputs[0], q.outputs[0]))
    times, rest = divmod(wanted, size)
    return times if not rest and q.primitive.repeats(axis, size) else 0


def _row_seconds(q: Query[Resize]) -> float:
    seen, unit = _seen(q), q.device.costs.unit
    width = _width(q, seen)
    nbytes = 2 * q.outputs[0].nbytes / _rows(q)
    apart = 0.0 if _times(q, seen) else unit("move.row") / 4 if seen.whole else unit("move.element")
    begun = unit("move.row") / (4 if _times(q, seen) else 1)
    return begun + nbytes * unit("move.byte") + width * apart


def _tickets(q: Query[Resize]) -> TicketRanges:
    return runs(_rows(q), _row_seconds(q), q.device)
