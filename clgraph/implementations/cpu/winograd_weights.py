"""Weights of 3x3 convolutions, transformed and packed for Winograd's algorithm on CPU devices."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.implementations.cpu.cost import split, step_seconds, ticket_seconds
from clgraph.ops.winograd_weights import LANES, WinogradWeights
from clgraph.selector.descriptor import Descriptor, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("pack_winograd", library="weights", any_alignment=True)
class PackWinogradDesc(Descriptor):
    """Fields as in ``pack_winograd.cl``."""

    inp: Pointer
    out: Pointer
    pitch_o: Long
    pitch_c: Long
    pitch_y: Long
    pitch_x: Long
    outputs: Int
    channels: Int
    padded: Int
    vectors: Int
    stride: Int
    runs: Int
    ticket_channels: Int


@implements(
    WinogradWeights,
    name="winograd_weights.pack",
    serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})),
    general=True,
)
class PackWinograd(Implementation[WinogradWeights]):
    """Sixteen output channels at a time, in double."""

    @classmethod
    def limits(cls, q: Query[WinogradWeights]) -> str | None:
        return None if q.primitive.vectors else "packs blocks of output channels"

    @classmethod
    def cost(cls, q: Query[WinogradWeights]) -> float:
        moved = q.outputs[0].nbytes
        return step_seconds(q.device, moved * q.device.costs.unit("winograd.weights.byte"), moved, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[WinogradWeights]) -> Plan:
        w, (groups, positions, padded, lanes) = q.inputs[0], q.outputs[0].shape
        one = positions * lanes * 4 * q.device.costs.unit("winograd.weights.byte")
        wanted = ticket_seconds(one * groups * padded, q.device)
        runs = split(padded, one, wanted, 1)
        pitch_o, pitch_c, pitch_y, pitch_x = w.all_pitches
        desc = PackWinogradDesc(
            inp=Ref("in0", 4 * w.origin),
            out=Ref("out0"),
            pitch_o=pitch_o,
            pitch_c=pitch_c,
            pitch_y=pitch_y,
            pitch_x=pitch_x,
            outputs=w.shape[0],
            channels=w.shape[1],
            padded=padded,
            vectors=lanes // LANES,
            stride=q.primitive.stride,
            runs=runs.count,
            ticket_channels=runs.each,
        )
        return Plan((Tile("pack_winograd", desc, groups * runs.count),))
