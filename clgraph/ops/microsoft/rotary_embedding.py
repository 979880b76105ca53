"""ONNX Runtime's RotaryEmbedding, ONNX's with positions before the tables; MRotaryEmbedding by three positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.gather import Gather
from clgraph.ops.reshape import Reshape
from clgraph.ops.rotary_embedding import RotaryEmbedding
from clgraph.ops.split import Split
from clgraph.ops.where import Where


@primitive
@frozen
class Positions(Composite):
    """The place of each token of x: positions ``[batch, tokens]`` as they are, or counted from the one ``[1]``.

    Inputs: x ``[batch, tokens, H]`` or ``[batch, heads, tokens, D]``, positions. Result: ``[batch, tokens]``.
    """

    kind: ClassVar[str] = "positions"

    def compose(self, c: Composition) -> Sequence[str]:
        x, positions = c.inputs
        shape, given = c.layout(x).shape, c.layout(positions)
        wanted = (shape[0], shape[-2])
        if len(shape) not in (3, 4) or given.shape not in (wanted, (1,)):
            raise ShapeError(f"positions {list(given.shape)} are neither [1] nor {list(wanted)}")
        if given.shape == wanted:
            return (positions,)
        counted = c.constant(np.arange(wanted[1], dtype=given.dtype.numpy))
        return (c.add(Expand(wanted), c.add(Eltwise("add"), counted, positions)),)


@primitive
@frozen
class RotaryHeads(Composite):
    """RotaryEmbedding of x ``[batch, tokens, heads * D]`` whose heads the tables ``[positions, D / 2]`` tell."""

    interleaved: bool = False

    kind: ClassVar[str] = "rotary_heads"

    def compose(self, c: Composition) -> Sequence[str]:
        x, cos = c.inputs[:2]
        heads = c.layout(x).shape[-1] // max(2 * c.layout(cos).shape[-1], 1)
        return (c.add(RotaryEmbedding(heads, 0, self.interleaved), *c.inputs),)


@primitive
@frozen
class AnglesInSections(Composite):
    """The row ``[batch, tokens, columns]`` of a table for each token, whose columns go by three positions.

    Inputs: table ``[positions, columns]``; places in time, height and width ``[3, batch, tokens]``.

    Attributes:
        sections: How many columns go by each of the three.
        interleaved: Every third column from 1 on goes by the height, from 2 on by the width, as many as these have;
            else the columns of a section are neighbours.
    """

    sections: tuple[int, ...]
    interleaved: bool = False

    kind: ClassVar[str] = "angles_in_sections"

    def compose(self, c: Composition) -> Sequence[str]:
        table, places = c.inputs
        (_, columns), shape = c.layout(table).shape, c.layout(places).shape
        if len(self.sections) != 3 or sum(self.sections) != columns or len(shape) != 3 or shape[0] != 3:
            raise ShapeError(
                f"positions {list(shape)}, sections {list(self.sections)} give no rows of {columns} angles"
            )
        of = np.repeat(np.arange(3), self.sections)
        if self.interleaved:
            of = np.zeros(columns, np.int64)
            for i in (1, 2):
                of[i : 3 * self.sections[i] : 3] = i
        time, *others = c.add_all(Split(0, (1, 1, 1)), c.add(Gather(0), table, places))
        for i, other in enumerate(others, start=1):
            time = c.add(Where(), c.constant(of == i), other, time)
        return (c.add(Reshape((*shape[1:], columns), zero_is_zero=True), time),)


@onnx("MRotaryEmbedding", since=(1,), domain=MICROSOFT)
def import_rotary_embedding_of_places(node: OnnxNode) -> Sequence[str]:
    _refuse_packed(node)
    x, places, *tables = node.inputs
    angles = AnglesInSections(tuple(node.attribute("mrope_section", ())), bool(node.attribute("mrope_layout", 0)))
    rows = (node.emit(angles, table, places)[0] for table in tables)
    return node.emit(_rotary_of(node), x, *rows)


@onnx("RotaryEmbedding", since=(1,), domain=MICROSOFT)
def import_rotary_embedding(node: OnnxNode) -> Sequence[str]:
    _refuse_packed(node)
    x, positions, *tables = node.inputs
    return node.emit(_rotary_of(node), x, *tables, *node.emit(Positions(), x, positions))


def _refuse_packed(node: OnnxNode) -> None:
    if node.attribute("is_packed_batching", 0):
        raise node.unsupported("is_packed_batching=1, texts of several lengths in one, is not supported")


def _rotary_of(node: OnnxNode) -> Primitive:
    heads, size = node.attribute("num_heads", 0), node.attribute("rotary_embedding_dim", 0)
    interleaved = bool(node.attribute("interleaved", 0))
    return RotaryEmbedding(heads, size, interleaved) if heads else RotaryHeads(interleaved)
