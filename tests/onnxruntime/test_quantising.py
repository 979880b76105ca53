"""Weights packed into few bits have the bytes that ONNX Runtime's functions write."""

from __future__ import annotations

import numpy as np
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as theirs

from clgraph.onnxruntime.capi import quantising as ours

ROWS, COLUMNS, BLOCK = 96, 10, 32
BLOCKS = ROWS // BLOCK


def _packed(module: object, name: str, weights: np.ndarray, symmetric: bool, rows: int = ROWS) -> list[np.ndarray]:
    """Return what function *name* of *module* fills: the weights, their scales and zero points."""
    bits = int(name[-5])
    in_bytes = (COLUMNS, BLOCKS, BLOCK * bits // 8), (COLUMNS, BLOCKS), (COLUMNS, -(-BLOCKS * bits // 8))
    by_row = (ROWS * COLUMNS // 2,), (BLOCKS, COLUMNS), (BLOCKS * COLUMNS // 2,)
    packed, scales, zeros = by_row if "qdq" in name else in_bytes
    filled = [np.zeros(packed, np.uint8), np.zeros(scales, weights.dtype), np.zeros(zeros, np.uint8)]
    getattr(module, name)(filled[0], weights, filled[1], filled[2], BLOCK, COLUMNS, rows, symmetric)
    return filled


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_weights_between_two_steps_are_rounded_like_onnxruntimes(dtype: str, symmetric: bool) -> None:
    halves = np.random.default_rng(0).integers(-31, 32, (ROWS, COLUMNS)) / 2
    names = ("quantize_matmul_2bits", "quantize_matmul_4bits", "quantize_matmul_8bits", "quantize_qdq_matmul_4bits")
    for name in names:
        for step in (1.0, 0.3):
            weights = (halves * step).astype(dtype)
            pairs = zip(_packed(ours, name, weights, symmetric), _packed(theirs, name, weights, symmetric), strict=True)
            for found, wanted in pairs:
                np.testing.assert_array_equal(found, wanted, name)


def test_less_than_half_a_step_is_none() -> None:
    weights = np.zeros((ROWS, COLUMNS), np.float16)
    weights[0], weights[1] = 2.5254, -0.15783691  # -0.15783691 times the rounded 1 / -0.31567383 is below 0.5
    name = "quantize_qdq_matmul_4bits"
    for found, wanted in zip(_packed(ours, name, weights, True), _packed(theirs, name, weights, True), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("symmetric", [False, True])
def test_rows_that_fill_the_last_block_up_are_left_out(symmetric: bool) -> None:
    rows = ROWS - 8  # of 2 bits, ONNX Runtime packs whole bytes only
    weights = np.random.default_rng(1).standard_normal((rows, COLUMNS)).astype(np.float32)
    filled = np.pad(weights, ((0, ROWS - rows), (0, 0)))
    for name in ("quantize_matmul_2bits", "quantize_matmul_4bits", "quantize_matmul_8bits"):
        found, wanted = (_packed(module, name, filled, symmetric, rows) for module in (ours, theirs))
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b, name)
