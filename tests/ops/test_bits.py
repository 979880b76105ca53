"""Shifts of integers, and bytes as elements of another type."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.bits import BitCast
from clgraph.ops.eltwise import Eltwise
from clgraph.selector.general import INTEGERS
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


def shifts(dtype: DType):
    """Return how to draw numbers of all bits, and shifts of 0 bits to more than all, and negative ones."""
    low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
    amounts = [0, 1, 7, 8, 15, 31, 63, 64, 100, *([-1, low] if low else [high])]
    return {
        0: lambda rng, shape: rng.integers(low, high, shape, dtype.numpy, endpoint=True),
        1: lambda rng, shape: np.resize(np.array(amounts, dtype.numpy), shape),
    }


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", sorted(INTEGERS, key=str))
def test_shifts_are_exact_by_any_amount(dtype, engine):
    for function in ("shift_left", "shift_right"):
        check_op(engine, Eltwise(function), (5, 11), (11,), dtype=dtype, draw=shifts(dtype), families=("normal",))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_shifts_agree_with_onnxruntime(dtype):
    x, by = np.array([1, 77, 255], dtype), np.array([0, 3, 7], dtype)
    for direction in ("LEFT", "RIGHT"):
        agree("BitShift", [x, by], opset=11, direction=direction)


def test_floats_and_bools_are_not_shifted():
    for dtype in (np.float32, bool):
        x = np.zeros(3, dtype)
        with pytest.raises(ShapeError, match="shift_left takes integers"):
            Eltwise("shift_left").infer([Layout.of(x), Layout.of(x)])


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("dtype", "to"), [(DType.I32, DType.F32), (DType.I64, DType.F64), (DType.I8, DType.U8), (DType.U16, DType.F16)]
)
def test_the_bytes_of_a_tensor_are_kept(dtype, to, engine):
    def bits(rng, shape):
        return rng.integers(0, 1 << 7 * dtype.itemsize, shape, f"u{dtype.itemsize}").view(dtype.numpy)

    check_op(engine, BitCast(to), (3, 5), dtype=dtype, draw={0: bits}, families=("normal",))
