"""Memory geometry of blocked tensors for tile functions: planes of 16-channel pixels with a halo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clgraph.core.format import Format, feature_blocked
from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo, Layout
from clgraph.core.memo import remembered
from clgraph.selector.descriptor import Int, Ref, fields
from clgraph.selector.query import Query

LANES = 16
"""Channels of a block on every CPU device."""
PACKED_BIAS = Format((0,), ((0, LANES),))
"""The format of a number a channel: whole blocks."""


@frozen
class Planes:
    """A tensor ``[N, C, H, W]`` (or ``[N, C, W]`` as one row) in b_fs_yx_fsv16; pitches in floats, a pixel is 16.

    Attributes:
        blocks: Channel blocks; ``lanes`` channels of the last one exist.
        n, c, y: Floats from one image, channel block, row to the next.
        halo: Pixels of zeros (top, bottom, left, right).
        origin: Floats from the start of the memory to channel 0 of pixel (0, 0).
        itemsize: Bytes of what is called a float here; 1 for a tensor of bytes.
        x: Floats from one pixel to the next: 16, but for tensors whose channels lie side by side (:func:`pixel_rows`).
    """

    batch: int
    channels: int
    height: int
    width: int
    n: int
    c: int
    y: int
    halo: tuple[int, int, int, int]
    origin: int
    itemsize: int = 4
    x: int = LANES

    @property
    def blocks(self) -> int:
        """Channel blocks."""
        return -(-self.channels // LANES)

    @property
    def lanes(self) -> int:
        """Channels of the last block."""
        return self.channels - (self.blocks - 1) * LANES

    @property
    def one_row(self) -> bool:
        """Whether the rows follow one another without a gap, so that the plane is one row of H * W pixels."""
        return self.height == 1 or self.y == self.width * self.x

    def at(self, role: str, y: int = 0, x: int = 0) -> Ref:
        """Return the place of pixel (y, x), which may lie in the halo, of the tensor with this role."""
        return Ref(role, self.itemsize * (self.origin + y * self.y + x * self.x))


@remembered
def planes(layout: Layout) -> Planes:
    """Return how a blocked tensor of rank 3 or 4 lies in memory."""
    pitch, halo, itemsize = layout.all_pitches, layout.halo, layout.dtype.itemsize
    # By position: of a member of a family a hundred are made.
    if len(layout.shape) == 4:
        batch, channels, height, width = layout.shape
        around = (*halo[2], *halo[3]) if halo else (0, 0, 0, 0)
        return Planes(batch, channels, height, width, pitch[0], pitch[1], pitch[2], around, layout.origin, itemsize)
    batch, channels, width = layout.shape[0], layout.shape[1], layout.shape[-1]
    around = (0, 0, *halo[-1]) if halo else (0, 0, 0, 0)
    return Planes(batch, channels, 1, width, pitch[0], pitch[1], width * LANES, around, layout.origin, itemsize)


def pixel_rows(layout: Layout) -> Planes:
    """Return how a tensor of rank 3 or 4 with channels last lies in memory."""
    pitch, rows = layout.all_pitches, layout.rank == 4
    return Planes(
        batch=layout.shape[0],
        channels=layout.shape[1],
        height=layout.shape[2] if rows else 1,
        width=layout.shape[-1],
        n=pitch[0],
        c=LANES,
        y=pitch[2] if rows else layout.shape[-1] * pitch[-1],
        halo=(0, 0, 0, 0),
        origin=layout.origin,
        itemsize=layout.dtype.itemsize,
        x=pitch[-1],
    )


@fields
class InPlanes:
    """Floats from one image, channel block, row of the input to the next."""

    in_n: Int
    in_c: Int
    in_y: Int


@fields
class OutPlanes:
    """Floats from one image, channel block, row of the result to the next."""

    out_n: Int
    out_c: Int
    out_y: Int


@fields
class Surface:
    """Rows and pixels to be made, and those of zeros around them."""

    height: Int
    width: Int
    top: Int
    bottom: Int
    left: Int
    right: Int


@fields
class SlidingWindow:
    """Kernel size, stride and dilation along both axes."""

    kernel_y: Int
    kernel_x: Int
    stride_y: Int
    stride_x: Int
    dilation_y: Int
    dilation_x: Int


@fields
class ScaleShift:
    """Floats from one image, channel block, lane to the next of a scale and a shift, and the operations behind them."""

    scale_n: Int
    scale_c: Int
    scale_l: Int
    shift_n: Int
    shift_c: Int
    shift_l: Int
    pres: Int


def in_planes(x: Planes) -> dict[str, Any]:
    """Return the fields of :class:`InPlanes`."""
    return {"in_n": x.n, "in_c": x.c, "in_y": x.y}


def out_planes(y: Planes) -> dict[str, Any]:
    """Return the fields of :class:`OutPlanes`."""
    return {"out_n": y.n, "out_c": y.c, "out_y": y.y}


def surface(height: int, width: int, halo: tuple[int, int, int, int]) -> dict[str, Any]:
    """Return the fields of :class:`Surface`."""
    top, bottom, left, right = halo
    return {"height": height, "width": width, "top": top, "bottom": bottom, "left": left, "right": right}


def window(kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> dict[str, Any]:
    """Return the fields of :class:`SlidingWindow`."""
    return {
        "kernel_y": kernel[0],
        "kernel_x": kernel[1],
        "stride_y": stride[0],
        "stride_x": stride[1],
        "dilation_y": dilation[0],
        "dilation_x": dilation[1],
    }


def blocked_refusal(layout: Layout, what: str) -> str | None:
    """Say why *layout* is not what tiles read and write: rank 3 or 4, 16-channel blocks, halo on spatial axes alone."""
    rank = len(layout.shape)
    if rank not in (3, 4):
        return f"serves one or two spatial axes, not {what} of rank {rank}"
    blocked = feature_blocked(rank)
    if layout.format is not blocked and layout.format != blocked:
        return f"requires {what} in {blocked}, not {layout.format}"
    if layout.halo and any(map(any, layout.halo[:2])):
        return f"requires no halo around batch and channels of {what}"
    if layout.pitches and layout.pitches[-1] != LANES:
        return f"requires the pixels of {what} side by side"
    return None


def both_blocked_refusal(q: Query[Any]) -> str | None:
    """Say why the first input or the result is not as in :func:`blocked_refusal`, or return ``None``."""
    return blocked_refusal(q.inputs[0], "the input") or blocked_refusal(q.outputs[0], "the result")


def count_refusal(q: Query[Any]) -> str | None:
    """Say that a tensor has more elements than 32 bits count, or return ``None``."""
    too_many = max(x.span for x in (*q.inputs, *q.outputs)) >= 2**31
    return "counts elements in 32 bits" if too_many else None


def halo_refusal(layout: Layout, wanted: Halo) -> str | None:
    """Say why *layout* has too few zeros around it, or return ``None``."""
    if not layout.has_zeros(wanted):
        return f"reads {wanted} zeros around its input, which has {layout.halos}"
    return None
