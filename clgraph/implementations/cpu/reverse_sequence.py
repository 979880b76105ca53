"""Reversed sequences of elements of any type on CPU devices."""

from __future__ import annotations

from math import prod

from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import count_refusal
from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS
from clgraph.ops.reverse_sequence import ReverseSequence
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("reverse_rows", library="rare", any_alignment=True)
class ReverseRowsDesc(Descriptor):
    """Fields as in ``reverse_rows.cl``."""

    inp: Pointer
    lengths: Pointer
    out: Pointer
    inner: Long
    itemsize: Int
    first: Int
    second: Int
    time: Int
    ticket_rows: Int


@implements(ReverseSequence, name="reverse_sequence.rows", serves=ANY_ELEMENTS)
class ReverseSequenceRows(Implementation[ReverseSequence]):
    """A row at a time: what lies behind the two axes."""

    @classmethod
    def limits(cls, q: Query[ReverseSequence]) -> str | None:
        if not all(x.is_dense_plain for x in (*q.inputs, *q.outputs)):
            return "moves dense plain tensors"
        return count_refusal(q)

    @classmethod
    def cost(cls, q: Query[ReverseSequence]) -> float:
        x, tickets = q.inputs[0], _tickets(q)
        return step_seconds(q.device, prod(x.shape[:2]) * _row_seconds(q), 2.0 * x.nbytes, tickets.count)

    @classmethod
    def plan(cls, q: Query[ReverseSequence]) -> Plan:
        x, tickets = q.inputs[0], _tickets(q)
        desc = ReverseRowsDesc(
            inp=Ref("in0"),
            lengths=Ref("in1"),
            out=Ref("out0"),
            inner=prod(x.shape[2:]),
            itemsize=x.dtype.itemsize,
            first=x.shape[0],
            second=x.shape[1],
            time=q.primitive.time,
            ticket_rows=tickets.each,
        )
        return Plan((Tile("reverse_rows", desc, tickets.count),))


def _row_seconds(q: Query[ReverseSequence]) -> float:
    x, unit = q.inputs[0], q.device.costs.unit
    return unit("move.row") + 2 * x.dtype.itemsize * prod(x.shape[2:]) * unit("move.byte")


def _tickets(q: Query[ReverseSequence]) -> TicketRanges:
    return runs(prod(q.inputs[0].shape[:2]), _row_seconds(q), q.device)
