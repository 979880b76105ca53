"""Reductions over axes."""

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.topology import Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs, reference_outputs

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


@pytest.mark.parametrize("op", ["Mean", "Max", "L2"])
def test_an_attribute_of_no_axes_reduces_all(op, rng):
    model, feeds = one_node(f"Reduce{op}", [rng.standard_normal((2, 3)).astype(np.float32)], opset=13)
    none = onnx.helper.make_attribute("axes", [], attr_type=onnx.AttributeProto.INTS)
    model.graph.node[0].attribute.append(none)
    (got,), (wanted,) = reference_outputs(load_onnx(model).build(), feeds), onnxruntime_outputs(model, feeds)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize(
    "op", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"], ids=str
)
def test_no_elements_are_reduced_as_onnxruntime_does(op, dtype):
    x = np.zeros((2, 0, 3), dtype)
    for axes in ([1], [0, 1], [0]):
        agree(f"Reduce{op}", [x, np.array(axes)], opset=18, constant=(1,))
    agree(f"Reduce{op}", [x], opset=18, keepdims=0)


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


def _positive(rng, shape):
    return rng.uniform(0.25, 2, shape)


# Units of 2^-24 for n elements: a sum of n rounds n times; a division has OpenCL's 2.5 ulps (5 units), square root,
# logarithm and exponential 3 (6 units). A relative error of the sum is an absolute one of its logarithm.
BOUNDS = {
    "sum": (lambda n: n, lambda r, x: r(np.abs(x))),
    "mean": (lambda n: n + 5, lambda r, x: r(np.abs(x))),
    "max": (lambda n: 0, None),
    "min": (lambda n: 0, None),
    "prod": (lambda n: n, None),
    "l1": (lambda n: n, None),
    "l2": (lambda n: n + 6, None),
    "sum_square": (lambda n: n + 1, None),
    "log_sum": (lambda n: n + 6, lambda r, x: 1 + np.abs(r(x))),
    "log_sum_exp": (lambda n: n + 15, lambda r, x: 1 + np.abs(r(x))),
}
DEVICE_SHAPES = [
    ((3, 5, 7), (1,)),
    ((3, 5, 7), (0, 2)),
    ((2, 19, 6, 5), (2, 3)),
    ((4, 33), (1,)),
    ((65,), (0,)),
    ((2, 3), ()),
]


@pytest.mark.opencl
@pytest.mark.parametrize(("shape", "axes"), DEVICE_SHAPES)
@pytest.mark.parametrize("function", BOUNDS)
def test_every_function_is_computed_within_its_bound(function, shape, axes, engine):
    ulps, scale = BOUNDS[function]
    count = int(np.prod([shape[a] for a in axes]))
    for keepdims in (True, False):
        primitive = Reduce(function, axes, keepdims)
        size = None if scale is None else lambda x, p=primitive: scale(lambda v: p.reference(v)[0], x)
        draw = {0: _positive} if function in ("prod", "log_sum") else {}
        check_op(engine, primitive, shape, ulps=ulps(count), scale=size, draw=draw)


@pytest.mark.opencl
def test_fused_operations_and_halves(engine):
    primitive = Reduce("mean", (2, 3))
    scale = lambda x, b: primitive.reference(np.abs(x))[0] + np.abs(b)  # noqa: E731
    fused = [(Eltwise("add"), [(19, 1, 1)], 0)]
    for dtype in (DType.F32, DType.F16):
        check_op(engine, primitive, (2, 19, 6, 5), ulps=30 + 5 + 1, scale=scale, fused=fused, dtype=dtype)


@pytest.mark.opencl
@pytest.mark.parametrize("function", ["sum", "max", "min", "prod", "l1", "sum_square"])
@pytest.mark.parametrize("dtype", [DType.I64, DType.I32])
def test_integers_are_reduced_exactly(function, dtype, engine):
    draw = {0: lambda rng, shape: rng.integers(-4, 5, shape)}
    check_op(engine, Reduce(function, (1,), False), (4, 7, 3), dtype=dtype, draw=draw)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("function", ["l2", "log_sum", "log_sum_exp"])
def test_roots_and_logarithms_of_integers_are_those_of_the_reference(function, dtype, rng):
    x = rng.integers(1, 30, (5, 70)).astype(dtype)
    topology = Topology()
    topology.input("x", x.shape, DType.of(x.dtype))
    topology.output("y", topology.add("y", Reduce(function, (0,)), "x"))
    np.testing.assert_array_equal(clgraph.compile(topology).run(x=x)["y"], Reduce(function, (0,)).reference(x)[0])


@pytest.mark.opencl
def test_a_root_that_its_type_does_not_hold_is_what_a_cast_makes_of_it():
    x = np.full((3, 2), 2**32 - 1, np.uint32)
    topology = Topology()
    topology.input("x", x.shape, DType.U32)
    topology.output("y", topology.add("y", Reduce("l2", (0,)), "x"))
    with np.errstate(invalid="ignore"):
        (wanted,) = Reduce("l2", (0,)).reference(x)
    np.testing.assert_array_equal(clgraph.compile(topology).run(x=x)["y"], wanted)
    np.testing.assert_array_equal(wanted, np.uint32(int(np.sqrt(3.0) * (2**32 - 1)) % 2**32))
