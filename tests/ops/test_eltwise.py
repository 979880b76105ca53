"""Elementwise functions of two tensors."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import COMPARISONS, Eltwise
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node

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
    agree("Pow", [x, rng.standard_normal((4,)).astype(np.float32)], opset=opset)
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
        x[0, :2] = np.inf, -np.inf
        agree("Clip", [x], opset=opset, min=-0.5, max=0.25)
        agree("Clip", [x], opset=opset, max=0.25)
        agree("Clip", [x], opset=opset)
        return
    low, high = np.array(-0.5, np.float32), np.array(0.25, np.float32)
    agree("Clip", [x, low, high], opset=opset, constant=(1, 2))
    agree("Clip", [x, low, high], opset=opset)
    agree("Clip", [x, None, high], opset=opset, constant=(2,))
    agree("Clip", [x, None, high], opset=opset)
    agree("Clip", [x], opset=opset)
    # Bounds the wrong way round: the upper one counts.
    agree("Clip", [x, high, low], opset=opset, constant=(1,))
    agree("Clip", [x, high, low], opset=opset, constant=(2,))


@pytest.mark.parametrize("shape", [(0,), (2,), (2, 1)])
def test_bounds_of_a_clip_that_are_no_single_number_are_refused(shape):
    x, bound = np.zeros((2, 1), np.float32), np.ones(shape, np.float32)
    for inputs in ([x, bound], [x, None, bound]):
        with pytest.raises(UnsupportedError, match="a bound is one number"):
            load_onnx(one_node("Clip", inputs, opset=13, constant=(len(inputs) - 1,))[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("constant", [(), (1, 2)])
def test_clip_bounds_infinities_to_the_types_own_limits(dtype, constant):
    x, bound = np.array([np.nan, np.inf, -np.inf, 2, -0.0], dtype), np.array(0.5, dtype)
    for inputs in ([x], [x, bound], [x, None, bound], [x, bound, bound]):
        slots = [slot for slot in constant if slot < len(inputs) and inputs[slot] is not None]
        agree("Clip", inputs, opset=13, constant=slots)


def test_refuses_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match="do not broadcast"):
        Eltwise("add").infer([Layout(DType.F32, (2, 3)), Layout(DType.F32, (2,))])


def test_refuses_mixed_element_types():
    with pytest.raises(ShapeError, match="one element type"):
        Eltwise("add").infer([Layout(DType.F32, (2,)), Layout(DType.I32, (2,))])


# In units of 2^-24 of the result: correctly rounded, but OpenCL's 2.5 ulps (5 units) of a division and 16 of a power.
BOUNDS = {"add": 1, "sub": 1, "mul": 1, "div": 5, "min": 0, "max": 0, "prelu": 1, "fmod": 0, "mod": 1}


@pytest.mark.opencl
@pytest.mark.parametrize("shapes", [*SHAPES, ((2, 3, 4, 5), (1, 3, 1, 1)), ((7, 1), (1, 9)), ((3, 0), (1,))])
@pytest.mark.parametrize("function", BOUNDS)
def test_every_function_is_computed_within_its_bound(function, shapes, engine):
    nonzero = {1: lambda rng, shape: rng.uniform(0.5, 3, shape) * rng.choice([-1, 1], shape)}
    draw = nonzero if function in ("fmod", "mod") else {}
    check_op(engine, Eltwise(function), *shapes, ulps=BOUNDS[function], draw=draw)


@pytest.mark.opencl
def test_powers_are_computed_within_their_bound(engine):
    positive = {0: lambda rng, shape: rng.uniform(0.1, 4, shape)}
    check_op(engine, Eltwise("pow"), (3, 17), (17,), ulps=32, draw=positive, families=["normal", "zeros"])
    whole = {1: lambda rng, shape: rng.integers(-3, 4, shape)}
    check_op(engine, Eltwise("pow"), (3, 17), (17,), ulps=32, draw=whole, dtype=(DType.F32, DType.I64))


@pytest.mark.opencl
def test_halves_are_computed_in_float(engine):
    check_op(engine, Eltwise("mul"), (3, 37), (3, 1), ulps=1, dtype=DType.F16)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.I64, DType.I32, DType.U8])
@pytest.mark.parametrize("function", ["add", "sub", "mul", "div", "min", "max", "mod", "fmod", "and", "or", "xor"])
def test_integers_are_computed_exactly(function, dtype, engine):
    low = -9 if dtype.numpy.kind == "i" else 0
    draw = {0: lambda rng, s: rng.integers(max(low, 2), 12, s) * 2, 1: lambda rng, s: rng.integers(low, 3, s)}
    if function == "sub" and dtype == DType.U8:
        draw[1] = lambda rng, s: rng.integers(0, 4, s)
    check_op(engine, Eltwise(function), (5, 8), (8,), dtype=dtype, draw=draw)


@pytest.mark.opencl
def test_integer_powers_are_exact(engine):
    draw = {0: lambda rng, s: rng.integers(-5, 6, s), 1: lambda rng, s: rng.integers(0, 6, s)}
    check_op(engine, Eltwise("pow"), (5, 8), (8,), dtype=DType.I64, draw=draw)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I64, DType.U8])
@pytest.mark.parametrize("function", COMPARISONS)
def test_comparisons_are_exact(function, dtype, engine):
    draw = {slot: lambda rng, shape: rng.integers(0, 4, shape) for slot in (0, 1)}
    check_op(engine, Eltwise(function), (5, 8), (5, 1), dtype=dtype, draw=draw)


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["and", "or", "xor", "equal"])
def test_logic_is_exact(function, engine):
    check_op(engine, Eltwise(function), (5, 8), (8,), dtype=DType.BOOL, families=["normal"])


@pytest.mark.opencl
def test_fused_operations_are_applied_in_order(engine):
    fused = [(Activation("relu"), [], 0), (Eltwise("div"), [(4, 1)], 1)]
    # 1 / (a + b) is only near where a + b is: one rounding of it, then a division's 2.5 ulps.
    draw = {i: lambda rng, shape: rng.uniform(0.5, 3, shape) for i in (0, 1)}
    check_op(engine, Eltwise("add"), (3, 4, 5), (3, 1, 5), ulps=6, fused=fused, draw=draw)
