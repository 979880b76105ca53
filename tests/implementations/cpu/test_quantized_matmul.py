"""Product tiles of bytes against float64: rows, columns and batches of any size, every end of the sums."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.quantized_matmul import QuantizedMatMulBytes
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.selector.query import DeviceInfo
from tests.implementations.cpu.test_quantized_convolution import ENDS, check
from tests.support.features import needs_bytes
from tests.support.run_tiles import pose, with_weights


@pytest.mark.opencl
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_bytes_are_exact_and_end_as_they_are_told(engine, transposed):
    needs_bytes(engine)
    rng = np.random.default_rng(int(transposed))
    shapes = [(1, 12, 20), (7, 48, 64), (2, 13, 100, 33), (3, 2, 5, 64, 48), (128, 36, 300), (2, 6, 8, 16)]
    for i, end in enumerate([*ENDS, *ENDS]):
        *rows, k, n = shapes[(i + i // len(ENDS)) % len(shapes)]
        if "sum of bytes" in end or "channels" in end:
            n = 48
        zero = int(rng.integers(256))
        a = rng.integers(0, 256, (*rows, k)).astype(np.uint8)
        b = rng.integers(-127, 128, (n, k)).astype(np.int8)
        shift = (0, 100, -127)[i % 3]
        start = (-zero * (b.astype(np.int64) + shift).sum(1)).astype(np.int32)
        scale = (rng.uniform(0.8, 1.2, n) * 100 / (5400 * np.sqrt(k) + 64 * abs(shift) * k)).astype(np.float32)
        arrays = [a, b if transposed else np.ascontiguousarray(b.T), start, scale, rng.uniform(-20, 20, n).astype("f4")]
        check(engine, QuantizedMatMulBytes, QuantizedMatMul(transposed, shift=shift), arrays, end, rng)


def test_weights_of_the_next_group_are_fetched_ahead_where_they_are_many():
    def fetched(rows: int, depth: int, columns: int) -> tuple[int, int]:
        numbers = [Layout(t, (columns,)) for t in (DType.I32, DType.F32, DType.F32)]
        inputs = [Layout(DType.U8, (1, rows, depth)), Layout(DType.I8, (depth, columns)), *numbers]
        q = pose(
            DeviceInfo(simd=16),
            QuantizedMatMulBytes,
            QuantizedMatMul(),
            inputs,
            arity=5,
            packed=False,
            constant=(1, 2, 3, 4),
        )
        d = QuantizedMatMulBytes.plan(with_weights(QuantizedMatMulBytes, q)).steps[0].descriptor
        return d.fetched, d.fetched * d.ticket_chunks * d.words - d.weight_group

    each, beyond = fetched(128, 384, 1536)
    assert 0 < each <= 64
    assert beyond >= 0
    assert fetched(128, 64, 64)[0] == 0
    assert fetched(1, 384, 1536)[0] == 0
