"""Means of the floats that bytes stand for on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES, count_refusal
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.byte_mean import ByteMean, byte_mean_limits
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_SIDE_BY_SIDE = 64
_SIGN = 128
_UNIT_SECONDS = 10e-9
"""What beginning a unit takes. An estimate."""


@descriptor("byte_mean_runs", library="rare", any_alignment=True)
class ByteMeanRunsDesc(Descriptor):
    """Fields as in ``byte_mean_runs.cl``."""

    inp: Pointer
    out: Pointer
    flip: Int
    zeros: Int
    count: Int
    inner: Int
    pieces: Int
    units: Int
    ticket_units: Int
    factor: Float


@implements(
    ByteMean,
    name="byte_mean.runs",
    serves=Serves(dtypes=BYTES | {DType.F32}, kinds=frozenset({"cpu"}), mixed=True),
)
class ByteMeanRuns(Implementation[ByteMean]):
    """Sixteen bytes at a time: of one mean where they lie side by side, else of neighbouring ones."""

    @classmethod
    def limits(cls, q: Query[ByteMean]) -> str | None:
        return byte_mean_limits(q) or count_refusal(q)

    @classmethod
    def cost(cls, q: Query[ByteMean]) -> float:
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, _units(q) * _unit_seconds(q), moved, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[ByteMean]) -> Plan:
        f, x, tickets = q.primitive, q.inputs[0], _tickets(q)
        _, count, inner = f.spans(x.shape)
        flip = _SIGN if x.dtype == DType.I8 else 0
        desc = ByteMeanRunsDesc(
            inp=Ref("in0"),
            out=Ref("out0"),
            flip=flip,
            zeros=(f.zero + flip) * count,
            count=count,
            inner=inner,
            pieces=-(-inner // _SIDE_BY_SIDE),
            units=_units(q),
            ticket_units=tickets.each,
            factor=f.factor(x.shape),
        )
        return Plan((Tile("byte_mean_runs", desc, tickets.count),))


def _units(q: Query[ByteMean]) -> int:
    outer, _, inner = q.primitive.spans(q.inputs[0].shape)
    return outer * -(-inner // _SIDE_BY_SIDE)


def _unit_seconds(q: Query[ByteMean]) -> float:
    _, count, inner = q.primitive.spans(q.inputs[0].shape)
    vectors = -(-count // LANES) if inner == 1 else count * -(-min(inner, _SIDE_BY_SIDE) // LANES)
    return _UNIT_SECONDS + vectors * q.device.costs.unit("copy.vector")


def _tickets(q: Query[ByteMean]) -> TicketRanges:
    return runs(_units(q), _unit_seconds(q), q.device)
