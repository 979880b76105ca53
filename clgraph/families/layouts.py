"""Halos and shared buffers of a member, derived again from the choices and formats that it has taken over."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from clgraph.core.layout import Halo
from clgraph.core.strides import reshaped_pitches, same_places
from clgraph.errors import BindingError
from clgraph.families.taken import Taken
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.ops.concat import Concat
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.memory.sharing import cuts, joins, part_of, unit_of
from clgraph.passes.selection import widest
from clgraph.selector.query import Query

Pair = tuple[Taken, Node]
"""What is taken over from a node of the representative, and the member's node."""
Asked = dict[Node, Query[Any]]
"""The problems that implementations were asked about, by node."""


def widen_halos(program: Program, context: Context, pairs: list[Pair]) -> tuple[int, Asked]:
    """Give every value the zeros around it that the implementations taken over read; return how many are widened.

    Returns also the problems that implementations were asked about: most stay as they are.

    Raises:
        BindingError: An input of the model would need some, or what shares memory with another value.
    """
    changes, in_place = 0, {node for taken, node in pairs if taken.in_place}
    asked: Asked = {}
    for taken, node in pairs:
        if not taken.reads_zeros:
            continue
        q = asked[node] = taken.query(node, context.device(node))
        for slot, halo in taken.implementation.halo(q).items():
            value = node.inputs[slot]
            if not value.layout.has_zeros(halo):
                _widen(program, value, halo, node, in_place)
                changes += 1
    for _, node in pairs:
        primitive = node.primitive
        if isinstance(primitive, Reorder) and primitive.halo != node.output.layout.halo:
            node.primitive = replace(primitive, halo=node.output.layout.halo)
    return changes, asked


def _widen(program: Program, value: Value, halo: Halo, reader: Node, in_place: Collection[Node]) -> None:
    producer = value.producer
    shared = producer in in_place and not (producer is not None and isinstance(producer.primitive, Concat))
    if producer is None or shared or program.is_output(value):
        raise BindingError(f"node {reader.name!r} reads zeros {halo} around {value.name!r}, which has none")
    value.layout = value.layout.with_halo(widest(value.layout.halos, halo))


def share(program: Program, context: Context, pairs: list[Pair]) -> list[Node]:
    """Put values into the buffers of others as the representative has them; return the nodes that have to run instead.

    Raises:
        BindingError: The parts of a concat are not apart, or need zeros around them that it has no place for.
    """
    shared = [(taken.node, node) for taken, node in pairs if taken.in_place]
    lost = [node for _, node in reversed(shared) if isinstance(node.primitive, Concat) and not _join(node, context)]
    for old, node in shared:
        if isinstance(node.primitive, Concat):
            continue
        if isinstance(node.primitive, Slice | Split):
            shares = _cut(node, context)
        elif isinstance(node.primitive, Transpose) and _is_written_transposed(old):
            shares = _write_transposed(node, node.primitive)
        else:
            shares = _pitched_view(node) if old.output.layout.pitches else _view(node)
        if not shares:
            lost.append(node)
    return lost


def _join(node: Node, context: Context) -> bool:
    """Let the parts of a concat lie in its result, and say whether they begin where vectors can be written."""
    whole, joined = node.output, joins(node)
    if joined is None:
        raise BindingError(f"the parts of {node.name!r} are not apart")
    halo = whole.layout.halos
    for value in node.inputs:
        halo = widest(halo, value.layout.halos)
    if halo != whole.layout.halos and whole.buffer is not None:
        raise BindingError(f"{whole.name!r} would need wider zeros around it than what it is a part of")
    # It may have the pitches of a larger concat that it is a part of.
    layout = whole.layout if halo == whole.layout.halos else whole.layout.with_halo(halo)
    places = []
    for value, start in zip(node.inputs, joined[1], strict=True):
        part = part_of(layout, joined[0], start, value.layout.shape)
        if part is None or (whole.offset + part[1]) % unit_of(context.device(node)):
            return False
        places.append((value, *part))
    if halo != whole.layout.halos:
        whole.layout = layout
    buffer = _buffer(whole)
    for value, of_part, offset in places:
        value.layout, value.buffer, value.offset = of_part, buffer, whole.offset + offset
    return True


def _cut(node: Node, context: Context) -> bool:
    """Let the results of a slice or split lie in its input, and say whether they can."""
    source, cut = node.inputs[0], cuts(node)
    if cut is None or source.layout.halo:
        return False
    places = []
    for value, start in zip(node.outputs, cut[1], strict=True):
        part = part_of(source.layout, cut[0], start, value.layout.shape)
        if part is None or (source.offset + part[1]) % unit_of(context.device(node)):
            return False
        places.append((value, *part))
    buffer = _buffer(source)
    for value, layout, offset in places:
        value.layout, value.buffer, value.offset = layout, buffer, source.offset + offset
    return True


def _view(node: Node) -> bool:
    """Let the result of a reshape or reorder be its input under another layout, and say whether it can."""
    source, result = node.inputs[0], node.output
    mine, its = source.layout, result.layout
    if mine.dtype != its.dtype or mine.halo or its.halo or not its.count or its.nbytes > mine.nbytes:
        return False
    if not same_places(mine, its):
        return False
    result.buffer, result.offset = _buffer(source), source.offset
    return True


def _pitched_view(node: Node) -> bool:
    """Let the result of a reshape or transpose be its input under other pitches, and say whether it can."""
    source, result, p = node.inputs[0], node.output, node.primitive
    mine = source.layout
    if (
        mine.halo
        or mine.format.blocks
        or result.layout.halo
        or not result.layout.count
        or mine.dtype != result.layout.dtype
    ):
        return False
    if isinstance(p, Transpose):
        pitches: tuple[int, ...] | None = tuple(mine.all_pitches[axis] for axis in p.axes)
    else:
        pitches = reshaped_pitches(mine, result.layout.shape)
    if pitches is None:
        return False
    result.layout = result.layout.with_pitches(pitches)
    result.buffer, result.offset = _buffer(source), source.offset
    return True


def _is_written_transposed(old: Node) -> bool:
    """Whether the input of a transpose was made where the result has its elements: the result is not moved for it."""
    result = old.output
    return not result.layout.pitches or any(r.in_place and isinstance(r.primitive, Concat) for r in result.readers)


def _write_transposed(node: Node, p: Transpose) -> bool:
    """Let the input of a transpose be made where the result has its elements, and say whether it can."""
    source, result = node.inputs[0], node.output
    mine = source.layout
    if source.producer is None or source.buffer is not None or mine.halo or mine.pitches or result.layout.halo:
        return False
    pitch = dict(zip(p.axes, result.layout.all_pitches, strict=True))
    source.layout = mine.with_pitches(tuple(pitch[axis] for axis in range(mine.rank)))
    source.buffer, source.offset = _buffer(result), result.offset
    return True


def _buffer(value: Value) -> Buffer:
    if value.buffer is None:
        value.buffer = Buffer(value.name, value.layout.nbytes)
    return value.buffer
