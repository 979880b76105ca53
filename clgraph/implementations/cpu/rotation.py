"""Pairs of features turned by an angle each, on CPU devices: a row of plain tensors at a time."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.cost import TicketRanges, runs, step_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.rotation import Rotation, angle_pitches
from clgraph.selector.descriptor import Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

_ROW_VECTORS = 4
"""Vectors that take as long as what is done once a row."""

_AXES = 3
"""Of rows."""


@descriptor("rotation_rows", any_alignment=True)
class RotationRowsDesc(Descriptor):
    """Fields as in ``rotation_rows.cl``."""

    inp: Pointer
    cosines: Pointer
    sines: Pointer
    out: Pointer
    inp_n: Int
    inp_c: Int
    inp_y: Int
    out_n: Int
    out_c: Int
    out_y: Int
    angle_n: Int
    angle_c: Int
    angle_y: Int
    planes: Int
    lines: Int
    rows: Int
    ticket_rows: Int
    pairs: Int
    width: Int
    neighbours: Int


def _row_seconds(q: Query[Rotation]) -> float:
    vectors = -(-q.inputs[0].shape[-1] // LANES) + _ROW_VECTORS
    return vectors * q.device.costs.unit("copy.vector")


def _tickets(q: Query[Rotation]) -> TicketRanges:
    return runs(prod(q.inputs[0].shape[:-1]), _row_seconds(q), q.device)


def _beside(t: Layout) -> bool:
    return t.format.is_plain and (t.shape[-1] < 2 or t.all_pitches[-1] == 1)


@implements(Rotation, name="rotation.rows", serves=Serves(dtypes=frozenset({DType.F32}), kinds=frozenset({"cpu"})))
class RotationRows(Implementation[Rotation]):
    """Sixteen pairs at a time."""

    @classmethod
    def limits(cls, q: Query[Rotation]) -> str | None:
        x, cos, sin = q.inputs
        if not q.outputs[0].is_dense_plain or not all(map(_beside, q.inputs)):
            return "serves plain tensors whose features lie side by side"
        if x.rank > _AXES + 1:
            return f"walks {_AXES} axes of rows, and these tensors have {x.rank - 1}"
        return None if angle_pitches(cos, x) == angle_pitches(sin, x) else "requires cos and sin that lie alike"

    @classmethod
    def overwrites(cls, q: Query[Rotation]) -> frozenset[int]:
        return frozenset({0}) if q.inputs[0] == q.outputs[0] else frozenset()

    @classmethod
    def cost(cls, q: Query[Rotation]) -> float:
        seconds = prod(q.inputs[0].shape[:-1]) * _row_seconds(q)
        return step_seconds(q.device, seconds, 2 * q.inputs[0].nbytes, _tickets(q).count)

    @classmethod
    def plan(cls, q: Query[Rotation]) -> Plan:
        (x, cos, sin), (y,), tickets = q.inputs, q.outputs, _tickets(q)
        planes, lines = (1, 1, *x.shape[:-1])[-2:]
        inp, out, angle = (
            (*(0,) * (_AXES - len(p)), *p) for p in (x.all_pitches[:-1], y.all_pitches[:-1], angle_pitches(cos, x))
        )
        desc = RotationRowsDesc(
            inp=Ref("in0", x.origin * x.dtype.itemsize),
            cosines=Ref("in1", cos.origin * cos.dtype.itemsize),
            sines=Ref("in2", sin.origin * sin.dtype.itemsize),
            out=Ref("out0"),
            inp_n=inp[0],
            inp_c=inp[1],
            inp_y=inp[2],
            out_n=out[0],
            out_c=out[1],
            out_y=out[2],
            angle_n=angle[0],
            angle_c=angle[1],
            angle_y=angle[2],
            planes=planes,
            lines=lines,
            rows=prod(x.shape[:-1]),
            ticket_rows=tickets.each,
            pairs=cos.shape[-1],
            width=x.shape[-1],
            neighbours=int(q.primitive.interleaved),
        )
        return Plan((Tile("rotation_rows", desc, tickets.count),))
