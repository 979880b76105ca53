"""ONNX's pooling with all windows at once, to the same bits: window by window a volume of its cases takes 1.5 s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx.reference.ops import op_pool_common

Array = np.ndarray[tuple[int, ...], np.dtype[Any]]

_window_by_window = op_pool_common.pool


def pool(
    padded: Array,
    x_shape: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    out_shape: Sequence[int],
    pooling_type: str,
    pads_required: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    count_include_pad: int = 0,
    p: int = 1,
) -> Array:
    """Return what ``onnx.reference.ops.op_pool_common.pool`` does, which computes itself where there are pads."""
    if np.any(pads_required or 0) or np.any(pads or 0) or np.isnan(padded).any():
        more = (pads_required, pads, dilations, count_include_pad, p)
        return _window_by_window(padded, x_shape, kernel, strides, out_shape, pooling_type, *more)
    rank = len(kernel)
    apart = [1] * rank if dilations is None else dilations
    steps = [slice(None, None, step) for step in (*(strides or [1] * rank), *apart)]
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + rank)))
    windows = seen[(slice(None), slice(None), *steps)]
    return _OF[pooling_type](windows.reshape(*windows.shape[: 2 + rank], -1), p).astype(padded.dtype)


def _lengths(windows: Array, p: int) -> Array:
    sums = np.sum(np.abs(windows) ** p, axis=-1)
    # One by one: NumPy's power of arrays differs in the last bit from that of numbers.
    return np.array([one ** (1.0 / p) for one in sums.ravel()]).reshape(sums.shape)


_OF: dict[str, Callable[[Array, int], Array]] = {
    "AVG": lambda windows, _: np.average(windows, axis=-1),
    "MAX": lambda windows, _: np.max(windows, axis=-1),
    "LPPOOL": _lengths,
}
