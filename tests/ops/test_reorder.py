"""Casts, and changes of format."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import Format, channels_last, feature_blocked
from clgraph.core.layout import Layout, pack
from clgraph.ops.reorder import Reorder, ReorderRef
from clgraph.selector.query import Query
from tests.support.check_op import check_op, run_raw
from tests.support.onnx_case import ONNX_TYPES, agree

TYPES = [np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_]


@pytest.mark.parametrize("opset", [9, 13, 19, 21])
@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_casts_agree_with_onnxruntime(dtype, to, opset):
    x = (
        np.array([-3.7, -1.5, -0.2, 0, 0.5, 1, 2.5, 100.9])
        if np.dtype(dtype).kind == "f"
        else np.array([-3, -1, 0, 1, 2, 100])
    )
    if np.dtype(to).kind in "ub" or np.dtype(dtype).kind == "u":
        x = np.abs(x)
    agree("Cast", [x.astype(dtype)], opset=opset, to=ONNX_TYPES[np.dtype(to)])


DTYPES = list(DType)
FORMATS = [
    Format.plain(4),
    feature_blocked(4),
    channels_last(4),
    Format((0, 1, 2, 3), ((1, 16), (0, 32))),
    Format((1, 0, 3, 2), ((3, 4), (1, 8))),
]


@pytest.mark.opencl
@pytest.mark.parametrize("to", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_pair_of_types_converts_as_numpy_does(dtype, to, engine):
    values = [-100, -3.75, -1.5, -1, -0.25, 0, 0.5, 1, 2.5, 7, 100.875]
    values = [v for v in values if v >= 0 or (dtype.numpy.kind in "fi" and to.numpy.kind in "fi")]
    draw = {0: lambda rng, shape: np.resize(values, shape)}
    check_op(engine, Reorder(to), (7, 11), dtype=dtype, draw=draw, families=["normal"], ulps=1 if to.floating else 0)


@pytest.mark.opencl
@pytest.mark.parametrize("source", FORMATS, ids=str)
@pytest.mark.parametrize("target", FORMATS, ids=str)
@pytest.mark.parametrize("halo", [(), ((0, 0), (0, 0), (1, 2), (3, 0))])
def test_the_memory_is_that_of_the_format_with_zeros_in_halo_and_tail_lanes(halo, target, source, engine):
    shape = (3, 19, 5, 6)
    x, y = Layout(DType.F32, shape, source, halo), Layout(DType.F32, shape, target, halo)
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    query = Query(Reorder(DType.F32, target, halo), (x,), (y,), engine.info, 1)
    (memory,) = run_raw(engine, ReorderRef, query, [pack(array, x)])
    np.testing.assert_array_equal(memory, pack(array, y))


@pytest.mark.opencl
@pytest.mark.parametrize("source", FORMATS, ids=str)
@pytest.mark.parametrize("target", FORMATS, ids=str)
def test_every_implementation_keeps_the_values_between_any_two_formats(target, source, engine):
    halo = ((0, 0), (0, 0), (1, 2), (3, 0))
    for before, after in (((), halo), (halo, ())):
        laid_out = [Layout(DType.F32, (3, 19, 5, 6), source, before)]
        check_op(engine, Reorder(DType.F32, target, after), laid_out[0].shape, laid_out=laid_out, families=["normal"])
