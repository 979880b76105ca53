"""The best elements along an axis."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops import top_k
from clgraph.ops.top_k import TopK, TopKLines
from clgraph.selector.query import Query
from tests.support.check_op import check_op, run_raw
from tests.support.graphs import FLOAT, INT, agrees, graph, model
from tests.support.onnx_case import agree


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1, 1])
def test_top_k_agrees_with_onnxruntime(axis, largest, rng):
    for x in (rng.standard_normal((5, 7, 6)).astype(np.float32), rng.integers(-3, 3, (5, 7, 6))):
        agree("TopK", [x, np.array([4])], opset=11, constant=(1,), outputs=2, axis=axis, largest=largest)


def test_the_first_of_equal_ones_comes_first(rng):
    x = np.array([[2, 5, 5, 1, 5]], np.float32)
    program = agree("TopK", [x, np.array([3])], opset=11, constant=(1,), outputs=2)
    (_, places) = next(iter(program)).reference(x)
    assert places.tolist() == [[1, 2, 4]]


@pytest.mark.opencl
def test_a_number_that_the_network_computes_is_read(device, rng):
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["most"], keepdims=1),
        helper.make_node("Cast", ["most"], ["wide"], to=INT),
        helper.make_node("Reshape", ["wide", "one"], ["k"]),
        helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1),
    ]
    outputs = [("values", FLOAT, None), ("places", INT, None)]
    source = model(graph(nodes, [("x", FLOAT, [1, 20])], outputs, one=np.array([1])))
    made = clgraph.compile(source, device=device)
    for most in (1, 7, 20):
        x = rng.uniform(0, 1, (1, 20)).astype(np.float32)
        x[0, 5] = most
        agrees(made, source, {"x": x})


TYPES = pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.I64, DType.U8])
WAYS = pytest.mark.parametrize("largest", [True, False])
# Ties, k of all, of none, of one; lines that are not dense.
CASES = ((1, 4, (3, 37, 2)), (0, 5, (5,)), (-1, 1, (2, 1, 70)), (0, 2, (3, 4, 5)), (1, 0, (2, 9)), (1, 33, (2, 64)))


def _check(engine, name, largest, dtype):
    few = {0: lambda rng, shape: rng.integers(0, 9, shape)}
    for axis, k, shape in CASES:
        found = check_op(engine, TopK(axis, largest, k), shape, dtype=dtype, draw=few, only=[name] if k else None)
        assert not k or name in found


@pytest.mark.opencl
@TYPES
@WAYS
def test_gpus_rank_elements_with_ties(largest, dtype, gpu_engine):
    _check(gpu_engine, "top_k.gpu_ranks", largest, dtype)


@pytest.mark.opencl
@TYPES
@WAYS
def test_lines_keep_the_best_with_ties(largest, dtype, engine):
    _check(engine, "top_k.lines", largest, dtype)


@pytest.mark.opencl
@WAYS
def test_lines_of_every_element_type_are_kept_or_sorted(largest, engine):
    """A heap across runs of 512 elements, all digits sorted; lines that are apart; every element type."""
    every_bit = {
        DType.I32: {0: lambda rng, shape: rng.integers(-(1 << 31), 1 << 31, shape)},
        DType.U32: {0: lambda rng, shape: rng.integers(0, 1 << 32, shape)},
        DType.I64: {0: lambda rng, shape: rng.integers(-(1 << 63), (1 << 63) - 1, shape)},
        DType.U64: {0: lambda rng, shape: rng.integers(0, (1 << 64) - 1, shape, np.uint64)},
        DType.F64: {0: lambda rng, shape: rng.standard_normal(shape) * np.exp2(rng.integers(-1000, 1000, shape))},
    }
    some = {0: lambda rng, shape: rng.integers(0, 120, shape)}
    narrow = (DType.F32, DType.F16, DType.I16, DType.I8, DType.U16, DType.U8)
    for dtype, draw in (*every_bit.items(), *((d, some) for d in (DType.F64, DType.I64, DType.I32, *narrow))):
        for axis, k, shape in (*CASES[:4], (1, 20, (2, 1100)), (1, 300, (2, 600, 3))):
            check_op(
                engine,
                TopK(axis, largest, k),
                shape,
                dtype=dtype,
                draw=draw,
                families=("normal",),
                only=["top_k.elements"],
            )


# Ties of lines side by side: more than a vector and a tail of them, across images, the most that are kept.
BESIDE = ((0, 5, (8, 550)), (1, 16, (2, 20, 33)), (1, 3, (300, 3)), (-1, 2, (130, 64)), (1, 1, (2, 9, 17)))


@pytest.mark.opencl
@WAYS
def test_lines_side_by_side_are_kept_in_order(largest, engine):
    odd = [np.nan, np.inf, -np.inf, 1.0, 0.0, -0.0, 2.0, -3.0]
    wide = {0: lambda rng, shape: rng.integers(-3, 4, shape) << 40}
    special, few = {0: lambda rng, shape: rng.choice(odd, shape)}, {0: lambda rng, shape: rng.integers(0, 9, shape)}
    drawn = [(special, d) for d in (DType.F32, DType.F64)] + [(few, d) for d in (DType.F16, DType.I32, DType.U8)]
    for draw, dtype in [*drawn, (wide, DType.I64)]:
        for axis, k, shape in BESIDE:
            check = {"dtype": dtype, "draw": draw, "families": ("normal",), "only": ["top_k.elements"]}
            assert "top_k.elements" in check_op(engine, TopK(axis, largest, k), shape, **check)


@pytest.mark.opencl
@WAYS
def test_nan_and_both_zeros_are_sorted_by_their_digits(largest, engine):
    odd = [np.nan, -np.nan, np.inf, -np.inf, 1.0, 0.0, -0.0, 1e-42, -1e-42]
    for dtype in (DType.F32, DType.F64):
        draw = {0: lambda rng, shape, d=dtype: rng.choice(np.array(odd, d.numpy), shape)}
        for k in (30, 300):
            found = check_op(
                engine, TopK(0, largest, k), (300,), dtype=dtype, draw=draw, families=("normal",),
                only=["top_k.elements"],
            )  # fmt: skip
            assert "top_k.elements" in found


@pytest.mark.opencl
@WAYS
def test_nan_ranks_above_all_numbers(largest, engine, gpu_engine):
    odd = {0: lambda rng, shape: rng.choice([np.nan, np.inf, -np.inf, 1.0, 0.0], shape)}
    for k, each in ((9, engine), (4, engine), (9, gpu_engine), (4, gpu_engine)):
        check_op(each, TopK(0, largest, k), (9,), draw=odd, families=("normal",))


@pytest.mark.opencl
def test_a_long_line_of_different_numbers_is_sorted(engine, rng):
    x = rng.permutation(5000).astype(np.float32)
    (got, places) = run_raw(engine, TopKLines, _query(engine, x, 5000), [x])
    assert np.array_equal(got, np.arange(4999, -1, -1))
    assert np.array_equal(x[places], got)
    drawn = {0: lambda rng, shape: x}
    check_op(engine, TopK(0, True, 5000), (5000,), draw=drawn, families=("normal",), only=["top_k.elements"])


def _query(engine, x, k):
    primitive, layouts = TopK(0, True, k), (Layout.of(x),)
    return Query(primitive, layouts, primitive.infer(layouts), engine.info, 1)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_the_reference_chooses_the_best_of_many_as_sorting_does(largest, dtype, rng, monkeypatch):
    """Among them are equal ones around the last that is chosen, both zeros, and lines of one value."""
    x = rng.integers(0, 40, (3, 700, 3)).astype(dtype)
    x[0, :, 1], x[1, ::2, 2] = 7, x[1, ::2, 2] * dtype(0)
    if np.dtype(dtype).kind == "f":
        x[1, ::4, 2] = -0.0
    for k in (1, 5, 175):
        top = TopK(axis=1, largest=largest, k=k)
        values, places = top.reference(x)
        with monkeypatch.context() as patch:
            patch.setattr(top_k, "MANY", x.size + 1)
            sorted_values, sorted_places = top.reference(x)
        np.testing.assert_array_equal(places, sorted_places)
        assert values.tobytes() == sorted_values.tobytes()


def test_the_reference_sorts_where_elements_are_no_numbers(rng):
    x = rng.standard_normal((2, 4000)).astype(np.float32)
    x[1, [3, 50]] = np.nan
    values, places = TopK(k=2).reference(x)
    assert places[1].tolist() == [3, 50]
    assert np.isnan(values[1]).all()
