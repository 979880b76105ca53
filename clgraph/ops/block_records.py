"""Records: weights of 2, 4 or 8 bits in blocks that have a scale, in the order in which products read them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.core.shared_pages import in_large_pages
from clgraph.graph.primitive import Array

COLUMNS = 64
"""Columns of a record, as many as a group of packed floats has."""

_CHUNK = 1 << 22
"""Weights that are packed at a time, so that little memory is needed beside the result."""

_EXCHANGES = {
    2: ((6, 0x00CC00CC), (12, 0x0000F0F0)),
    4: ((8, 0x0000FF00), (4, 0x00F000F0)),
    8: (),
}
"""By the bits of a weight: how far apart the elements are that change places, and where the lower ones lie."""


@frozen
class Records:
    """What one record holds: a block of weights along K of 64 columns, their scales and zero points.

    A matrix ``[K, N]`` is ``[groups of 64 columns][blocks along K]`` records, one forward stream for a product:

    * ``[pieces][64]`` words of 32 bits, each ``32 / bits`` weights of a column. Element ``4 s + j`` of them is in the
      bits from ``bits s`` on of byte j, so that one shift and one mask make bytes of four neighbours.
    * ``[64]`` scales in float32.
    * With zero points, ``[64]`` of them in bytes; without, all are half of the range.

    A weight is ``(q - zero) * scale``. Scales of columns that do not exist are 0.

    Attributes:
        bits: Of a weight: 2, 4 or 8.
        block: Weights along K that share a scale.
        zeros: Whether there are zero points.
    """

    bits: int
    block: int
    zeros: bool

    @property
    def fields(self) -> int:
        """Weights in a byte."""
        return 8 // self.bits

    @property
    def pieces(self) -> int:
        """Words of a column."""
        return self.block * self.bits // 32

    @property
    def nbytes(self) -> int:
        """Bytes of a record."""
        return COLUMNS * (4 * self.pieces + 4 + self.zeros)

    @property
    def middle(self) -> int:
        """The zero point where none is given."""
        return 1 << (self.bits - 1)

    def shape(self, columns: int, depth: int) -> Shape:
        """Return the shape of the records of a matrix, in bytes."""
        return (-(-columns // COLUMNS), -(-depth // self.block), self.nbytes)

    def pack(self, packed: Array, scales: Array, zeros: Array | None = None) -> Array:
        """Return the records of a matrix whose K is a multiple of the block, where kernels may read them as they lie.

        Args:
            packed: The weights ``[N, K * bits / 8]``, as :func:`unpacked` reads them.
            scales: ``[N, blocks]``; *zeros* like them.
        """
        columns, depth = len(packed), packed.shape[1] * self.fields
        shape = self.shape(columns, depth)
        made = in_large_pages(prod(shape)).reshape(shape)
        for groups, part in self._chunks(columns, depth):
            words = self._words(packed[part])
            ends = (4 * COLUMNS * self.pieces, 4 * COLUMNS * (self.pieces + 1))
            made[groups, :, : ends[0]] = words.view(np.uint8).reshape(*words.shape[:2], -1)
            by_block = _by_group(scales[part].astype(np.float32))
            made[groups, :, ends[0] : ends[1]] = by_block.view(np.uint8).reshape(*words.shape[:2], -1)
            if zeros is not None:
                made[groups, :, ends[1] :] = _by_group(zeros[part].astype(np.uint8))
        made.flags.writeable = False
        return made

    def floats(self, records: Array, columns: int, depth: int) -> Array:
        """Return the weights ``[K, N]`` that *records* hold, in float32."""
        groups, blocks, _ = records.shape
        whole = np.empty((groups, blocks * self.block, COLUMNS), np.float32)
        end = 4 * COLUMNS * self.pieces
        for g, record in enumerate(records):
            quads = np.ascontiguousarray(record[:, :end]).reshape(blocks, self.pieces, COLUMNS, 1, 4)
            shifts = np.arange(0, 8, self.bits, dtype=np.uint8)[:, None]
            found = (quads >> shifts & np.uint8((1 << self.bits) - 1)).transpose(0, 1, 3, 4, 2)
            scales = np.ascontiguousarray(record[:, end : end + 4 * COLUMNS]).view(np.float32)
            zeros = record[:, end + 4 * COLUMNS :] if self.zeros else np.full((blocks, 1), self.middle, np.uint8)
            centred = found.reshape(blocks, self.block, COLUMNS).astype(np.float32) - zeros[:, None].astype(np.float32)
            whole[g] = (centred * scales[:, None]).reshape(-1, COLUMNS)
        return np.ascontiguousarray(whole.transpose(1, 0, 2).reshape(blocks * self.block, -1)[:depth, :columns])

    def _chunks(self, columns: int, depth: int) -> Iterator[tuple[slice, slice]]:
        """Yield runs of groups and the columns that they hold."""
        each = max(1, _CHUNK // (COLUMNS * depth))
        for first in range(0, -(-columns // COLUMNS), each):
            last = min(first + each, -(-columns // COLUMNS))
            yield slice(first, last), slice(first * COLUMNS, min(last * COLUMNS, columns))

    def _words(self, packed: Array) -> Array:
        """Return words ``[groups, blocks, pieces, 64]`` of the weights ``[N, K * bits / 8]``.

        A word of them has element i in the bits from ``bits i`` on, a record's in byte ``i % 4``: a transposition
        of ``[fields][4]`` elements, by exchanging bits (Warren, Hacker's Delight, 7-3).
        """
        words = np.ascontiguousarray(packed).view(np.uint32)
        for distance, mask in _EXCHANGES[self.bits]:
            moved = (words ^ words >> np.uint32(distance)) & np.uint32(mask)
            words = words ^ moved ^ moved << np.uint32(distance)
        return _by_group(words.reshape(len(words), -1, self.pieces))


def unpacked(packed: Array, bits: int) -> Array:
    """Return what bytes hold along the last axis, low-order bits first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    values = packed[..., None] >> shifts & np.uint8((1 << bits) - 1)
    return values.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def packed(values: Array, bits: int) -> Array:
    """Return bytes ``[N, K * bits / 8]`` that hold *values* ``[N, K]``, as :func:`unpacked` reads them."""
    parts = values.reshape(len(values), -1, 8 // bits)
    found = parts[..., 0].copy()
    for field in range(1, 8 // bits):
        found |= parts[..., field] << np.uint8(field * bits)
    return found


def _by_group(array: Array) -> Array:
    """Return ``[groups, ..., 64]`` of an array ``[N, ...]``, zeros behind the last column."""
    missing = -len(array) % COLUMNS
    whole = np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)]) if missing else array
    grouped = whole.reshape(-1, COLUMNS, *array.shape[1:])
    return np.ascontiguousarray(np.moveaxis(grouped, 1, -1))
