"""Concatenation, slices and splits as tiles: every element exactly where NumPy puts it."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.concat import ConcatTiles
from clgraph.implementations.cpu.slice import SliceTiles
from clgraph.implementations.cpu.split import SplitTiles
from clgraph.implementations.cpu.transpose import TransposeTiles
from clgraph.implementations.cpu.transpose_planes import TransposePlanes
from clgraph.ops.concat import Concat
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.selector.query import DeviceInfo
from tests.support.check_op import check_op
from tests.support.run_tiles import pose, run_tiles


def exact(engine, implementation, primitive, arrays, misalign=0):
    layouts = [Layout.of(a) for a in arrays]
    primitive = primitive.bind(layouts, [None] * len(layouts)).primitive
    q = pose(engine.info, implementation, primitive, layouts, arity=len(layouts))
    if (reason := implementation.refusal(q)) is not None:
        assert "needs more" in reason
        pytest.skip(reason)
    np.testing.assert_array_equal(
        run_tiles(engine, implementation, q, arrays, misalign), primitive.reference(*arrays)[0]
    )


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(20))
def test_concatenation_puts_each_input_in_its_part(engine, seed):
    rng = np.random.default_rng(seed)
    shape = [int(v) for v in rng.integers(1, (5, 9, 20, 40)[-(1 + seed % 4) :])]
    axis = int(rng.integers(len(shape)))
    parts = [(*shape[:axis], int(n), *shape[axis + 1 :]) for n in rng.integers(1, 30, 1 + seed % 5)]
    exact(engine, ConcatTiles, Concat(axis), [rng.standard_normal(s).astype(np.float32) for s in parts], seed % 16)


@pytest.mark.opencl
def test_parts_without_elements_leave_the_others_where_they_are(engine):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((3, n, 5)).astype(np.float32) for n in (0, 4, 0, 7)]
    exact(engine, ConcatTiles, Concat(1), arrays)


@pytest.mark.parametrize(
    ("implementation", "primitive", "shapes"),
    [(ConcatTiles, Concat(0), [(0, 3)] * 2), (SplitTiles, Split(0, (0, 0)), [(0, 3)])],
)
def test_what_has_no_element_at_all_is_refused(implementation, primitive, shapes):
    q = pose(DeviceInfo(), implementation, primitive, [Layout(DType.F32, s) for s in shapes], arity=len(shapes))
    assert implementation.refusal(q) == "serves no tensors without elements"


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(30))
def test_slices_take_every_step_of_each_axis_backwards_too(engine, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(v) for v in rng.integers(1, (5, 9, 20, 40)[-(1 + seed % 4) :]))
    starts = [int(rng.integers(d)) for d in shape]
    ends = [int(rng.integers(a + 1, d + 1)) for a, d in zip(starts, shape, strict=True)]
    steps = [int(rng.integers(1, 4)) if rng.random() < 0.3 else 1 for _ in shape]
    if seed % 5 == 0:
        at = int(rng.integers(len(shape)))
        starts[at], ends[at], steps[at] = shape[at] - 1, -1 - shape[at], -1
    primitive = Slice(tuple(starts), tuple(ends), tuple(steps), tuple(range(len(shape))))
    exact(engine, SliceTiles, primitive, [rng.standard_normal(shape).astype(np.float32)], seed % 16)


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("shape", "axis", "sizes"),
    [((3, 20, 7), 1, (5, 1, 14)), ((40,), 0, (17, 23)), ((2, 6), 1, (6,)), ((3, 20, 7), 1, (0, 9, 0, 11))],
)
def test_splits_fill_every_part(engine, shape, axis, sizes):
    check_op(engine, Split(axis, sizes), shape, only=("split.tiles",))


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("shape", "axes", "steps"),
    [
        ((5, 7, 3, 33, 4), (0, 3, 2, 1, 4), 5),
        ((5, 7, 3, 33, 4), (2, 1, 3, 0, 4), 3),
        ((6, 40, 3, 8, 15), (2, 0, 3, 1, 4), 3),
        ((3, 4, 5, 17), (2, 0, 1, 3), 1),
    ],
)
def test_transposes_that_keep_rows_walk_three_axes_and_a_short_one_in_steps(engine, rng, shape, axes, steps):
    x = rng.standard_normal(shape).astype(np.float32)
    exact(engine, TransposeTiles, Transpose(axes), [x])
    q = pose(engine.info, TransposeTiles, Transpose(axes), [Layout.of(x)], arity=1)
    assert len(TransposeTiles.plan(q).steps) == steps


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("shape", "axes"), [((1, 3, 2, 2, 9, 21), (0, 1, 4, 2, 5, 3)), ((3, 7, 4, 5, 18), (1, 0, 2, 4, 3))]
)
def test_planes_that_are_turned_walk_two_axes_and_a_short_one_in_steps(engine, rng, shape, axes):
    x = rng.standard_normal(shape).astype(np.float32)
    exact(engine, TransposePlanes, Transpose(axes), [x])
    q = pose(engine.info, TransposePlanes, Transpose(axes), [Layout.of(x)], arity=1)
    assert len(TransposePlanes.plan(q).steps) == (2 if len(shape) == 6 else 3)


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [DType.U8, DType.BF16, DType.I64], ids=str)
def test_planes_of_elements_of_any_width_are_turned(engine, dtype):
    draw = {0: lambda rng, of: rng.integers(0, 250, of).astype(dtype.numpy)}
    for shape, axes in (
        ((71, 33), (1, 0)),
        ((2, 16, 48), (0, 2, 1)),
        ((3, 7, 4, 5, 18), (1, 0, 2, 4, 3)),
        ((7, 3, 40), (2, 1, 0)),
    ):
        found = check_op(
            engine, Transpose(axes), shape, dtype=dtype, draw=draw, families=("normal",), only=["transpose.planes"]
        )
        assert found == {"transpose.planes": 0.0}


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("few", [2, 3, 4])
def test_few_rows_are_interleaved_and_few_columns_separated(engine, rng, dtype, few):
    for shape in ((few, 4133), (2, few, 37), (4100, few), (2, 37, few)):
        x = rng.integers(0, 250, shape).astype(dtype)
        exact(engine, TransposePlanes, Transpose((1, 0) if len(shape) == 2 else (0, 2, 1)), [x])


@pytest.mark.opencl
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("few", [5, 8, 15])
def test_fewer_than_sixteen_rows_or_columns_are_turned_four_at_a_time(engine, rng, dtype, few):
    for shape in ((few, 4133), (2, few, 37), (4100, few), (4099, few), (2, 37, few), (3, few, 4), (3, 7, few)):
        x = rng.integers(0, 250, shape).astype(dtype)
        exact(engine, TransposePlanes, Transpose((1, 0) if len(shape) == 2 else (0, 2, 1)), [x])


def test_a_long_plane_of_few_columns_is_several_tickets():
    q = pose(
        DeviceInfo(),
        TransposePlanes,
        Transpose((0, 3, 1, 2)),
        [Layout.of(np.zeros((1, 512, 512, 3), np.float32))],
        arity=1,
    )
    assert [(d.planes_y, d.rows, d.strips_total) for d in (s.descriptor for s in TransposePlanes.plan(q).steps)] == [
        (1, 2048, 128)
    ]
    q = pose(DeviceInfo(), TransposePlanes, Transpose((1, 0)), [Layout.of(np.zeros((4096, 15), np.int32))], arity=1)
    assert TransposePlanes.plan(q).steps[0].descriptor.rows == 2048


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("dtype", "shape"), [(np.float32, (3, 21, 35, 2)), (np.uint8, (2, 40, 17, 4)), (np.uint8, (19, 1, 33, 8))], ids=str
)
def test_neighbours_that_stay_neighbours_are_turned_as_one(engine, rng, dtype, shape):
    x = rng.integers(0, 250, shape).astype(dtype)
    exact(engine, TransposePlanes, Transpose((0, 2, 1, 3) if shape[1] > 1 else (2, 1, 0, 3)), [x])


def test_neighbours_that_are_no_word_are_not():
    x = Layout.of(np.zeros((2, 21, 35, 3), np.float32))
    q = pose(DeviceInfo(), TransposePlanes, Transpose((0, 2, 1, 3)), [x], arity=1)
    assert "the 12 that stay neighbours" in str(TransposePlanes.refusal(q))


def test_parts_without_gaps_are_one_row():
    layouts = [Layout.of(np.zeros((1, n, 8, 9), np.float32)) for n in (3, 5)]
    q = pose(DeviceInfo(), ConcatTiles, Concat(1), layouts, arity=2)
    assert [step.descriptor.width for step in ConcatTiles.plan(q).steps] == [3 * 72, 5 * 72]
