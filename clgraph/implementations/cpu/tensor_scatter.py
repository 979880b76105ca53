"""Caches with updates from a place on, of elements of any type, on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, move_seconds, move_tile
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.tensor_scatter import TensorScatter
from clgraph.selector.descriptor import NULL, Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("update_rows", library="rare", any_alignment=True)
class UpdateRowsDesc(Descriptor):
    """Fields as in ``update_rows.cl``."""

    updates: Pointer
    starts: Pointer
    out: Pointer
    inner: Long
    wide: Int
    circular: Int
    rows: Int
    lines: Int
    places: Int
    given: Int
    ticket_rows: Int


@implements(TensorScatter, name="tensor_scatter.rows", serves=ANY_ELEMENTS)
class TensorScatterRows(Implementation[TensorScatter]):
    """A copy of the cache, then the updates of a line at a time, which are neighbours."""

    @classmethod
    def limits(cls, q: Query[TensorScatter]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "puts into dense plain tensors"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[TensorScatter]) -> float:
        updates, tickets = q.inputs[1], _tickets(q)
        step = step_seconds(q.device, _lines(q) * _line_seconds(q), 2.0 * updates.nbytes, tickets.count)
        return move_seconds(_copy(q), updates.dtype.itemsize, q.device) + step

    @classmethod
    def plan(cls, q: Query[TensorScatter]) -> Plan:
        (cache, updates, *starts), axis, tickets = q.own, q.primitive.axis, _tickets(q)
        desc = UpdateRowsDesc(
            updates=Ref("in1"),
            starts=Ref("in2") if starts else NULL,
            out=Ref("out0"),
            inner=prod(cache.shape[axis + 1 :]) * cache.dtype.itemsize,
            wide=int(bool(starts) and starts[0].dtype == DType.I64),
            circular=int(q.primitive.circular),
            rows=_lines(q),
            lines=prod(cache.shape[1:axis]),
            places=cache.shape[axis],
            given=updates.shape[axis],
            ticket_rows=tickets.each,
        )
        copy = move_tile(_copy(q), cache.dtype.itemsize, q.device)
        return Plan((copy, Tile("update_rows", desc, tickets.count)))


def _copy(q: Query[TensorScatter]) -> Move:
    return Move(Ref("in0"), Ref("out0"), (Axis(q.inputs[0].count, (1, 1)),))


def _lines(q: Query[TensorScatter]) -> int:
    return prod(q.inputs[1].shape[: q.primitive.axis])


def _line_seconds(q: Query[TensorScatter]) -> float:
    updates, unit = q.inputs[1], q.device.costs.unit
    return unit("move.row") + 2 * updates.nbytes / max(1, _lines(q)) * unit("move.byte")


def _tickets(q: Query[TensorScatter]) -> TicketRanges:
    return runs(_lines(q), _line_seconds(q), q.device)
