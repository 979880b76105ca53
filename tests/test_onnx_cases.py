"""ONNX's cases are made sooner than by ONNX, and are the same."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference.ops.op_pool_common import pool as of_onnx

from tests.support.pooled import pool


@pytest.mark.parametrize("pooling_type", ["AVG", "MAX", "LPPOOL"])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "dilations"),
    [
        ((2, 3, 40), [3], [2], None),
        ((1, 2, 9, 8), (2, 3), None, [2, 1]),
        ((1, 2, 7, 6, 8), (2, 2, 2), (1, 1, 1), None),
        ((1, 1, 9, 7, 8), (3, 1, 2), (2, 3, 1), (2, 2, 3)),
    ],
    ids=str,
)
def test_windows_at_once_are_pooled_to_the_same_bits(shape, kernel, strides, dilations, pooling_type, rng):
    x = rng.standard_normal(shape).astype(np.float32)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations or [1] * len(kernel), strict=True)]
    steps = strides or [1] * len(kernel)
    made = [(size - r) // step + 1 for size, r, step in zip(shape[2:], reach, steps, strict=True)]
    for p in (1, 2, 3):
        given = (x, shape, kernel, strides, made, pooling_type)
        np.testing.assert_array_equal(pool(*given, dilations=dilations, p=p), of_onnx(*given, dilations=dilations, p=p))


def test_pads_are_pooled_by_onnx(rng):
    x = rng.standard_normal((1, 1, 3, 3)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    given = (padded, x.shape, (2, 2), (1, 1), (4, 4), "MAX", (1, 1, 1, 1), (1, 1, 1, 1))
    np.testing.assert_array_equal(pool(*given), of_onnx(*given))
