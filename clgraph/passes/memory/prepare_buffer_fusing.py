"""Let values share buffers, so that joining and cutting moves nothing. Answers clDNN's prepare_buffer_fusing."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from clgraph.core.layout import Layout
from clgraph.core.strides import reshaped_pitches, same_places
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Milestone, Program
from clgraph.ops.attention import Attention
from clgraph.ops.concat import Concat
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.sharing import cuts, joins, part_of, unit_of
from clgraph.passes.rewriting import constant_part
from clgraph.passes.selection import estimate, in_place, widest
from clgraph.selector.query import Query


class PrepareBufferFusing(Pass):
    """Put the parts of a concat into its result, and cuts and reshapes into their input: several values in one buffer.

    * A concat runs nothing when every input can be written where the result has it: its producer and all its readers
      serve the result's pitches, it is not a graph input, output or constant and shares no buffer yet, it appears once,
      its offset is a multiple of the blocks and of 64 bytes (16 on a GPU), and only the last part may end inside a
      block. Concats are visited last first, so that one inside another lies in the outer one's buffer.
    * A slice or split with steps of 1 along one axis is a view under the same conditions on its readers, as long as
      the input has no halo and no part but the last ends inside a block: the lanes behind it would not be zeros.
    * A reshape or reorder whose elements lie in the same places is a view.
    * On a GPU, whose kernels take any pitches, a reshape of such a part is a view, and a transpose that its input's
      producer can write, or whose readers can read, as it is. On a CPU, whose other kernels lose more than a copy
      takes where vectors are not side by side, so are those around attention. It reads queries, keys and values where
      matrix products left them, and writes its heads side by side.
    * Nothing shares a buffer across devices, and nothing that is made of constants alone shares one: it becomes a
      constant, which no run writes anywhere.

    Whatever does not fit stays a copy. The layouts of values that share a buffer do not change after this pass;
    add_required_reorders copies beside them instead. Counts the nodes that run nothing any more.
    """

    name: ClassVar[str] = "prepare_buffer_fusing"
    handles: ClassVar[Mapping[str, str]] = {
        "concat": "its parts lie in its result",
        "slice": "lies in what it cuts",
        "split": "lies in what it cuts",
        "reshape": "lies in its input",
        "transpose": "lies in its input or the other way round, on a GPU and around attention",
        "reorder": "lies in its input where nothing moves",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        before = sum(n.in_place for n in program)
        once = frozenset(constant_part(program))
        for node in reversed(tuple(program)):
            if isinstance(node.primitive, Concat) and node not in once:
                _join(program, context, node, once)
        for node in program:
            if node in once:
                continue
            if isinstance(node.primitive, Slice | Split):
                _cut(program, context, node)
            elif isinstance(node.primitive, Reshape | Reorder):
                _view(program, context, node)
                _pitched_view(program, context, node)
            elif isinstance(node.primitive, Transpose):
                _write_transposed(program, context, node, once)
                _pitched_view(program, context, node)
        return sum(n.in_place for n in program) - before


def _on_host(context: Context, node: Node) -> bool:
    return context.device(node).kind == "host"


def _from_elsewhere(node: Node) -> bool:
    """Whether the first input of *node* is made on another device."""
    producer = node.inputs[0].producer
    return producer is not None and producer.placement != node.placement


def _join(program: Program, context: Context, node: Node, once: Collection[Node]) -> None:
    """Let the inputs of a concat lie in its result, where all of them can; those made by *once* never can."""
    joined, whole = joins(node), node.output
    if node.fused or _on_host(context, node) or joined is None:
        return
    layout = _common_halo(program, context, whole, node)
    places = None if layout is None else _places(program, context, node, layout, whole.offset, once)
    if layout is None or places is None:
        return
    whole.layout = layout
    if whole.buffer is None:
        whole.buffer = Buffer(whole.name, whole.layout.nbytes)
    for value, layout, offset in places:
        value.layout, value.buffer, value.offset = layout, whole.buffer, offset
        if value.producer is not None:
            value.producer.choice = None
    node.choice = in_place(node, context)


def _places(
    program: Program, context: Context, node: Node, whole: Layout, base: int, once: Collection[Node]
) -> list[tuple[Value, Layout, int]] | None:
    """Return layout and offset of each input of a concat whose result is *whole* at *base*; ``None`` if one refuses."""
    joined = joins(node)
    if node.fused or _on_host(context, node) or joined is None or whole.halos[joined[0]] != (0, 0):
        return None
    places = []
    for value, start in zip(node.inputs, joined[1], strict=True):
        part = part_of(whole, joined[0], start, value.layout.shape)
        if part is None or (base + part[1]) % unit_of(context.device(node)):
            return None
        if not _can_move(program, context, node, value, part[0], base + part[1], once):
            return None
        places.append((value, part[0], base + part[1]))
    return places


def _common_halo(program: Program, context: Context, whole: Value, node: Node) -> Layout | None:
    """Return the layout of a concat's result with the widest halo of its inputs; ``None`` if a reader refuses that."""
    halo = whole.layout.halos
    for value in node.inputs:
        halo = widest(halo, value.layout.halos)
    if halo == whole.layout.halos:
        return whole.layout
    layout = whole.layout.with_halo(halo)
    movable = whole.buffer is None and not program.is_output(whole)
    return layout if movable and all(_reads(context, r, whole, layout) for r in whole.readers) else None


def _can_move(
    program: Program, context: Context, node: Node, value: Value, layout: Layout, base: int, once: Collection[Node]
) -> bool:
    """Whether *value* can lie as *layout* at *base*, to its producer and to its readers other than *node*."""
    own = value.layout
    if value.producer is None or value.producer in once or program.is_output(value) or value.buffer is not None:
        return False
    if own.dtype != layout.dtype or own.format != layout.format or not layout.has_zeros(own.halos):
        return False
    producer = value.producer
    q = context.query(producer)
    outputs = tuple(layout if v is value else x for v, x in zip(producer.outputs, q.outputs, strict=True))
    if producer.placement != node.placement or producer.in_place:
        return False
    joined = _places(program, context, producer, layout, base, once) if isinstance(producer.primitive, Concat) else None
    if joined is None and not _serves(context, producer, q, q.inputs, outputs):
        return False
    return all(_reads(context, reader, value, layout) for reader in value.readers if reader is not node)


def _reads(context: Context, reader: Node, value: Value, layout: Layout) -> bool:
    """Whether *reader* runs as well with *value* as *layout*."""
    if reader.in_place:
        return False
    q = context.query(reader)
    inputs = tuple(layout if v is value else x for v, x in zip(reader.inputs, q.inputs, strict=True))
    return _on_host(context, reader) or _serves(context, reader, q, inputs, q.outputs)


def _serves(
    context: Context, node: Node, q: Query[Any], inputs: tuple[Layout, ...], outputs: tuple[Layout, ...]
) -> bool:
    """Whether *node* runs on other pitches about as fast as now."""
    now, then = estimate(context, node, q), estimate(context, node, q.with_layouts(inputs, outputs))
    return then is not None and (now is None or then <= 1.5 * now)


def _cut(program: Program, context: Context, node: Node) -> None:
    """Let the results of a slice or split lie in its input, where all of them can."""
    source = node.inputs[0]
    whole = source.layout
    if node.fused or _on_host(context, node) or whole.halo or _from_elsewhere(node):
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
        if not aligned or not all(_reads(context, r, value, part[0]) for r in value.readers):
            return
        places.append((value, *part))
    _share(source)
    for value, layout, offset in places:
        value.layout, value.buffer, value.offset = layout, source.buffer, source.offset + offset
        for reader in value.readers:
            reader.choice = None
    node.choice = in_place(node, context)


def _view(program: Program, context: Context, node: Node) -> None:
    """Let the result of a reshape or reorder be its input under another layout, where the elements lie alike."""
    source, result = node.inputs[0], node.output
    unmoved = source.layout.dtype == result.layout.dtype and same_places(source.layout, result.layout)
    if node.fused or _on_host(context, node) or _from_elsewhere(node) or not unmoved:
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


def _pitched_view(program: Program, context: Context, node: Node) -> None:
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
    if not all(_reads(context, reader, result, view) for reader in result.readers):
        return
    _share(source)
    result.layout, result.buffer, result.offset = view, source.buffer, source.offset
    for reader in result.readers:
        reader.choice = None
    node.choice = in_place(node, context)


def _write_transposed(program: Program, context: Context, node: Node, once: Collection[Node]) -> None:
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
    if not source.layout.format.is_plain or not _can_move(program, context, node, source, layout, result.offset, once):
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
    free = not node.fused and not node.in_place and not _from_elsewhere(node) and result.count > 0
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
