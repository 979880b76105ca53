"""ONNX Runtime's functions that pack weights into few bits, a scale and a zero point for each block of a column."""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np

from clgraph.onnxruntime.statuses import NotImplemented as NotHere

Array = np.ndarray[Any, Any]


def _blocks(weights: Array, size: int) -> tuple[Array, int]:
    """Return ``[blocks, size, columns]`` in float32, the last block filled up with zeros, and how many were added."""
    missing = -len(weights) % size
    filled = np.pad(weights.astype(np.float32), ((0, missing), (0, 0)))
    return filled.reshape(-1, size, weights.shape[1]), missing


def _ranges(blocks: Array, dtype: np.dtype[Any], bits: int, *, symmetric: bool) -> tuple[Array, Array]:
    """Return scales and zero points, ``[blocks, columns]`` each: of the ranges, or around the middle."""
    low, high, middle = np.minimum(blocks.min(1), 0), np.maximum(blocks.max(1), 0), 1 << (bits - 1)
    if symmetric:
        scales = np.where(np.abs(high) > np.abs(low), high, low) / np.float32(-middle)
        return scales.astype(dtype), np.full(scales.shape, middle, np.uint8)
    scales = (high - low) / np.float32(2 * middle - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        zeros = np.where(scales != 0, -low / scales, 0)
    return scales.astype(dtype), _rounded(zeros, bits)


def _rounded(values: Array, bits: int, zeros: Array | int = 0) -> Array:
    """Return whole numbers of so many bits, halves away from zero; *zeros* are added to what is rounded."""
    whole = np.trunc(values)
    found: Array = np.clip(whole + np.trunc(2 * (values - whole)) + zeros, 0, (1 << bits) - 1)
    return found.astype(np.uint8)


def _steps(blocks: Array, scales: Array) -> Array:
    """Return how many steps of its block's scale every weight has."""
    wide = scales.astype(np.float32)
    with np.errstate(divide="ignore"):
        inverse = np.where(wide != 0, 1 / wide, 0).astype(np.float32)
    found: Array = blocks * inverse[:, None]
    return found


def _packed(values: Array, bits: int, fill: int) -> Array:
    """Return the numbers of the last axis in bytes, the first lowest; *fill* follows them to a whole byte."""
    count = 8 // bits
    filled = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % count)], constant_values=fill)
    parts = filled.reshape(*values.shape[:-1], -1, count) << (bits * np.arange(count, dtype=np.uint8))
    found: Array = np.bitwise_or.reduce(parts, axis=-1)
    return found


def _by_column(
    bits: int,
    packed: Array,
    weights: Array,
    scales: Array,
    zeros: Array,
    block_size: int,
    columns: int,
    rows: int,
    is_symmetric: bool,
) -> None:
    """Fill *packed* ``[columns, blocks, bytes]``, *scales* and *zeros* as MatMulNBits reads them.

    *weights* may have more rows than *rows*: callers fill them up to whole blocks.
    """
    blocks, missing = _blocks(weights.reshape(-1, columns)[:rows], block_size)
    found, middles = _ranges(blocks, weights.dtype, bits, symmetric=is_symmetric)
    values = _rounded(_steps(blocks, found) + middles[:, None].astype(np.float32), bits)
    values[-1, block_size - missing :] = 0
    packed[...] = _packed(values.transpose(2, 0, 1), bits, 0).reshape(packed.shape)
    scales[...] = found.T.reshape(scales.shape)
    if not is_symmetric:
        zeros[...] = _packed(middles.T, bits, 1 << (bits - 1)).reshape(zeros.shape)


def _by_row(
    bits: int,
    packed: Array,
    weights: Array,
    scales: Array,
    zeros: Array,
    block_size: int,
    columns: int,
    rows: int,
    is_symmetric: bool,
) -> bool:
    """Fill *packed* ``[rows, columns]``, *scales* ``[blocks, columns]`` and *zeros* as DequantizeLinear reads them."""
    blocks, missing = _blocks(weights.reshape(rows, columns), block_size)
    found, middles = _ranges(blocks, weights.dtype, bits, symmetric=is_symmetric)
    values = _rounded(_steps(blocks, found), bits, middles[:, None])
    values = values.reshape(-1, columns)[: len(blocks) * block_size - missing]
    sign = np.uint8(1 << (bits - 1)) if is_symmetric else np.uint8(0)
    packed[...] = _packed((values ^ sign).ravel(), bits, 0).reshape(packed.shape)
    scales[...] = found.reshape(scales.shape)
    if not is_symmetric:
        zeros[...] = _packed(middles.ravel(), bits, 0).reshape(zeros.shape)
    return is_symmetric


def _refused(*_: object) -> NoReturn:
    raise NotHere("this packing is ONNX Runtime's alone: quantise the model without clgraph, then run it")


quantize_matmul_2bits, quantize_matmul_4bits, quantize_matmul_8bits = (partial(_by_column, bits) for bits in (2, 4, 8))
quantize_qdq_matmul_4bits = partial(_by_row, 4)
quantize_qdq_matmul_2bits = quantize_matmul_bnb4 = pack_fp4_weights_for_cuda_moe_gemm = _refused
