"""Trigonometric and hyperbolic functions."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.trigonometry import FUNCTIONS, Trigonometric
from tests.support.check_op import check_op
from tests.support.onnx_case import agree


@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_agree_with_onnxruntime(function, rng):
    x = rng.uniform(1 if function == "acosh" else -0.95, 5 if function == "acosh" else 0.95, (3, 5)).astype(np.float32)
    agree(function.capitalize(), [x], opset=22)


@pytest.mark.opencl
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_implementation_is_within_the_bound_of_opencl(function, engine):
    """OpenCL 1.2, section 7.4: at most 5 ulp of a result are 10 units of half an ulp; arguments are exact."""
    low, high = (1.0, 9.0) if function == "acosh" else (-0.9, 0.9)
    draw = {0: lambda rng, shape: rng.uniform(low, high, shape)}
    for dtype in (DType.F32, DType.F16):
        check_op(engine, Trigonometric(function), (3, 17), ulps=10, dtype=dtype, draw=draw, families=["normal"])
