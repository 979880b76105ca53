"""Products with weights of 4 bits as bitsandbytes has them, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft", "constant": (1, 2)}


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize(("n", "k", "block"), [(6, 40, 16), (5, 7, 16), (3, 64, 64)])
def test_products_are_onnxruntimes(kind, n, k, block, rng):
    a = rng.standard_normal((2, 3, k)).astype(F)
    packed = rng.integers(0, 256, -(-n * k // 2)).astype(np.uint8)
    largest = rng.uniform(0.5, 2, -(-n * k // block)).astype(F)
    # Sums of up to 64 products below 8 in magnitude: half an ulp of a partial sum each.
    bound = {"rtol": 1e-5, "atol": 64 * 2.0**-24 * 64}
    agree("MatMulBnb4", [a, packed, largest], **MICROSOFT, N=n, K=k, block_size=block, quant_type=kind, **bound)


def test_weights_may_stand_as_they_are_read(rng):
    a = rng.standard_normal((2, 6)).astype(F)
    packed, largest = rng.integers(0, 256, 6 * 4).astype(np.uint8), rng.uniform(0.5, 2, 3).astype(F)
    more = {"N": 6, "K": 8, "block_size": 16, "quant_type": 1}
    (upright, turned) = (
        load_onnx(one_node("MatMulBnb4", [x, packed, largest], **MICROSOFT, **more, transB=b)[0]).build()
        for x, b in ((a, 0), (np.zeros((2, 8), F), 1))
    )
    weights = [next(v.constant for v in p.constants if v.constant.shape == (6, 8)) for p in (upright, turned)]
    np.testing.assert_array_equal(*weights)
    assert upright.outputs[0][1].layout.shape == (2, 8)


def test_what_cannot_be_unpacked_is_refused():
    a, packed, largest = np.zeros((1, 8), F), np.zeros(16, np.uint8), np.ones(2, F)
    more = {"N": 4, "K": 8, "block_size": 16, "quant_type": 0}
    for inputs, changes, why in (
        ([a, packed, largest], {"constant": ()}, "input 1, a part of quantised weights, is not a constant"),
        ([a, packed[:5], largest], {}, r"\(5,\) and \(2,\) are not 4 x 8 in blocks of 16"),
        ([a, packed, largest], {"quant_type": 3}, "quant_type 3"),
        ([a, packed, largest], {"block_size": 0}, ".*in blocks of 0"),
    ):
        model, _ = one_node("MatMulBnb4", inputs, **{**MICROSOFT, **more, **changes})
        with pytest.raises(UnsupportedError, match=f"'node' \\(MatMulBnb4\\): {why}"):
            load_onnx(model)
