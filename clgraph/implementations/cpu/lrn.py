"""Local response normalisation of blocked tensors on CPU devices."""

from __future__ import annotations

from clgraph.implementations.cpu.blocked import TILE, wanted_formats
from clgraph.implementations.cpu.cost import step_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import (
    LANES,
    InPlanes,
    OutPlanes,
    Surface,
    both_blocked_refusal,
    in_planes,
    out_planes,
    planes,
    surface,
)
from clgraph.implementations.cpu.pieces import pieces
from clgraph.ops.lrn import Lrn
from clgraph.selector.descriptor import Descriptor, Float, Int, Pointer, descriptor
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

PIECE = 32
"""Pixels whose squares lie in scratch at a time: 6 KB stay in the first-level cache."""


@descriptor("lrn_fsv16", library="convolution")
class LrnFsv16Desc(InPlanes, OutPlanes, Surface, Descriptor):
    """Fields as in ``lrn_fsv16.cl``."""

    inp: Pointer
    out: Pointer
    before: Int
    after: Int
    blocks: Int
    lanes: Int
    piece: Int
    row_pieces: Int
    strips: Int
    strip_pieces: Int
    roots: Int
    alpha: Float
    beta: Float
    bias: Float


def _vector_seconds(q: Query[Lrn]) -> float:
    """Return the time of a window's channels and of the power, of a vector."""
    unit = q.device.costs.unit
    return (q.primitive.size + 3) * unit("lrn.tap") + unit("lrn.root" if q.primitive.beta == 0.75 else "lrn.power")


@implements(Lrn, name="lrn.fsv16", serves=TILE)
class LrnFsv16(Implementation[Lrn]):
    """Windows over the squares of three neighbouring blocks."""

    @classmethod
    def limits(cls, q: Query[Lrn]) -> str | None:
        if q.primitive.size > 2 * LANES:
            return f"serves windows of at most {2 * LANES} channels, not {q.primitive.size}"
        return both_blocked_refusal(q) or post_refusal(q)

    @classmethod
    def formats(cls, q: Query[Lrn]) -> tuple[Formats, ...]:
        return wanted_formats(q) if q.outputs[0].rank in (3, 4) else ()

    @classmethod
    def cost(cls, q: Query[Lrn]) -> float:
        vectors = q.outputs[0].nbytes / 4 / LANES
        traffic = sum(x.nbytes for x in (*q.inputs, *q.outputs))
        return step_seconds(q.device, vectors * _vector_seconds(q), traffic, 8 * q.device.workers)

    @classmethod
    def plan(cls, q: Query[Lrn]) -> Plan:
        x, y, p, post = planes(q.inputs[0]), planes(q.outputs[0]), q.primitive, blocked_posts(q)
        cut = pieces(x, y, post, PIECE, _vector_seconds(q), q.device)
        desc = LrnFsv16Desc(
            inp=x.at("in0"),
            out=y.at("out0"),
            **in_planes(x),
            **out_planes(y),
            **surface(cut.height, cut.width, y.halo),
            before=(p.size - 1) // 2,
            after=p.size // 2,
            blocks=y.blocks,
            lanes=y.lanes,
            piece=PIECE,
            row_pieces=cut.row_pieces,
            strips=cut.strips.count,
            strip_pieces=cut.strips.each,
            roots=int(p.beta == 0.75),
            alpha=p.alpha / p.size,
            beta=p.beta,
            bias=p.bias,
        )
        tickets = y.batch * y.blocks * cut.strips.count
        return Plan((Tile("lrn_fsv16", desc, tickets, scratch=PIECE * 3 * LANES * 4, post=post),))
