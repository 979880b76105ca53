"""What ``bind`` and ``infer`` of primitives share: known value inputs, axes, sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.core.layout import Shape
from clgraph.errors import ShapeError, UnknownValueError
from clgraph.graph.primitive import Array

Pads = tuple[tuple[int, int], ...]
"""Elements added (before, after) along each spatial axis."""


def known(values: Sequence[Array | None], slot: int, what: str) -> Array:
    """Return the value of input *slot*; raises ``UnknownValueError`` that calls it *what* when it is not known."""
    value = values[slot] if slot < len(values) else None
    if value is None:
        raise UnknownValueError(
            f"input {slot} ({what}) must be known when the shapes are bound: a constant, or computed from shapes or "
            "small inputs",
            slot=slot,
        )
    return value


def known_ints(values: Sequence[Array | None], slot: int, what: str) -> tuple[int, ...]:
    """Return the value of input *slot* as ints; raises like :func:`known`."""
    return tuple(int(v) for v in np.ravel(known(values, slot, what)))


def read_values(reads: Sequence[str], values: Sequence[Array | None]) -> dict[str, Array]:
    """Return the known inputs from slot 1 on, by the names in *reads*; raises like :func:`known`."""
    return {what: known(values, slot, what) for slot, what in enumerate(reads, start=1)}


def present(names: Sequence[str], inputs: Sequence[str]) -> tuple[str, ...]:
    """Return what of *names* an ONNX node's inputs from slot 1 on supply; an absent optional input is ``""``."""
    return tuple(name for name, given in zip(names, inputs[1:], strict=False) if given)


def ints(array: Array) -> tuple[int, ...]:
    """Return the elements of *array* as Python ints."""
    return tuple(map(int, array.ravel().tolist()))


def positive_axis(axis: int, rank: int) -> int:
    """Return *axis* counted from the front; raises ``ShapeError`` when it is not one of *rank* axes."""
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(f"axis {axis} is not one of the {rank} axes")
    return axis + rank if axis < 0 else axis


def positive_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return *axes* counted from the front, ascending; raises ``ShapeError`` for a wrong or repeated one."""
    found = sorted(positive_axis(a, rank) for a in axes)
    if len(set(found)) != len(found):
        raise ShapeError(f"an axis is repeated in {tuple(axes)}")
    return tuple(found)


def pairs(pads: Sequence[int]) -> Pads:
    """Return ONNX's flat pads (all before, then all after) as (before, after) an axis; ``ShapeError`` if odd."""
    half = len(pads) // 2
    if len(pads) % 2:
        raise ShapeError(f"pads {list(pads)} do not come in pairs")
    return tuple(zip(pads[:half], pads[half:], strict=True))


def check_kernel_shape(declared: Sequence[int] | None, weights: Array | None) -> None:
    """Raise ``ShapeError`` where an ONNX node's ``kernel_shape`` is not that of its *weights*, if both are known."""
    if declared is not None and weights is not None and tuple(declared) != weights.shape[2:]:
        raise ShapeError(
            f"kernel_shape is {list(declared)}; weights {list(weights.shape)} want {list(weights.shape[2:])}"
        )


def check_pads(pads: Pads, kernel: Shape, dilations: Shape) -> None:
    """Raise ``ShapeError`` where a window of a pooling would hold nothing but padding."""
    for (before, after), k, d in zip(pads, kernel, dilations, strict=True):
        if max(before, after) > (k - 1) * d:
            raise ShapeError(f"pads {before}, {after} want to be smaller than their window of {k} (dilation {d})")


def window_pads(
    auto_pad: str, pads: Pads, spatial: Shape, kernel: Shape, strides: Shape, dilations: Shape
) -> tuple[tuple[int, int], ...]:
    """Return the pads of a sliding window: *pads*, or those of ONNX's ``auto_pad`` rule (``""`` and NOTSET: none).

    Raises:
        ShapeError: *auto_pad* is no rule, a pad is negative, or the attributes do not have one entry a spatial axis.
    """
    if any(len(v) != len(spatial) for v in (kernel, strides, dilations)) or (pads and len(pads) != len(spatial)):
        raise ShapeError(
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads {pads} want one entry for each of "
            f"{len(spatial)} spatial axes"
        )
    if any(pad < 0 for pair in pads for pad in pair):
        raise ShapeError(f"pads {pads} of a window want to be 0 or more; put a Slice in front to cut the input")
    if auto_pad in ("", "NOTSET"):
        return pads or ((0, 0),) * len(spatial)
    if auto_pad == "VALID":
        return ((0, 0),) * len(spatial)
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ShapeError(f"auto_pad {auto_pad!r} is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER")
    found = []
    for size, k, s, d in zip(spatial, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
    return tuple(found)


def window_sizes(
    spatial: Shape,
    kernel: Shape,
    strides: Shape,
    dilations: Shape,
    pads: Pads,
    *,
    ceil_mode: bool = False,
    partial: bool = False,
) -> Shape:
    """Return how many positions a window takes along each axis.

    With *ceil_mode* a last, partial window counts when it starts inside the input or the padding before it. With
    *partial* a window may be larger than the padded input: by less than a stride it counts once, by less than two not
    at all, which is what ONNX Runtime makes of ONNX's formula by dividing towards zero.

    Raises:
        ShapeError: A stride or dilation is not positive, or the window is too large for the padded input.
    """
    sizes = []
    for size, k, s, d, (before, after) in zip(spatial, kernel, strides, dilations, pads, strict=True):
        room = size + before + after - (k - 1) * d - 1
        if partial and size > 0 and min(s, d, k) > 0 and -2 * s < room < 0:
            sizes.append(int(room > -s))
            continue
        if min(s, d, k) < 1 or room < 0:
            raise ShapeError(
                f"a window of {k} (stride {s}, dilation {d}) does not fit {size} elements padded by {before}, {after}"
            )
        count = room // s + 1
        if ceil_mode and room % s and count * s < size + before:
            count += 1
        sizes.append(count)
    return tuple(sizes)
