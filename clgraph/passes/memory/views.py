"""Results that lie in an input, or the other way round: cuts, reshapes and transposes that run nothing."""

from __future__ import annotations

from collections.abc import Collection

from clgraph.core.layout import Layout
from clgraph.core.strides import reshaped_pitches, same_places
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.attention import Attention
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.memory.joining import can_move, from_elsewhere, on_host, reads
from clgraph.passes.memory.sharing import cuts, part_of, unit_of
from clgraph.passes.selection import in_place


def cut_parts(program: Program, context: Context, node: Node) -> None:
    """Let the results of a slice or split lie in its input, where all of them can."""
    source = node.inputs[0]
    whole = source.layout
    if on_host(context, node) or whole.halo or from_elsewhere(node):
        return
    cut = cuts(node)
    if cut is None:
        return
    axis, starts = cut
    places: list[tuple[Value, Layout, int]] = []
    for value, start in zip(node.outputs, starts, strict=True):
        part, own = part_of(whole, axis, start, value.layout.shape), value.layout
        fits = own.format == whole.format and not own.halo and own.dtype == whole.dtype
        if part is None or not fits or program.is_output(value) or value.buffer is not None:
            return
        aligned = (source.offset + part[1]) % unit_of(context.device(node)) == 0
        if not aligned or not all(reads(context, r, value, part[0]) for r in value.readers):
            return
        places.append((value, *part))
    _share(source)
    for value, layout, offset in places:
        value.layout, value.buffer, value.offset = layout, source.buffer, source.offset + offset
        for reader in value.readers:
            reader.choice = None
    node.choice = in_place(node, context)


def view(program: Program, context: Context, node: Node) -> None:
    """Let the result of a reshape or reorder be its input under another layout, where the elements lie alike."""
    source, result = node.inputs[0], node.output
    unmoved = source.layout.dtype == result.layout.dtype and same_places(source.layout, result.layout)
    if node.fused or on_host(context, node) or from_elsewhere(node) or not unmoved:
        return
    if source.layout.halo or result.layout.halo or result.buffer is not None or result.layout.count == 0:
        return
    # Lanes behind the last channel of a block take more bytes than a source without them has; those that the source has
    # are zeros already.
    if result.layout.nbytes > source.layout.nbytes:
        return
    _share(source)
    result.buffer, result.offset = source.buffer, source.offset
    node.choice = in_place(node, context)


def pitched_view(program: Program, context: Context, node: Node) -> None:
    """Let the result of a reshape or transpose be its input under other pitches, where its readers agree."""
    source, result, p = node.inputs[0], node.output, node.primitive
    if program.is_output(result) or result.buffer is not None:
        return
    if not _may_turn(context, node, beside_attention=_is_for_attention(node)):
        return
    layout = source.layout
    if isinstance(p, Transpose):
        pitches: tuple[int, ...] | None = tuple(layout.all_pitches[axis] for axis in p.axes)
    else:
        pitches = reshaped_pitches(layout, result.layout.shape) if isinstance(p, Reshape) else None
    if pitches is None or not result.layout.format.is_plain:
        return
    view = result.layout.with_pitches(pitches)
    if not all(reads(context, reader, result, view) for reader in result.readers):
        return
    _share(source)
    result.layout, result.buffer, result.offset = view, source.buffer, source.offset
    for reader in result.readers:
        reader.choice = None
    node.choice = in_place(node, context)


def write_transposed(program: Program, context: Context, node: Node, once: Collection[Node]) -> None:
    """Let the input of a transpose be made where the result has its elements, where its producer can."""
    source, result, p = node.inputs[0], node.output, node.primitive
    made = source.producer.primitive if source.producer is not None else None
    if not isinstance(p, Transpose) or source.readers != (node,):
        return
    if not _may_turn(context, node, beside_attention=isinstance(made, Attention)):
        return
    if result.layout.halo or not result.layout.format.is_plain:
        return
    pitch = dict(zip(p.axes, result.layout.all_pitches, strict=True))
    layout = source.layout.with_pitches(tuple(pitch[axis] for axis in range(source.layout.rank)))
    if not source.layout.format.is_plain or not can_move(program, context, node, source, layout, result.offset, once):
        return
    _share(result)
    source.layout, source.buffer, source.offset = layout, result.buffer, result.offset
    if source.producer is not None:
        source.producer.choice = None
    node.choice = in_place(node, context)


def _may_turn(context: Context, node: Node, *, beside_attention: bool) -> bool:
    """Whether *node* may be nothing but other pitches of the same elements: any on a GPU, some on a CPU."""
    source, result = node.inputs[0].layout, node.output.layout
    alike = source.dtype == result.dtype and not source.halo and not result.halo and not source.format.blocks
    free = not node.fused and not node.in_place and not from_elsewhere(node) and result.count > 0
    kind = context.device(node).kind
    return alike and free and (kind == "gpu" or (kind == "cpu" and beside_attention))


def _is_for_attention(node: Node) -> bool:
    """Whether nothing but attention reads the result of *node*, perhaps through transposes."""
    return all(
        isinstance(reader.primitive, Attention)
        or (isinstance(reader.primitive, Transpose) and _is_for_attention(reader))
        for reader in node.output.readers
    )


def _share(source: Value) -> None:
    if source.buffer is None:
        source.buffer = Buffer(source.name, source.layout.nbytes)
