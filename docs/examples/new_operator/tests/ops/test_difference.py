"""Differences along an axis."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.ops.activation import Activation
from clgraph.ops.difference import Difference
from clgraph.ops.eltwise import Eltwise
from tests.support.check_op import check_op
from tests.support.onnx_case import one_node, reference_outputs


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_importer_and_the_reference_follow_the_definition(axis, rng):
    x = rng.integers(-99, 99, (3, 4, 5)).astype(np.float32)
    model, feeds = one_node("Difference", [x], opset=17, domain="com.acme", axis=axis)
    (y,) = reference_outputs(load_onnx(model).build(), feeds)
    # Sums of small integers are exact.
    np.testing.assert_array_equal(np.cumsum(y, axis), x)


def test_integers_are_refused_with_the_node():
    model, _ = one_node("Difference", [np.zeros(3, np.int64)], opset=17, domain="com.acme")
    with pytest.raises(ShapeError, match=r"'node'.*difference needs a floating type, not i64"):
        load_onnx(model).build()


@pytest.mark.opencl
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 0), ((2, 9, 16), 1), ((2, 19, 3, 37), 1), ((4, 3), 1)])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_every_implementation_rounds_once(shape, axis, dtype, engine):
    check_op(engine, Difference(axis), shape, ulps=1, dtype=dtype)


@pytest.mark.opencl
def test_fused_operations_are_applied_to_the_difference(engine):
    fused = [(Eltwise("add"), [(9, 1)], 0), (Activation("relu"), [], 0)]
    # The difference is rounded, then the sum of it and the operand.
    scale = lambda x, b: np.abs(Difference(1).reference(x)[0]) + np.abs(b)  # noqa: E731
    check_op(engine, Difference(1), (2, 9, 6), ulps=2, scale=scale, fused=fused)
