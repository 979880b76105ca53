"""Float weights in few bits: rounded in groups along the summed axis, and how far that takes them.

int8 is symmetric, one scale a group; int4 has a zero point a group, too. Both as OpenVINO's NNCF (``compress_weights``)
has them: https://github.com/openvinotoolkit/nncf, "Weights Compression".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.ops.block_records import Records, packed

_CHUNK = 1 << 22
"""Weights that are rounded at a time, so that little memory is needed beside the result."""

_NOTE = re.compile(
    r"(?P<node>.*): (?P<bits>\d) bits in groups of (?P<group>\d+), (?P<nbytes>\d+) bytes of (?P<before>\d+);"
    r" error (?P<rms>\S+) rms, (?P<largest>\S+) at most, (?P<product>\S+) of a product"
)


@frozen
class Compressed:
    """What was made of the weights of one node, and how far from them that is.

    Attributes:
        bits, group: Of a weight; weights that share a scale.
        nbytes, before: Bytes of the weights with their scales, and of the floats that they were.
        rms: Root of the sum of the errors' squares, relative to that of the weights.
        largest: The largest error, relative to the largest weight.
        product: The largest error of a result ``y = x w``, relative to the lengths of x and w (Cauchy-Schwarz); for a
            table whose rows are picked, of a row.
    """

    node: str
    bits: int
    group: int
    nbytes: int
    before: int
    rms: float
    largest: float
    product: float

    def __str__(self) -> str:
        sizes = f"{self.bits} bits in groups of {self.group}, {self.nbytes} bytes of {self.before}"
        errors = f"error {self.rms:.2g} rms, {self.largest:.2g} at most, {self.product:.2g} of a product"
        return f"{self.node}: {sizes}; {errors}"

    @staticmethod
    def of(node: str, bits: int, group: int, nbytes: int, before: int, errors: Array) -> Compressed:
        """Return it with the *errors* of :class:`Rounded`."""
        return Compressed(node, bits, group, nbytes, before, *errors.tolist())

    @staticmethod
    def read(line: str) -> Compressed | None:
        """Return what :meth:`__str__` wrote; ``None`` of another line."""
        if (found := _NOTE.fullmatch(line)) is None:
            return None
        bits, group, nbytes, before = (int(found[name]) for name in ("bits", "group", "nbytes", "before"))
        rms, largest, product = (float(found[name]) for name in ("rms", "largest", "product"))
        return Compressed(found["node"], bits, group, nbytes, before, rms, largest, product)


@frozen
class Rounded:
    """A matrix in integers, and its errors.

    Attributes:
        integers: ``[N, K]`` in bytes, padded to whole groups.
        scales, zeros: ``[N, groups]``.
        errors: ``(rms, largest, product)`` as in :class:`Compressed`, float64.
    """

    integers: Array
    scales: Array
    zeros: Array
    errors: Array


def group_of(depth: int, most: int) -> int:
    """Return how many weights along an axis of *depth* share a scale: *most*, or less where groups are whole so."""
    return next((g for g in (256, 128, 64, 32) if g <= most and depth % g == 0), most)


def rounded(weights: Array, bits: int, group: int, *, symmetric: bool, transpose: bool = False) -> Rounded:
    """Return *weights* ``[N, K]``, ``[K, N]`` with *transpose*, in integers of *bits* that have a scale a *group*.

    A weight is ``(integer - zero) * scale``, off by at most half a scale. Symmetric: zero is the middle of the range, a
    scale the largest number of the group by what is above it; else the range from its least to its largest number, 0
    included, is cut into even steps, and zero is the integer of 0.
    """
    rows = weights.T if transpose else weights
    columns, depth = rows.shape
    groups = -(-depth // group)
    integers = np.empty((columns, groups * group), np.uint8)
    scales, zeros = np.empty((columns, groups), np.float32), np.empty((columns, groups), np.uint8)
    lost, length, largest, top, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for part in _parts(columns, groups * group):
        floats = np.zeros((part.stop - part.start, groups * group), np.float32)
        floats[:, :depth] = rows[part]
        by_group = floats.reshape(-1, groups, group)
        scale, zero = _symmetric(by_group, bits) if symmetric else _even_steps(by_group, bits)
        divisor = np.where(scale > 0, scale, 1)[..., None]
        found = np.clip(np.rint(by_group / divisor) + zero[..., None], 0, (1 << bits) - 1)
        off = (found - zero[..., None]) * scale[..., None] - by_group
        integers[part], scales[part], zeros[part] = found.reshape(len(floats), -1), scale, zero
        apart, each = (np.einsum("ngk,ngk->n", x, x, dtype=np.float64) for x in (off, by_group))
        lost, length = lost + float(apart.sum()), length + float(each.sum())
        largest, top = max(largest, float(np.abs(off).max())), max(top, float(np.abs(by_group).max()))
        product = max(product, float(np.sqrt(apart / np.where(each > 0, each, 1)).max()))
    errors = np.array([np.sqrt(lost / (length or 1)), largest / (top or 1), product])
    return Rounded(integers, scales, zeros, errors)


def records_of(made: Rounded, form: Records) -> Array:
    """Return the records of *form* that hold a matrix."""
    return form.pack(packed(made.integers, form.bits), made.scales, made.zeros if form.zeros else None)


def _parts(columns: int, depth: int) -> Iterator[slice]:
    each = max(1, _CHUNK // depth)
    return (slice(first, min(first + each, columns)) for first in range(0, columns, each))


def _symmetric(by_group: Array, bits: int) -> tuple[Array, Array]:
    """Return scales and zero points ``[N, groups]``."""
    middle = 1 << (bits - 1)
    scale = np.abs(by_group).max(-1) / np.float32(middle - 1)
    return scale, np.full(scale.shape, middle, np.float32)


def _even_steps(by_group: Array, bits: int) -> tuple[Array, Array]:
    """Return scales and zero points ``[N, groups]``."""
    low, high = np.minimum(by_group.min(-1), 0), np.maximum(by_group.max(-1), 0)
    scale = (high - low) / np.float32((1 << bits) - 1)
    return scale, np.rint(-low / np.where(scale > 0, scale, 1))
