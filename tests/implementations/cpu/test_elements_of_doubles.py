"""Operations that are fused behind elementwise functions of doubles, and conversions beside rare functions."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.eltwise import Eltwise
from tests.support.check_op import check_op
from tests.support.graphs import FLOAT, graph, model

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("shape", [(2, 3, 4, 1100), (70, 33), (1, 1), (5, 1)], ids=str)
def test_sums_and_products_behind_doubles_are_rounded_one_by_one(engine, shape):
    rows = (shape[0], *(1,) * (len(shape) - 1))
    for second in ("add", "sub", "mul"):
        for operand, slot in ((shape, 0), (rows, 1), (shape[-1:], 0), ((1,), 1)):
            fused = [(Eltwise(second), [operand], slot), (Eltwise("mul"), [rows], 0)]
            found = check_op(
                engine, Eltwise("mul"), shape, rows, dtype=DType.F64, fused=fused, ulps=0.0, only=["eltwise.elements"]
            )
            assert found == {"eltwise.elements": 0.0}, (second, operand, slot)


@pytest.mark.parametrize("function", ["Sinh", "Tan", "Asinh", "Cast"])
@pytest.mark.parametrize("shape", [(2, 3), (100, 3), (3, 1100)], ids=str)
def test_operations_behind_floats_that_are_computed_in_doubles_are_of_floats(function, shape):
    """Once they were of doubles, in twice the memory that the result has."""
    of, attributes = (TensorProto.DOUBLE, {"to": FLOAT}) if function == "Cast" else (FLOAT, {})
    nodes = [
        helper.make_node(function, ["x"], ["y"], **attributes),
        helper.make_node("Add", ["y", "z"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["last"]),
    ]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(helper.tensor_dtype_to_np_dtype(of))
    z = rng.standard_normal(shape).astype(np.float32)
    inputs = [("x", of, shape), ("z", FLOAT, shape)]
    with (
        clgraph.compile(model(graph(nodes[:1], inputs[:1], [("y", FLOAT, None)])), "pocl") as alone,
        clgraph.compile(model(graph(nodes, inputs, [("last", FLOAT, None)])), "pocl") as fused,
    ):
        assert "number_elements" in str(fused.explain())
        (wanted,) = alone.run({"x": x}).values()
        (found,) = fused.run({"x": x, "z": z}).values()
    np.testing.assert_array_equal(found, np.maximum(wanted + z, 0))


def test_halves_around_maxima_of_windows_are_converted_in_the_same_launch():
    window = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3])
    source = model(graph([window], [("x", TensorProto.FLOAT16, [1, 2, 9, 9])], [("y", TensorProto.FLOAT16, None)]))
    with clgraph.compile(source, threads=1) as compiled:
        assert "3 tile steps in 1 launches" in str(compiled.explain())
