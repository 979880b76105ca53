"""Shapes as data, filled tensors, ranges, identities."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.topology import Topology
from clgraph.ops.fill import Fill, FillRef
from clgraph.ops.shape import EveryPlace
from clgraph.selector.query import Query
from tests.support.check_op import run_raw
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs


@pytest.mark.parametrize("opset", [7, 13, 15, 21])
def test_the_shape_is_known_without_a_node(opset, rng):
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    assert len(agree("Shape", [x], opset=opset)) == 0
    assert len(agree("Size", [x], opset=opset)) == 0
    if opset >= 15:
        agree("Shape", [x], opset=opset, start=1)
        agree("Shape", [x], opset=opset, start=-2, end=-1)


def test_places_are_those_of_nonzero_of_all_ones():
    x = np.zeros((2, 3, 4), np.float32)
    topology = Topology()
    topology.output("y", topology.add("y", EveryPlace(), topology.input("x", (2, 3, 4))))
    program = topology.build()
    np.testing.assert_array_equal(dict(program.outputs)["y"].constant, np.nonzero(x == 0))
    np.testing.assert_array_equal(EveryPlace().reference(x)[0], np.nonzero(x == 0))


@pytest.mark.parametrize("opset", [9, 20, 21])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_constant_of_shape_agrees_with_onnxruntime(dtype, opset):
    import onnx

    value = onnx.numpy_helper.from_array(np.array([1], dtype))
    agree("ConstantOfShape", [np.array([2, 3], np.int64)], opset=opset, constant=(0,), value=value)
    agree("ConstantOfShape", [np.array([100, 101], np.int64)], opset=opset, constant=(0,))


@pytest.mark.parametrize(("start", "limit", "step"), [(0, 10, 3), (5, -5, -2), (0.5, 3.0, 0.25), (3, 3, 1)])
def test_range_agrees_with_onnxruntime(start, limit, step):
    dtype = np.float32 if isinstance(step, float) else np.int64
    agree("Range", [np.array(v, dtype) for v in (start, limit, step)], opset=11, constant=(0, 1, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ends", [(0.0, 1.2, 0.1), (0.1, 0.4, 0.1), (1.7, 6.5, 0.2), (0.1, -1.6, -0.1)])
def test_a_range_has_as_many_elements_as_in_onnxruntime(ends, dtype):
    model, feeds = one_node("Range", [np.array(v, dtype) for v in ends], opset=11, constant=(0, 1, 2))
    (got,), (want,) = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
    # ONNX Runtime adds up: half an ulp of at most the largest end for each element.
    np.testing.assert_allclose(got, want, rtol=0, atol=len(want) * np.finfo(dtype).eps / 2 * max(map(abs, ends)))


def test_a_range_without_an_end_is_refused():
    with pytest.raises(ShapeError, match=r"a range from 0\.0 to inf by 1\.0 has no end"):
        agree("Range", [np.float32(v) for v in (0, np.inf, 1)], opset=11, constant=(0, 1, 2))


@pytest.mark.parametrize("opset", [7, 10, 12, 13])
def test_dropout_and_identity_leave_no_layer(opset, rng):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    assert len(agree("Identity", [x], opset=opset)) == 0
    assert len(agree("Dropout", [x], opset=opset)) == 0
    if opset >= 12:
        agree("Dropout", [x], opset=opset, outputs=2)


@pytest.mark.opencl
@pytest.mark.parametrize(("value", "dtype"), [(1.5, DType.F32), (-2, DType.I64), (True, DType.BOOL), (0.5, DType.F16)])
def test_a_filled_tensor_is_exact(value, dtype, engine):
    # Passes fold it wherever it stands: it reads nothing.
    primitive, layout = Fill(value, dtype, (3, 5)), Layout(dtype, (3, 5))
    (memory,) = run_raw(engine, FillRef, Query(primitive, (), (layout,), engine.info, 0), [])
    np.testing.assert_array_equal(memory.reshape(3, 5), primitive.reference()[0])
