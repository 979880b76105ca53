"""Reductions over axes."""

import numpy as np
import pytest

from tests.support.onnx_case import agree

OPS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp"]


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("op", OPS)
def test_reductions_agree_with_onnxruntime(op, opset, rng):
    x = rng.random((2, 3, 4)).astype(np.float32) + np.float32(0.2)
    by_input = op == "Sum" and opset >= 13
    for axes in ([1], [0, 2], [-1], None):
        for keepdims in (0, 1):
            if by_input:
                inputs = [x] if axes is None else [x, np.array(axes, np.int64)]
                agree("ReduceSum", inputs, opset=opset, keepdims=keepdims, constant=(1,) if axes else ())
            elif not (opset == 7 and axes == [-1]):
                more = {} if axes is None else {"axes": axes}
                agree(f"Reduce{op}", [x], opset=opset, keepdims=keepdims, **more)


@pytest.mark.parametrize("op", OPS)
def test_axes_are_an_input_from_opset_18_on(op, rng):
    x = rng.random((2, 3, 4)).astype(np.float32) + np.float32(0.2)
    agree(f"Reduce{op}", [x, np.array([-2], np.int64)], opset=18, constant=(1,))
    agree(f"Reduce{op}", [x], opset=18)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max"])
def test_empty_axes_reduce_nothing_when_the_model_says_so(op, rng):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    agree(f"Reduce{op}", [x], opset=18, noop_with_empty_axes=1)
    agree(f"Reduce{op}", [x, np.array([], np.int64)], opset=18, noop_with_empty_axes=1, constant=(1,))


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("op", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pooling_agrees_with_onnxruntime(op, opset, rng):
    agree(op, [rng.standard_normal((2, 3, 4, 5)).astype(np.float32)], opset=opset)
    agree(op, [rng.standard_normal((2, 3, 4)).astype(np.float32)], opset=opset)


def test_integers_are_reduced(rng):
    x = rng.integers(-20, 20, (3, 7)).astype(np.int32)
    for op in ("Sum", "Max", "Min", "Prod"):
        agree(f"Reduce{op}", [x, np.array([1], np.int64)], opset=18, constant=(1,))
    agree("ReduceSum", [x.astype(np.int64)], opset=13)
