"""Elementwise functions of two tensors."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.eltwise import Eltwise
from tests.support.onnx_case import agree

SHAPES = [((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (3, 1)), ((1, 4), (2, 3, 1)), ((5,), ()), ((), ())]


@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
def test_arithmetic_agrees_with_onnxruntime(op, shapes, opset, rng):
    a, b = (rng.standard_normal(s).astype(np.float32) + np.float32(0.1) for s in shapes)
    agree(op, [np.asarray(a, np.float32), np.asarray(b, np.float32)], opset=opset)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_integer_arithmetic_agrees_with_onnxruntime(op, dtype, rng):
    a = rng.integers(-20, 20, (4, 5)).astype(dtype)
    b = np.array([-7, -3, 1, 2, 5], dtype)
    agree(op, [a, b], opset=14)


@pytest.mark.parametrize("opset", [7, 12, 13, 15])
def test_powers_agree_with_onnxruntime(opset, rng):
    x = rng.random((3, 4)).astype(np.float32) + np.float32(0.2)
    agree("Pow", [x, rng.standard_normal((4,)).astype(np.float32)], opset=opset, rtol=1e-5)
    if opset >= 12:
        agree("Pow", [x, np.array([2], np.int64)], opset=opset)
        agree("Pow", [np.array([-3, 2], np.int64), np.array([3, 2], np.int64)], opset=opset)


@pytest.mark.parametrize("opset", [7, 9, 16])
def test_prelu_agrees_with_onnxruntime(opset, rng):
    agree(
        "PRelu",
        [rng.standard_normal((2, 3, 4, 4)).astype(np.float32), rng.standard_normal((3, 1, 1)).astype(np.float32)],
        opset=opset,
    )


@pytest.mark.parametrize("opset", [8, 12, 13])
@pytest.mark.parametrize("op", ["Sum", "Max", "Min", "Mean"])
def test_variadic_operators_agree_with_onnxruntime(op, opset, rng):
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((2, 3), (3,), (2, 1), (1, 1))]
    for n in (1, 2, 4):
        agree(op, arrays[:n], opset=opset)


@pytest.mark.parametrize("opset", [9, 13, 19])
@pytest.mark.parametrize("op", ["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"])
def test_comparisons_agree_with_onnxruntime(op, opset, rng):
    if "Or" in op and opset < 12:
        pytest.skip("came with opset 12")
    a, b = rng.integers(-2, 3, (4, 5)), rng.integers(-2, 3, (5,))
    for dtype in (np.int64, np.int32) if opset == 9 and op == "Equal" else (np.int64, np.float32):
        agree(op, [a.astype(dtype), b.astype(dtype)], opset=opset)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
def test_logic_agrees_with_onnxruntime(op):
    agree(op, [np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)], opset=13)


@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("fmod", [0, 1])
def test_remainders_agree_with_onnxruntime(fmod, opset):
    a, b = np.array([-7, 7, -7, 7, 6]), np.array([3, -3, -3, 3, 3])
    agree("Mod", [a, b], opset=opset, fmod=fmod)
    if fmod:
        agree("Mod", [a.astype(np.float32) + np.float32(0.5), b.astype(np.float32)], opset=opset, fmod=fmod)


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_clip_agrees_with_onnxruntime(opset, rng):
    x = rng.standard_normal((3, 5)).astype(np.float32)
    if opset < 11:
        agree("Clip", [x], opset=opset, min=-0.5, max=0.25)
        return
    low, high = np.array(-0.5, np.float32), np.array(0.25, np.float32)
    agree("Clip", [x, low, high], opset=opset, constant=(1, 2))
    agree("Clip", [x, low, high], opset=opset)
    agree("Clip", [x, None, high], opset=opset, constant=(2,))
    agree("Clip", [x, None, high], opset=opset)
    agree("Clip", [x], opset=opset)


def test_refuses_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match="do not broadcast"):
        Eltwise("add").infer([Layout(DType.F32, (2, 3)), Layout(DType.F32, (2,))])


def test_refuses_mixed_element_types():
    with pytest.raises(ShapeError, match="one element type"):
        Eltwise("add").infer([Layout(DType.F32, (2,)), Layout(DType.I32, (2,))])
