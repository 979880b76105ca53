"""Padding."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.pad import Pad
from tests.support.check_op import check_op
from tests.support.onnx_case import agree

PADS = [[0, 1, 2, 1, 0, 3], [0, -1, 2, 1, 0, -2]]


@pytest.mark.parametrize("pads", PADS)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("opset", [7, 11, 13, 18, 19, 21])
def test_pad_agrees_with_onnxruntime(opset, mode, pads, rng):
    if mode == "wrap" and (opset < 19 or min(pads) < 0):
        pytest.skip("wrap came with opset 19; ONNX Runtime reads beyond a cut axis")
    if mode == "reflect" and min(pads) < 0:
        pytest.skip("ONNX Runtime refuses it")
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    if opset < 11:
        agree("Pad", [x], opset=opset, pads=pads, mode=mode, **({"value": 1.5} if mode == "constant" else {}))
        return
    value = [np.array(1.5, np.float32)] if mode == "constant" else []
    agree("Pad", [x, np.array(pads, np.int64), *value], opset=opset, constant=(1, 2), mode=mode)


def test_pads_may_be_for_some_axes(rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    inputs = [x, np.array([1, 2, 0, 1], np.int64), None, np.array([-1, 0], np.int64)]
    agree("Pad", inputs, opset=18, constant=(1, 3))


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_every_implementation_copies_exactly(mode, dtype, engine):
    check_op(engine, Pad(((0, 1), (2, 1), (0, 3)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])
    if mode in ("constant", "edge"):
        check_op(engine, Pad(((0, -1), (2, -1), (-2, 3)), mode, 2.0), (2, 3, 4), dtype=dtype, families=["normal"])
