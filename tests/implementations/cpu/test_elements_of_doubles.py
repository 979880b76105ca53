"""Operations that are fused behind elementwise functions of doubles, and conversions beside rare functions."""

import pytest
from onnx import TensorProto, helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.ops.eltwise import Eltwise
from tests.support.check_op import check_op
from tests.support.graphs import graph, model

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


def test_halves_around_maxima_of_windows_are_converted_in_the_same_launch():
    window = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3])
    source = model(graph([window], [("x", TensorProto.FLOAT16, [1, 2, 9, 9])], [("y", TensorProto.FLOAT16, None)]))
    with clgraph.compile(source, threads=1) as compiled:
        assert "3 tile steps in 1 launches" in str(compiled.explain())
