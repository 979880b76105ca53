"""Weights of 1x1 convolutions, added up and packed for Strassen's algorithm on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import split, step_seconds, ticket_seconds
from clgraph.ops.strassen_weights import LANES, StrassenWeights
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("pack_strassen", library="weights", any_alignment=True)
class PackStrassenDesc(Descriptor):
    """Fields as in ``pack_strassen.cl``."""

    inp: Pointer
    out: Pointer
    pitch_o: Long
    pitch_c: Long
    half_channels: Int
    nb: Int
    runs: Int
    ticket_channels: Int


@implements(
    StrassenWeights,
    name="strassen_weights.pack",
    serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})),
    general=True,
)
class PackStrassen(Implementation[StrassenWeights]):
    """Sixteen output channels at a time, in double."""

    @classmethod
    def cost(cls, q: Query[StrassenWeights]) -> float:
        moved = q.outputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("pack.byte"), moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[StrassenWeights]) -> Plan:
        w, (groups, products, half, lanes) = q.inputs[0], q.outputs[0].shape
        one = products * lanes * 4 * q.device.costs.unit("pack.byte")
        runs = split(half, one, ticket_seconds(one * groups * half, q.device), 1)
        desc = PackStrassenDesc(
            inp=Ref("in0", 4 * w.origin),
            out=Ref("out0"),
            pitch_o=w.all_pitches[0],
            pitch_c=w.all_pitches[1],
            half_channels=half,
            nb=lanes // LANES,
            runs=runs.count,
            ticket_channels=runs.each,
        )
        return Plan((Tile("pack_strassen", desc, groups * runs.count),))
