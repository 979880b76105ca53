"""Images of bytes as planes of floats on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.cost import TicketRanges, row_strips, step_seconds, ticket_seconds
from clgraph.implementations.cpu.geometry import LANES
from clgraph.ops.image_planes import DTYPES, ImagePlanes
from clgraph.selector.descriptor import Descriptor, Float, Int, Long, Pointer, Ref, descriptor
from clgraph.selector.implementation import Implementation, Serves, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@descriptor("image_planes_rows", library="moves", any_alignment=True)
class ImagePlanesRowsDesc(Descriptor):
    """Fields as in ``image_planes_rows.cl``."""

    inp: Pointer
    taps: Pointer
    colours: Pointer
    out: Pointer
    in_n: Long
    out_n: Long
    out_c: Long
    in_y: Int
    depth: Int
    planes: Int
    out_y: Int
    height: Int
    width: Int
    strips: Int
    strip_rows: Int
    row_floats: Int
    padding: Float


def _row_seconds(q: Query[ImagePlanes]) -> float:
    """Return the time of a row of the result."""
    x, y = q.inputs[0], q.outputs[0]
    taps, vector = q.primitive.most_taps(q.inputs[1]), q.device.costs.unit("copy.vector")
    down = taps * x.shape[2] * x.shape[3] / LANES
    along = y.shape[3] * (taps + 3) / 2
    return vector * (down + along)


def _strips(q: Query[ImagePlanes]) -> TicketRanges:
    n, _, height, width = q.outputs[0].shape
    row = _row_seconds(q)
    return row_strips(height, width, row, n, ticket_seconds(row * height * n, q.device), q.device)


@implements(ImagePlanes, name="image_planes.rows", serves=Serves(dtypes=DTYPES, mixed=True, kinds=frozenset({"cpu"})))
class ImagePlanesRows(Implementation[ImagePlanes]):
    """A row of all colours at a time, sixteen floats of rows and four of columns."""

    @classmethod
    def limits(cls, q: Query[ImagePlanes]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if x.all_pitches[2:] != (x.shape[3], 1) or y.all_pitches[3] != 1:
            return "requires rows of pixels side by side"
        if not all(other.is_dense_plain for other in q.own[1:]):
            return "requires taps and colours side by side"
        return None

    @classmethod
    def cost(cls, q: Query[ImagePlanes]) -> float:
        n, _, height, _ = q.outputs[0].shape
        moved = q.inputs[0].nbytes + q.outputs[0].nbytes
        return step_seconds(q.device, n * height * _row_seconds(q), moved, n * _strips(q).count)

    @classmethod
    def plan(cls, q: Query[ImagePlanes]) -> Plan:
        x, (y,), strips = q.inputs[0], q.outputs, _strips(q)
        n, planes, height, width = y.shape
        row = -(-(x.shape[2] * x.shape[3]) // LANES) * LANES + LANES
        desc = ImagePlanesRowsDesc(
            inp=Ref("in0", x.origin),
            taps=Ref("in1"),
            colours=Ref("in2"),
            out=Ref("out0", 4 * y.origin),
            in_n=x.all_pitches[0],
            out_n=y.all_pitches[0],
            out_c=y.all_pitches[1],
            in_y=x.all_pitches[1],
            depth=x.shape[3],
            planes=planes,
            out_y=y.all_pitches[2],
            height=height,
            width=width,
            strips=strips.count,
            strip_rows=strips.each,
            row_floats=row,
            padding=float(q.primitive.padding),
        )
        scratch = 4 * (row + x.shape[3] * -(-width // LANES) * LANES + LANES)
        return Plan((Tile("image_planes_rows", desc, n * strips.count, scratch=scratch),))
