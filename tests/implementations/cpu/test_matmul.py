"""Matrix product tiles against float64: constant and other right sides, transposed, batched, biased."""

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.implementations.cpu.copies import Axis, merge
from clgraph.implementations.cpu.matmul import MatMulRows
from clgraph.ops.matmul import MatMul
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import check_tiles, pose, post_list

BATCHES = ((), (3,), (2, 3), (1,), (1, 2))


def check_product(engine, a, b, transpose_a=False, transpose_b=False, bias=None, constant=True, words="", seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (a, b, *([bias] if bias else []))]
    primitive, arity = MatMul(transpose_a, transpose_b), len(arrays)
    out = primitive.infer([Layout.of(x) for x in arrays])[0].shape
    (size,) = primitive.reference(*(np.abs(x).astype(np.float64) for x in arrays))
    fused, slope = post_list(words, out, arrays, rng)
    depth = primitive.sizes(a, b)[2]
    # n products with fma, a rounding for the bias and a few for the list, on values below size + 4.
    check_tiles(
        engine,
        MatMulRows,
        primitive,
        arrays,
        slope * (depth + 8),
        arity=arity,
        size=size + 4,
        constant=(1,) if constant else (),
        fused=fused,
        misalign=seed % 16,
    )


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(60))
def test_products_agree_with_float64(engine, seed):
    rng = np.random.default_rng(seed)
    m, k, n = (int(v) for v in rng.integers(1, 140, 3))
    m = 1 if seed % 4 == 0 else m
    batch, ta, tb = BATCHES[seed % 5], bool(seed & 1), bool(seed & 2)
    a, b = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    where = seed % 3
    bias = (None, (n,), (1, n), (m, 1), (m, n))[int(rng.integers(5))]
    words = ("", "relu", "add", "row", "hard_swish")[int(rng.integers(5))]
    left, right = (a if where == 1 else (*batch, *a)), (b if where == 0 else (*batch, *b))
    check_product(engine, left, right, ta, tb, bias, bool(seed & 4), words, seed)


@pytest.mark.opencl
@pytest.mark.parametrize("shape", [(1, 2048, 1000), (3, 300, 65), (512, 33, 16), (40, 600, 260), (1, 1, 1)])
def test_long_rows_and_tall_matrices_agree_with_float64(engine, shape):
    m, k, n = shape
    check_product(engine, (m, k), (n, k), transpose_b=True, bias=(n,))


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("left", "right"), [((2, 3), (1, 3)), ((1, 3), (2, 3)), ((2, 1), (1, 3)), ((2, 3), (2, 1))])
def test_two_batch_axes_that_move_differently_agree_with_float64(engine, left, right, constant):
    bias = (2, 1, 1, 70) if constant else (3, 7, 70)
    check_product(engine, (*left, 7, 20), (*right, 20, 70), bias=bias, constant=constant, words="add")


VECTORS = (
    ((70,), (70, 3)),
    ((33,), (4, 33, 70)),
    ((40,), (40,)),
    ((9, 70), (70,)),
    ((2, 3, 5, 33), (33,)),
    ((3, 17, 50), (3, 50, 1)),
    ((2, 1, 6, 16), (1, 3, 16, 1)),
    ((7, 5), (5, 1)),
    ((3, 1), (1, 1)),
)
"""Sides of which one is a vector, or one column."""


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("left", "right"), VECTORS)
def test_vectors_and_columns_agree_with_float64(engine, left, right, constant):
    check_product(engine, left, right, constant=constant, words="add", seed=len(left) + len(right))
    if len(right) > 1 and right[-1] == 1:
        transposed = (*right[:-2], 1, right[-2])
        check_product(engine, left, transposed, transpose_b=True, bias=(left[-2], 1), constant=constant, seed=1)
        check_product(engine, (*left[:-2], left[-1], left[-2]), right, transpose_a=True, constant=constant, seed=2)


def test_one_column_is_not_packed_where_it_lies_in_one_piece():
    def weights(right, transpose_b=False, transpose_a=False):
        left = (30, 20) if transpose_a else (20, 30)
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in (left, right)]
        q = pose(DeviceInfo(), MatMulRows, MatMul(transpose_a, transpose_b), layouts, arity=2, constant=(1,))
        return MatMulRows.weights(q)

    assert weights((30, 1)) == weights((1, 30), transpose_b=True) == weights((30,)) == {}
    assert list(weights((30, 2))) == list(weights((30, 1), transpose_a=True)) == [1]


def test_a_fed_right_side_is_read_where_it_lies_where_it_is_read_once():
    def in_place(left, right, slot=1):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in (left, right)]
        q = pose(DeviceInfo(simd=16), MatMulRows, MatMul(), layouts, arity=2)
        return MatMulRows.plan(q).steps[0].descriptor.reads_in_place(slot)

    assert in_place((512, 64), (64, 1))
    assert in_place((512, 64), (64,))
    assert in_place((1, 64), (64, 512))
    assert not in_place((512, 64), (64, 512))
    assert in_place((512, 64), (64, 512), slot=0)


def test_three_batch_axes_that_move_differently_are_refused():
    def reason(*shapes):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in shapes]
        return MatMulRows.refusal(pose(DeviceInfo(), MatMulRows, MatMul(), layouts, arity=2))

    assert "two batch axes" in str(reason((1, 2, 1, 4, 5), (3, 1, 2, 5, 6)))
    assert reason((2, 1, 4, 5), (1, 3, 5, 6)) is None
    assert reason((2, 3, 4, 5), (2, 3, 5, 6)) is None


def test_blocks_of_rows_fetch_the_whole_next_group_of_weights_that_come_from_memory():
    def fetched(rows, depth, columns, constant=(1,)):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((rows, depth), (depth, columns))]
        device = DeviceInfo(simd=16, workers=2)
        q = pose(device, MatMulRows, MatMul(), layouts, arity=2, constant=constant)
        desc = MatMulRows.plan(q).steps[0].descriptor
        return desc.fetched, -(-desc.ticket_rows // desc.widest)

    for rows in (16, 24, 128, 512):
        each, blocks = fetched(rows, 384, 1536)
        assert 64 <= each * blocks < 64 + blocks
    assert fetched(4, 384, 1536) == (32, 1)
    assert [fetched(*q)[0] for q in ((1, 384, 1536), (128, 384, 128), (128, 384, 1536, ()))] == [0, 0, 0]


def test_axes_merge_where_every_tensor_walks_them_as_one():
    assert merge([Axis(2, (12, 0)), Axis(3, (4, 0)), Axis(4, (1, 0))]) == [Axis(24, (1, 0))]
    assert merge([Axis(2, (12, 3)), Axis(1, (7, 7)), Axis(3, (4, 1)), Axis(4, (1, 0))]) == [
        Axis(6, (4, 1)),
        Axis(4, (1, 0)),
    ]
    assert merge([Axis(1, (5,))]) == []


def test_at_most_32_columns_are_estimated_as_half_a_group_and_16_as_a_quarter():
    def seconds(rows, columns, simd=16):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((rows, 512), (512, columns))]
        return MatMulRows.cost(pose(DeviceInfo(simd=simd), MatMulRows, MatMul(), layouts, arity=2))

    assert seconds(512, 32) < 0.6 * seconds(512, 64)
    assert seconds(512, 96) < 0.8 * seconds(512, 128)
    assert seconds(512, 33) > 0.9 * seconds(512, 64)
    assert seconds(512, 16) < 0.55 * seconds(512, 32)
    assert seconds(512, 32, simd=8) > 0.9 * seconds(512, 64, simd=8)


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
def test_neighbouring_tickets_have_the_same_part_of_the_rows(workers):
    for rows in (1, 47, 48, 49, 128, 500):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((rows, 300), (300, 400))]
        q = pose(DeviceInfo(simd=16, workers=workers), MatMulRows, MatMul(), layouts, arity=2, constant=(1,))
        (step,) = MatMulRows.plan(q).steps
        d = step.descriptor
        computed = np.zeros((rows, d.groups), int)
        for ticket in range(step.tickets):
            part, within = divmod(ticket, d.spans * d.tiers)
            tier, span = divmod(within, d.spans)
            first = part * d.part_rows + span * d.ticket_rows
            last = min(first + d.ticket_rows, (part + 1) * d.part_rows, rows)
            computed[first:last, tier * d.ticket_groups : (tier + 1) * d.ticket_groups] += 1
        assert (computed == 1).all()
        assert d.parts == (1 if rows < 48 else min(workers, rows // 24))


@pytest.mark.opencl
@pytest.mark.parametrize("rows", [1, 4, 9])
@pytest.mark.parametrize("columns", [1, 5, 15, 16, 17, 40, 63, 77])
def test_few_rows_by_less_than_a_group_of_columns_agree_with_float64(engine, rows, columns):
    words = ("", "row sigmoid")[columns % 2]
    for depth in (1, 2, 40, 1031):
        left, right = (3, rows, depth), (3, depth, columns)
        check_product(engine, left, right, bias=(columns,), constant=False, words=words, seed=columns)
        check_product(engine, left, right[1:], constant=False, words=words, seed=columns)


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("columns", [3, 16, 17, 32, 80])
def test_many_rows_by_few_columns_agree_with_float64(engine, columns, constant):
    for rows, depth in ((12, 4), (13, 7), (30, 1031)):
        check_product(engine, (2, rows, depth), (depth, columns), constant=constant, words="row", seed=rows)
        check_product(engine, (2, depth, rows), (2, depth, columns), transpose_a=True, constant=constant, seed=depth)


@pytest.mark.opencl
@pytest.mark.parametrize("columns", [1, 3, 11, 15])
@pytest.mark.parametrize(("bias", "words"), [((), ""), ((), "row"), ((203, 1), ""), ((203,), "row"), ((2, 1), "")])
def test_operands_of_narrow_rows_are_those_of_each_run_of_rows(engine, columns, bias, words):
    added = {(): (columns,), (203, 1): (203, 1), (203,): (203, columns), (2, 1): (2, 1, 1)}[bias]
    check_product(engine, (2, 203, 24), (24, columns), bias=added, constant=True, words=words, seed=columns)


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("columns", [1, 3, 4, 67, 68])
def test_short_rows_by_few_columns_agree_with_float64(engine, columns, constant):
    for rows, depth in ((1, 4), (6, 3), (21, 16)):
        check_product(engine, (2, rows, depth), (depth, columns), constant=constant, words="row", seed=rows)
        check_product(engine, (2, rows, depth), (columns, depth), False, True, (columns,), constant, seed=depth)
        check_product(engine, (2, depth, rows), (2, depth, columns), transpose_a=True, constant=constant, seed=depth)


@pytest.mark.opencl
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), [(1, 128, 2), (11, 131, 3), (8, 1031, 4), (40, 256, 1)])
def test_few_long_columns_agree_with_float64(engine, rows, depth, columns, constant):
    left, right = (2, rows, depth), (2, depth, columns)
    check_product(engine, left, right, bias=(rows, columns), constant=constant, words="row sigmoid", seed=columns)
    check_product(engine, left, right[1:], constant=constant, words="add", seed=rows)
    check_product(engine, left, right[:0:-1], transpose_b=True, constant=constant, seed=depth)
    check_product(engine, (2, depth, rows), right, transpose_a=True, constant=constant, seed=depth)


def test_few_long_columns_are_multiplied_one_by_one_whether_packed_or_fed():
    def dots(depth, columns, **more):
        layouts = [Layout.of(np.zeros(s, np.float32)) for s in ((20, depth), (depth, columns))]
        q = pose(DeviceInfo(simd=16), MatMulRows, MatMul(), layouts, arity=2, **more)
        return MatMulRows.plan(q).steps[0].descriptor.dots, list(MatMulRows.weights(q))

    assert dots(128, 4) == dots(128, 4, constant=(1,)) == dots(128, 1) == (1, [])
    assert dots(127, 4) == dots(128, 5) == (0, [])
    assert dots(127, 4, constant=(1,))[1] == dots(128, 5, constant=(1,))[1] == [1]
