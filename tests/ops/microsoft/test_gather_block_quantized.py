"""Tables of few bits in blocks, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support import oracle
from tests.support.onnx_case import agree, one_node

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft"}


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_tables_are_onnxruntimes(bits, rng):
    """Blocks that fill rows, and those that do not; zero points of an odd number of blocks are padded."""
    indices = np.array([[0, 8, 3], [-1, -9, 1]])
    for size, block, blocks in ((32, 16, 2), (40, 16, 3), (128, 128, 1)):
        data = rng.integers(0, 256, (9, size * bits // 8)).astype(np.uint8)
        zeros = rng.integers(0, 256, (9, -(-blocks * bits // 8))).astype(np.uint8)
        gather = {**MICROSOFT, "bits": bits, "block_size": block, "quantize_axis": 1, "constant": (0, 2, 3)}
        for dtype in (F, np.float16):
            scales = rng.uniform(0.01, 0.02, (9, blocks)).astype(dtype)
            agree("GatherBlockQuantized", [data, indices, scales], **gather)
            agree("GatherBlockQuantized", [data, indices.astype(np.int32), scales, zeros], **gather)


def test_parts_that_do_not_fit_are_refused():
    data, scales, zeros = np.zeros((9, 32), np.uint8), np.ones((9, 2), F), np.zeros((1, 2), np.uint8)
    gather = {**MICROSOFT, "bits": 8, "block_size": 16, "constant": (0, 2, 3)}
    for inputs, why in (
        ([data, np.array([1]), scales[:, :1]], r"scales \(9, 1\) do not fit \(9, 32\) in blocks of 16: \(9, 2\) do"),
        ([data, np.array([1]), scales, zeros], r"zero points .* do not fit scales \(9, 2\): bytes \(9, 2\) do"),
    ):
        model, _ = one_node("GatherBlockQuantized", inputs, **gather)
        with pytest.raises(ShapeError, match=f"'node' .*: {why}"):
            load_onnx(model).build()
    model, _ = one_node("GatherBlockQuantized", [data[0, 0], np.array([1]), scales], **gather)
    with pytest.raises(UnsupportedError, match=r"'node' .*: a table of no axes has no blocks"):
        load_onnx(model)


def test_an_index_outside_of_the_table_is_a_row_of_zeros(rng):
    data, scales = rng.integers(0, 256, (9, 32)).astype(np.uint8), np.ones((9, 2), F)
    gather = {**MICROSOFT, "bits": 8, "block_size": 16, "quantize_axis": 1, "constant": (0, 2)}
    agree("GatherBlockQuantized", [data, np.array([1, 9, -10, 100]), scales], **gather)


@pytest.mark.opencl
def test_a_table_that_a_product_reads_as_well_stays_packed(rng):
    """Models whose first and last weights are the same reshape those of the product for the table."""
    text = """<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
    tied (int64[n] ids) => (float[n,500] y) <int64[2] rows = {500, 256}> {
        table = Reshape (w, rows)
        x = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 32, quantize_axis = 1> (table, ids, s)
        y = com.microsoft.MatMulNBits <N = 500, K = 512, bits = 4, block_size = 32> (x, w, s)
    }"""
    made = onnx.parser.parse_model(text)
    parts = {
        "w": rng.integers(0, 256, (500, 16, 16)).astype(np.uint8),
        "s": rng.uniform(0.01, 0.02, (500, 16)).astype(F),
    }
    made.graph.initializer.extend(onnx.numpy_helper.from_array(a, name) for name, a in parts.items())
    model = clgraph.compile(made)
    ids = np.array([0, 499, 7])
    want = oracle.session(made, threads=1).run(None, {"ids": ids})[0]
    # Sums of 512 products of numbers below 8 * 0.02: 512 roundings of half an ulp of a partial sum.
    np.testing.assert_allclose(model.run(ids)["y"], want, rtol=1e-5, atol=512 * 2.0**-24 * 512 * 0.16**2)
    constants = [v for node in model.program for v in node.inputs if v.constant is not None]
    assert max(v.constant.nbytes for v in constants if v.constant.dtype == np.float32) < parts["w"].nbytes
