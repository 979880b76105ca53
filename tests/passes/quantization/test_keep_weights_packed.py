"""Weights behind a Dequantize stay in their bits: what becomes a block_matmul, its numbers, and what does not."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.graph.check import check
from clgraph.ops.activation import Activation
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Quantize
from clgraph.passes.base import Context
from clgraph.passes.quantization.keep_weights_packed import KeepWeightsPacked
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run

F = np.float32
K, N = 272, 256
"""Sizes of the smallest weights that are kept: the last block of 128 is not full."""


class Weights(Net):
    """A net with a product of rows and dequantised weights."""

    def __init__(self, dtype: DType, block: int = 0, *, transpose_b: bool = False, zero: bool = False) -> None:
        super().__init__()
        rng = np.random.default_rng(dtype.bits)
        self.input("x", (3, K))
        shape = (N, K) if transpose_b else (K, N)
        summed = int(transpose_b)
        low, high = (int(v) for v in dtype.bounds)
        scales = tuple(d // block if a == summed else d for a, d in enumerate(shape)) if block else (N,)
        self.constant("w", rng.integers(low, high + 1, shape).astype(dtype.numpy))
        self.constant("s", rng.uniform(0.5, 1.5, scales).astype(F))
        names = ["w", "s"]
        if zero:
            self.constant("z", rng.integers(low, high + 1, scales).astype(dtype.numpy))
            names.append("z")
        self.add("d", Dequantize(summed if block else 1 - summed, block=block), *names)
        self.constant("bias", rng.standard_normal(N).astype(F))
        self.add("y", MatMul(transpose_b=transpose_b), "x", "d", "bias")


FORMS = [
    (DType.I4, 16, False, False, BlockMatMul(N, K, 4, 16)),
    (DType.U4, 16, True, True, BlockMatMul(N, K, 4, 16, zeros=True)),
    (DType.U4, 0, False, False, BlockMatMul(N, K, 4, 128, zeros=True)),
    (DType.I8, 0, True, False, BlockMatMul(N, K, 8, 128)),
    (DType.I8, 0, False, True, BlockMatMul(N, K, 8, 128, zeros=True)),
    (DType.I2, 16, False, False, BlockMatMul(N, K, 2, 16)),
]


@pytest.mark.parametrize(("dtype", "block", "transpose_b", "zero", "wanted"), FORMS)
def test_a_product_reads_records_that_hold_what_the_floats_were(dtype, block, transpose_b, zero, wanted) -> None:
    net = Weights(dtype, block, transpose_b=transpose_b, zero=zero)
    before = net.program("y")
    data, scale, *point = (v.constant for v in next(n for n in before if n.name == "d").inputs)
    (floats,) = next(n for n in before if n.name == "d").reference(data, scale, *point)
    program = run(net.program("y"), KeepWeightsPacked())
    check(program)
    (node,) = program
    assert (node.name, node.primitive, len(node.inputs)) == ("y", wanted, 3)
    records = node.inputs[1].constant
    np.testing.assert_array_equal(wanted.records.floats(records, N, K), floats.T if transpose_b else floats)


def kinds(net: Weights, *outputs: str, **options) -> list[str]:
    program = net.program(*outputs)
    KeepWeightsPacked().run(program, Context(**options))
    net.notes = program.notes.get("keep_weights_packed", "")
    return [n.primitive.kind for n in program]


def test_what_others_read_or_multiply_as_integers_becomes_floats() -> None:
    net = Weights(DType.I4, 16)
    assert kinds(net, "y", "d") == ["dequantize", "matmul"]
    assert "d is an output of the graph" in net.notes
    net = Weights(DType.I4, 16)
    net.add("r", Activation("relu"), "d")
    assert kinds(net, "y", "r") == ["dequantize", "matmul", "activation"]
    assert "r is not a product with it on the right" in net.notes
    net = Weights(DType.I8)
    net.number("one", 1.0)
    net.add("i", Quantize(0, dtype=DType.I8), "x", "one")
    net.add("f", Dequantize(0), "i", "one")
    net.add("of_integers", MatMul(), "f", "d")
    assert "block_matmul" not in kinds(net, "of_integers")
    assert "of_integers multiplies integers" in net.notes


def test_weights_on_gpus_and_small_ones_become_floats() -> None:
    net = Weights(DType.I4, 16)
    assert kinds(net, "y", devices={"gpu:0": DeviceInfo(kind="gpu")}) == ["dequantize", "matmul"]
    small = Net()
    small.input("x", (3, 64))
    small.constant("w", np.zeros((64, 64), np.int8))
    small.constant("s", np.ones(64, F))
    small.add("y", MatMul(), "x", small.add("d", Dequantize(1), "w", "s"))
    assert kinds(small, "y") == ["dequantize", "matmul"]


def test_the_host_beside_a_cpu_changes_nothing() -> None:
    devices = {"null": DeviceInfo(), "host": DeviceInfo("host", "host")}
    assert KeepWeightsPacked().run(Weights(DType.I4, 16).program("y"), Context(devices)) == 1
