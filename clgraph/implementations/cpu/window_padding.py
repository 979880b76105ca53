"""Windows that reach into the padding: the zeros around an input, and which elements need not be read there."""

from __future__ import annotations

from functools import lru_cache
from math import prod

from clgraph.core.layout import Halo, Shape
from clgraph.core.memo import remembered
from clgraph.ops.convolution import Convolution
from clgraph.selector.query import Query

SKIPPED_FROM = 0.75
"""The share of present elements below which the others are skipped: ordinary maps multiply their padding, as others do,
so that a weight that is not finite makes the same results NaN there."""

MOST_TAPS = 1 << 12
"""Elements of a window along an axis that are counted: those of longer ones, as of waveforms, are all read."""

CHUNK = 15
"""The most pixels that a micro-kernel computes together."""


def window_halo(q: Query[Convolution], kernel: tuple[int, ...]) -> Halo:
    """Return the zeros that the windows reach into, (before, after) each axis of the first input."""
    p = q.primitive
    return halo_of_windows(q.inputs[0].shape[2:], q.outputs[0].shape[2:], kernel, p.pads, p.strides, p.dilations)


@lru_cache(maxsize=1024)
def halo_of_windows(
    x: Shape, y: Shape, kernel: tuple[int, ...], pads: Halo, strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Halo:
    """Return the zeros that windows over *x* reach into, whose results are *y*: asked several times a node."""
    around = [
        (before, max(0, (size - 1) * stride + (taps - 1) * dilation - before - (extent - 1)))
        for (before, _), size, extent, taps, stride, dilation in zip(
            pads, y, x, kernel, strides, dilations, strict=True
        )
    ]
    return ((0, 0), (0, 0), *around)


@remembered
def own_halo(q: Query[Convolution]) -> Halo:
    """Return the zeros that the windows of the weights, the second input, reach into."""
    return window_halo(q, q.inputs[1].shape[2:])


def present_share(q: Query[Convolution], run: int) -> float:
    """Return the share of a window's elements that lie in the input for some of *run* neighbouring pixels of a row.

    1 where that is little less: they are all read then.
    """
    p = q.primitive
    sizes, made, taps = q.inputs[0].shape[2:], q.outputs[0].shape[2:], q.inputs[1].shape[2:]
    if not any(map(any, p.pads)):
        return 1.0
    runs = (*(1 for _ in sizes[1:]), run)
    axes = zip(sizes, made, taps, p.strides, p.dilations, p.pads, runs, strict=True)
    share = prod(_present_along(*axis) for axis in axes)
    return share if share < SKIPPED_FROM else 1.0


@lru_cache(maxsize=1024)
def _present_along(
    size: int, made: int, taps: int, stride: int, dilation: int, pads: tuple[int, int], run: int
) -> float:
    if taps > MOST_TAPS:
        return 1.0
    runs, step = -(-made // run), run * stride
    found = 0
    for tap in range(taps):
        # Run i begins at i * step before the input is moved by the padding, and ends (run - 1) * stride further on.
        before = pads[0] - tap * dilation
        first, last = -(-(before - (run - 1) * stride) // step), -(-(before + size) // step)
        found += max(0, min(runs, last) - max(0, first))
    return found / (runs * taps)


def present_halo(halo: Halo, strides: tuple[int, ...]) -> Halo:
    """Return what of *halo* is read where elements in the padding alone are skipped: that of a chunk's other pixels."""
    most = (CHUNK - 1) * strides[-1]
    rows = tuple((0, 0) for _ in halo[2:-1])
    before, after = halo[-1]
    return (*halo[:2], *rows, (min(before, most), min(after, most)))
