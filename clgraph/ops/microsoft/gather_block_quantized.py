"""Rows of a table of 2, 4 or 8 bits in blocks that have a scale: ONNX Runtime's GatherBlockQuantized.

A table of packed bytes whose rows are picked stays as it is, and may be one that a product reads too: rows are unpacked
when they have been picked. Other tables must be constants, and are made floats when the model is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.block_records import unpacked
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.microsoft.block_quantised import bits_of, constant_of, given
from clgraph.ops.pad import Pad
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.where import Where


@primitive
@frozen
class GatherPacked(Composite):
    """Pick rows of a packed table, and make them floats; an index outside of the table is a row of zeros.

    Inputs: bytes ``[rows, ..., size * bits / 8]``, the first number in the lowest bits; indices; scales ``[rows, ...,
    blocks]``; perhaps zero points, packed like the table. Result: ``[indices..., ..., size]`` of the scales' type,
    ``(number - zero point) * scale`` in float32.

    Attributes:
        bits: Of a number.
        block: How many numbers share a scale.
        axis: The one in which blocks lie, as the model has it: it must be the last.
    """

    bits: int
    block: int
    axis: int

    kind: ClassVar[str] = "gather_packed"

    def compose(self, c: Composition) -> Sequence[str]:
        table, indices, scales, *zeros = c.inputs
        shape, blocks = self._checked(c), c.layout(scales).shape[-1]
        centre = 0 if zeros else 1 << (self.bits - 1)
        numbers = self._numbers(c, c.add(Gather(0), table, indices), centre)
        outer, size = c.layout(numbers).shape[:-1], shape[-1]
        if more := blocks * self.block - size:
            numbers = c.add(Pad((*((0, 0),) * len(outer), (0, more))), numbers)
        y = c.add(Reshape((*outer, blocks, self.block), zero_is_zero=True), numbers)
        if zeros:
            picked = self._numbers(c, c.add(Gather(0), zeros[0], indices), 0)
            point = c.add(Slice((0,), (blocks,), axes=(-1,)), picked)
            y = c.add(Eltwise("sub"), y, c.add(Reshape((*outer, blocks, 1), zero_is_zero=True), point))
        scale = c.add(Reorder(DType.F32), c.add(Gather(0), scales, indices))
        y = c.add(Eltwise("mul"), y, c.add(Reshape((*outer, blocks, 1), zero_is_zero=True), scale))
        y = c.add(Reshape((*outer, blocks * self.block), zero_is_zero=True), y)
        y = c.add(Slice((0,), (size,), axes=(-1,)), y) if more else y
        return (c.add(Reorder(c.layout(scales).dtype), _inside(c, y, indices, shape[0], len(shape) - 1)),)

    def _checked(self, c: Composition) -> tuple[int, ...]:
        """Return the shape of the table of numbers."""
        table, _, scales, *zeros = (c.layout(x) for x in c.inputs)
        if table.dtype != DType.U8 or table.rank < 2 or positive_axis(self.axis, table.rank) != table.rank - 1:
            raise ShapeError(
                f"a table that is not a constant must have packed bytes, in blocks along its last axis, not {table}"
            )
        shape = (*table.shape[:-1], table.shape[-1] * 8 // self.bits)
        wanted = (*shape[:-1], -(-shape[-1] // self.block))
        if scales.shape != wanted:
            raise ShapeError(f"scales {scales.shape} do not fit {shape} in blocks of {self.block}: {wanted} do")
        packed = (*shape[:-1], -(-wanted[-1] * self.bits // 8))
        if zeros and (zeros[0].shape != packed or zeros[0].dtype != DType.U8):
            raise ShapeError(f"zero points {zeros[0]} do not fit scales {scales.shape}: bytes {packed} do")
        return shape

    def _numbers(self, c: Composition, rows: str, centre: int) -> str:
        """Return the numbers in bytes ``[..., n]`` without the *centre*, float32 ``[..., n * 8 / bits]``."""
        every = np.arange(256, dtype=np.uint8)[:, None]
        numbers = c.constant(unpacked(every, self.bits).astype(np.float32) - np.float32(centre))
        found, shape = c.add(Gather(0), numbers, c.add(Reorder(DType.I32), rows)), c.layout(rows).shape
        return c.add(Reshape((*shape[:-1], shape[-1] * 8 // self.bits), zero_is_zero=True), found)


@primitive
@frozen
class GatherInside(Composite):
    """Gather along *axis*, with zeros for indices that are outside of it."""

    axis: int

    kind: ClassVar[str] = "gather_inside"

    def compose(self, c: Composition) -> Sequence[str]:
        table, indices = c.inputs
        shape = c.layout(table).shape
        axis = positive_axis(self.axis, len(shape))
        y = c.add(Gather(axis), table, indices)
        return (_inside(c, y, indices, shape[axis], len(shape) - axis - 1),)


def _inside(c: Composition, y: str, indices: str, size: int, behind: int) -> str:
    """Return what was picked by *indices* along an axis of *size*, *behind* others, with zeros where there is none."""
    picked = c.layout(indices)
    end, first = (c.constant(np.array(n, picked.dtype.numpy)) for n in (size, -size))
    inside = c.add(
        Eltwise("and"), c.add(Eltwise("less"), indices, end), c.add(Eltwise("greater_equal"), indices, first)
    )
    wide = c.add(Reshape((*picked.shape, *(1,) * behind), zero_is_zero=True), inside)
    return c.add(Where(), wide, y, c.constant(np.zeros((), c.layout(y).dtype.numpy)))


@onnx("GatherBlockQuantized", since=(1,), domain=MICROSOFT)
def import_gather_block_quantized(node: OnnxNode) -> Sequence[str]:
    data, along, block = node.constant(0), node.attribute("gather_axis", 0), node.attribute("block_size", 128)
    axis = node.attribute("quantize_axis", 1)
    last = data is None or (data.ndim > 1 and positive_axis(axis, data.ndim) == data.ndim - 1)
    if (data is None or data.dtype == np.uint8) and along == 0 and last and block > 0:
        return node.emit(GatherPacked(bits_of(node), block, axis), *filter(None, node.inputs))
    data, scales = constant_of(node, 0), constant_of(node, 2)
    if not data.ndim:
        raise node.unsupported("a table of no axes has no blocks")
    why = "rows are not what is picked, in blocks along the last axis" if data.dtype == np.uint8 else "it is not packed"
    node.note(f"a table of {data.dtype} becomes {scales.dtype} when the model is read, because {why}")
    zero = 0
    if data.dtype == np.uint8:
        bits = bits_of(node)
        data, zero = unpacked(data, bits), 1 << (bits - 1)
    axis = positive_axis(axis, data.ndim)
    size = data.shape[axis]
    wanted = tuple(-(-size // block) if a == axis else d for a, d in enumerate(data.shape)) if block > 0 else ()
    if scales.shape != wanted:
        raise node.unsupported(f"scales {scales.shape} do not fit {data.shape} in blocks of {block} along axis {axis}")
    zeros = np.full(wanted, zero)
    if given(node, 3):
        zeros = constant_of(node, 3)
        zeros = unpacked(zeros, bits_of(node))[..., : wanted[-1]] if zeros.dtype == np.uint8 and zeros.ndim else zeros
        if zeros.shape != wanted:
            raise node.unsupported(f"zero points {zeros.shape} do not fit scales {wanted}")
    spread = [x.astype(np.float32).repeat(block, axis).take(np.arange(size), axis) for x in (zeros, scales)]
    floats = (data.astype(np.float32) - spread[0]) * spread[1]
    table = node.literal(floats.astype(scales.dtype))
    return node.emit(GatherInside(along), table, node.inputs[1])
