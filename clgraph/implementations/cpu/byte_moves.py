"""Between floats and bytes in blocks on CPU devices, with a list of operations between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.blocked import operand_proposals
from clgraph.implementations.cpu.byte_end_fields import ByteEnd, end_numbers
from clgraph.implementations.cpu.byte_ends import listed_refusal, lookup_of, operand_ref
from clgraph.implementations.cpu.cost import again_seconds, step_seconds
from clgraph.implementations.cpu.fused_operations import blocked_posts, post_refusal
from clgraph.implementations.cpu.geometry import LANES, blocked_refusal, planes
from clgraph.implementations.cpu.pieces import pieces
from clgraph.implementations.cpu.reorder import as_planes
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.selector.descriptor import NULL, Descriptor, Int, Pointer, Ref, descriptor
from clgraph.selector.implementation import Formats
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query

PLANES, BLOCKS, BYTES, PLACES = 0, 1, 2, 3
"""What ``bytes_fsv16.cl`` reads: planes or blocks of floats, blocks of bytes, or of places in a table."""
PIECE = 64
"""Pixels that are staged at once."""
_ROUNDED, _MOVED = 1, 2
"""Copies of a vector that rounding floats to bytes takes, and every other move. Emerald Rapids, of what a core's own
cache holds: 0.8 to 0.9 with kernels for AVX-512, 0.9 to 1.2 with those for SSE2; widening 1.6 to 2 with SSE2."""


@descriptor("bytes_fsv16", library="bytes", any_alignment=True)
class BytesFsv16Desc(ByteEnd, Descriptor):
    """Fields as in ``bytes_fsv16.cl``."""

    inp: Pointer
    scale: Pointer
    zero_point: Pointer
    entries: Pointer
    out: Pointer
    in_n: Int
    in_c: Int
    in_y: Int
    out_n: Int
    out_c: Int
    out_y: Int
    height: Int
    width: Int
    above: Int
    below: Int
    before: Int
    behind: Int
    blocks: Int
    lanes: Int
    row_pieces: Int
    pieces: Int
    strips: Int
    rounds: Int
    source: Int
    divided: Int


def split_steps(q: Query[Any]) -> tuple[tuple[Fused, ...], StaticQuantize | None] | str:
    """Return the list and the rounding at its end, or why it has other parts.

    A table that the bytes are looked up in may follow.
    """
    looks_up = lookup_of(q) is not None
    steps = q.post[:-1] if looks_up else q.post
    last = steps[-1].primitive if steps else None
    rounding = last if isinstance(last, StaticQuantize) else None
    listed = steps[: len(steps) - (rounding is not None)]
    if looks_up and rounding is None and not isinstance(q.primitive, StaticQuantize):
        return "looks up bytes that it rounds to"
    return listed_refusal(q, listed) or (listed, rounding)


def between_refusal(q: Query[Any]) -> str | None:
    """Say why blocks of bytes and floats are not moved as *q* wants, or return ``None``."""
    x, (y,) = q.inputs[0], q.outputs
    if x.dtype == DType.F32 and x.format.is_plain and x.rank in (3, 4):
        if x.all_pitches[-1] != 1:
            return "requires the pixels of the input side by side"
    elif (why := blocked_refusal(x, "the input")) is not None:
        return why
    refused = blocked_refusal(y, "the result") or post_refusal(q)
    if refused is not None:
        return refused
    if y.halo and y.dtype != DType.F32:
        return "writes a halo around floats alone"
    return found if isinstance(found := split_steps(q), str) else None


def between_formats(q: Query[Any], *, plain: bool = False) -> tuple[Formats, ...]:
    """Return the proposals with the first input in blocks, or *plain*, too, and the result in blocks."""
    rank = q.outputs[0].rank
    if rank not in (3, 4):
        return ()
    blocked, rest = feature_blocked(rank), range(q.arity, len(q.inputs))
    sources = (blocked, Format.plain(rank)) if plain else (blocked,)
    own = [(source, *(None,) * (q.arity - 1)) for source in sources]
    return tuple(f for o in own for f in operand_proposals(q, o, rest, blocked, q.outputs[0]))


def between_seconds(q: Query[Any]) -> float:
    """Estimate the time of a move between bytes and floats: of whole blocks, at least what no core's own cache has."""
    x, (y,) = q.inputs[0], q.outputs
    blocks = planes(y) if y.format.blocks else None
    vectors = y.count / LANES if blocks is None else blocks.batch * blocks.blocks * blocks.height * blocks.width
    moved = sum(v.nbytes for v in (*q.inputs, *q.outputs))
    each = (_ROUNDED if x.dtype == DType.F32 and y.dtype == DType.U8 else _MOVED) + len(q.post)
    seconds = step_seconds(q.device, vectors * q.device.costs.unit("copy.vector") * each, moved, 8 * q.device.workers)
    # Lines are fetched before they are written.
    return max(seconds, q.device.costs.step_seconds + again_seconds(q.device, moved + y.nbytes, 1.0))


def looked_up(q: Query[Any]) -> Plan:
    """Return the step from the first input, places in the table that is the second one, to the result."""
    return between(q, None, places=True)


def between(
    q: Query[Any],
    last: StaticQuantize | None,
    scale: Ref = NULL,
    zero: Ref = NULL,
    *,
    divided: bool = False,
    places: bool = False,
) -> Plan:
    """Return the step from the first input to the result.

    Args:
        last: The primitive itself where it is a rounding.
        scale, zero: Of an input of bytes.
        divided: They are those of the result.
        places: The second input is a table, and nothing else is done.
    """
    x, (y,) = q.inputs[0], q.outputs
    found = split_steps(q)
    assert not isinstance(found, str)
    listed, rounding = found
    rounding = rounding or last
    kind = BYTES if x.dtype == DType.U8 else PLANES if x.format.is_plain else BLOCKS
    kind = PLACES if places else kind
    a, b = as_planes(x) if kind == PLANES else planes(x), planes(y)
    posts = blocked_posts(replace(q, fused=listed))
    pixel = q.device.costs.unit("copy.vector") * (2 + len(posts))
    flat = a if kind != PLANES or a.y != a.width else replace(a, y=a.width * LANES)
    cut = pieces(flat, b, posts, PIECE, pixel, q.device)
    above, below, before, behind = b.halo
    said: dict[str, Any] = {} if rounding is None else {"first": rounding.scale}
    desc = BytesFsv16Desc(
        inp=Ref("in0", x.dtype.itemsize * x.origin) if kind == PLANES else a.at("in0"),
        scale=scale,
        zero_point=zero,
        entries=operand_ref(q, 1 if places else lookup_of(q)),
        out=b.at("out0"),
        in_n=a.n,
        in_c=a.c,
        in_y=a.y,
        out_n=b.n,
        out_c=b.c,
        out_y=b.y,
        height=cut.height,
        width=cut.width,
        above=above,
        below=below,
        before=before,
        behind=behind,
        blocks=b.blocks,
        lanes=b.lanes,
        row_pieces=cut.row_pieces,
        pieces=cut.strips.each,
        strips=cut.strips.count,
        rounds=int(y.dtype == DType.U8),
        source=kind,
        divided=int(divided),
        **end_numbers(0 if rounding is None else rounding.zero, **said),
    )
    return Plan((Tile("bytes_fsv16", desc, b.batch * b.blocks * cut.strips.count, PIECE * LANES * 4, posts),))


def rows_refusal(q: Query[Any]) -> str | None:
    """Say why *q* is no move of a dense plain tensor of whole vectors, or return ``None``."""
    x, (y,) = q.inputs[0], q.outputs
    if not x.is_dense_plain or not y.is_dense_plain or q.post:
        return "moves dense plain tensors without operations behind it"
    return f"moves multiples of {LANES} elements, not {x}" if x.count % LANES else None


def in_rows(q: Query[Any]) -> Query[Any]:
    """Return *q*, a move of a dense plain tensor of whole vectors, as one of a block of channels."""

    def flat(x: Layout) -> Layout:
        return Layout(x.dtype, (1, LANES, x.count // LANES), feature_blocked(3))

    return q.with_layouts((flat(q.inputs[0]), *q.inputs[1:]), (flat(q.outputs[0]),))
