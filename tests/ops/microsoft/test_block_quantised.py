"""Products with weights of few bits in blocks, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.network.addresses import left_at, suits_all
from clgraph.network.borrowing import suits_readers
from tests.support.onnx_case import agree, one_node

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}
N, K, BLOCK = 6, 40, 16
BLOCKS = 3


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_products_with_packed_weights_are_onnxruntimes(bits, rng):
    a = rng.standard_normal((2, 3, K)).astype(F)
    packed = rng.integers(0, 256, (N, BLOCKS, BLOCK * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, (N, BLOCKS)).astype(F)
    zeros = rng.integers(0, 256, (N, -(-BLOCKS * bits // 8))).astype(np.uint8)
    product = {**MICROSOFT, "N": N, "K": K, "bits": bits, "block_size": BLOCK, "constant": (1, 2, 3, 4, 5)}
    # Sums of 40 products: 40 roundings of half an ulp of a partial sum, which is below 40 in magnitude.
    bound = {"rtol": 1e-5, "atol": 40 * 2.0**-24 * 40}
    agree("MatMulNBits", [a, packed, scales], **product, **bound)
    agree("MatMulNBits", [a, packed, scales.ravel(), zeros.ravel()], **product, **bound)
    bias = rng.standard_normal(N).astype(F)
    agree("MatMulNBits", [a, packed, scales, zeros, None, bias], **product, **bound)


def test_rows_may_name_their_block_and_zero_points_be_floats(rng):
    a = rng.standard_normal((3, 32)).astype(F)
    packed = rng.integers(0, 256, (N, 2, 8)).astype(np.uint8)
    scales, zeros = rng.uniform(0.01, 0.02, (N, 2)).astype(F), rng.uniform(6, 9, (N, 2)).astype(F)
    product = {**MICROSOFT, "N": N, "K": 32, "bits": 4, "block_size": 16, "constant": (1, 2, 3, 4)}
    bound = {"rtol": 1e-5, "atol": 32 * 2.0**-24 * 32}
    agree("MatMulNBits", [a, packed, scales, zeros], **product, **bound)
    groups = rng.permutation(np.repeat([0, 1], 16)).astype(np.int32)
    agree("MatMulNBits", [a, packed, scales, None, groups], **product, **bound)


@pytest.mark.parametrize(("k", "bits", "block"), [(80, 4, 32), (160, 2, 32), (96, 8, 32), (300, 4, 256), (130, 4, 128)])
def test_blocks_that_the_rows_do_not_fill_are_onnxruntimes(k, bits, block, rng):
    """The last block is padded, and so are the bytes of a column's zero points where their number is odd."""
    blocks = -(-k // block)
    a = rng.standard_normal((2, k)).astype(F)
    packed = rng.integers(0, 256, (N, blocks, block * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.02, (N, blocks)).astype(F)
    zeros = rng.integers(0, 256, (N, -(-blocks * bits // 8))).astype(np.uint8)
    product = {**MICROSOFT, "N": N, "K": k, "bits": bits, "block_size": block, "constant": (1, 2, 3)}
    # Sums of k products of numbers below 4 and 255 / 50: k roundings of half an ulp of a partial sum.
    bound = {"rtol": 1e-5, "atol": k * 2.0**-24 * k * 4 * 2**bits * 0.02}
    agree("MatMulNBits", [a, packed, scales], **product, **bound)
    agree("MatMulNBits", [a, packed, scales, zeros], **product, **bound)


def test_kernels_read_packed_weights_where_they_lie(rng):
    packed = rng.integers(0, 256, (192, 16, 16)).astype(np.uint8)
    inputs = [np.zeros((1, 512), F), packed, np.ones((192, 16), F)]
    model, _ = one_node("MatMulNBits", inputs, **MICROSOFT, N=192, K=512, bits=4, block_size=32, constant=(1, 2))
    (records,) = load_onnx(model).build().constants
    address = left_at(records.constant)
    assert address is not None
    assert suits_all(records.constant, address) or suits_readers(records)


def test_what_cannot_be_unpacked_is_refused(rng):
    a, scales = np.zeros((1, 32), F), np.ones((N, 2), F)
    packed = np.zeros((N, 2, 8), np.uint8)
    product = {**MICROSOFT, "N": N, "K": 32, "block_size": 16}
    for inputs, more, why in (
        ([a, packed, scales], {"bits": 4}, "input 1, a part of quantised weights, is not a constant"),
        ([a, packed, scales], {"bits": 3, "constant": (1, 2)}, "bits is 2, 4 or 8, not 3"),
        ([a, packed, scales], {"weight_prepacked": 1, "constant": (1, 2)}, "weight_prepacked=1"),
        ([a, packed.astype(np.int32), scales], {"constant": (1, 2)}, "weights of int32 and scales of float32"),
        ([a, packed[:5], scales], {"constant": (1, 2)}, r"\(5, 2, 8\) and \(6, 2\) are not weights and scales"),
    ):
        model, _ = one_node("MatMulNBits", inputs, **product, **more)
        with pytest.raises(UnsupportedError, match=f"'node' \\(MatMulNBits\\): {why}"):
            load_onnx(model)
