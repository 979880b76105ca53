"""Gather."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.gather import GatherRows
from clgraph.ops.gather import Gather, GatherRef
from clgraph.selector.query import DeviceInfo, Query
from tests.support.check_op import check_op
from tests.support.onnx_case import agree
from tests.support.run_tiles import pose, run_tiles


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_gather_agrees_with_onnxruntime(shape, axis, opset, rng):
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    indices = rng.integers(0 if opset < 11 else -3, 3, shape)
    for dtype in (np.int64, np.int32):
        agree("Gather", [x, np.asarray(indices, dtype)], opset=opset, axis=axis)


TYPES = [DType.F32, DType.F16, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL]


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_implementation_copies_exactly(axis, dtype, engine):
    draw = {1: lambda rng, shape: rng.integers(-3, 3, shape)}
    for kind, shape in ((DType.I64, (2, 5)), (DType.I32, (4,)), (DType.I64, ())):
        check_op(engine, Gather(axis), (3, 4, 5), shape, dtype=(dtype, kind), draw=draw, families=["normal"])


@pytest.mark.opencl
def test_neighbours_that_are_picked_together_are_one_element(engine):
    draw = {1: lambda rng, shape: rng.integers(-3, 3, shape)}
    wanted = {((3, 4, 8), 0): "uint4", ((3, 5, 6), 1): "ulong", ((3, 5), 0): "uint", ((3, 8), 1): "uint"}
    for (shape, axis), moved in wanted.items():
        check_op(engine, Gather(axis), shape, (2, 5), dtype=(DType.F32, DType.I64), draw=draw, families=["normal"])
        layouts = (Layout(DType.F32, shape), Layout(DType.I64, (2, 5)))
        q = Query(Gather(axis), layouts, Gather(axis).infer(layouts), engine.info, 2)
        assert dict(GatherRef.plan(q).steps[0].jit.macros)["MOVED"] == moved, (shape, axis)


@pytest.mark.opencl
def test_an_index_outside_of_the_axis_reads_its_nearest_end(engine):
    draw = {1: lambda rng, shape: rng.integers(-9, 9, shape)}
    check_op(engine, Gather(0), (3, 4), (50,), dtype=(DType.F32, DType.I64), draw=draw, families=["normal"])


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(12))
def test_tiles_copy_rows_exactly(seed, engine):
    rng = np.random.default_rng(seed)
    axis, count = int(rng.integers(2)), int(rng.integers(1, 40))
    shape = tuple(int(n) for n in rng.integers(1, (4, 30, 90)[-2 - axis :]))
    x = rng.standard_normal(shape).astype(np.float32)
    indices = rng.integers(-2 * shape[axis], 2 * shape[axis], count).astype((np.int64, np.int32)[seed % 2])
    q = pose(engine.info, GatherRows, Gather(axis), [Layout.of(x), Layout.of(indices)], arity=2)
    np.testing.assert_array_equal(run_tiles(engine, GatherRows, q, [x, indices]), Gather(axis).reference(x, indices)[0])


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16], ids=str)
def test_columns_of_many_short_rows_are_copied_exactly(dtype, engine):
    draw = {1: lambda rng, shape: rng.integers(-9, 9, shape)}
    for shape, count in (((2100, 7), 2), ((17, 3), 64), ((40, 9, 2), 5), ((16, 1), 1), ((300, 5, 4), 3)):
        for kind in (DType.I64, DType.I32):
            found = check_op(engine, Gather(1), shape, (count,), dtype=(dtype, kind), draw=draw, families=["normal"])
            assert set(found.values()) == {0.0}


def test_rows_of_odd_bytes_are_refused():
    layouts = [Layout(DType.U8, (5, 3)), Layout(DType.I64, (2,))]
    assert "whole words" in str(GatherRows.refusal(pose(DeviceInfo(), GatherRows, Gather(0), layouts, arity=2)))


def test_the_reference_takes_tables_whose_elements_start_anywhere() -> None:
    bytes_of = np.zeros(4 * 24 + 1, np.uint8)
    table = bytes_of[1:].view(np.float32).reshape(2, 3, 4)
    table[...] = np.arange(24).reshape(2, 3, 4)
    assert not table.flags.aligned
    for axis in (0, 1, -1):
        for indices in (np.array([1, -1]), np.array(1), np.array([[0, 9], [-9, 1]])):
            (found,) = Gather(axis).reference(table, indices)
            (want,) = Gather(axis).reference(table.copy(), indices)
            np.testing.assert_array_equal(found, want)
            assert found.flags.c_contiguous
