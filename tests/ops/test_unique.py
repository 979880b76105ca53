"""Each element once, against ONNX Runtime, with as many of the results as are read."""

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.ops.unique import Unique
from tests.support.graphs import FLOAT, INT, graph, model
from tests.support.oracle import expected

NAMES = ["found", "first", "which", "count"]


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 1])
def test_any_number_of_results_are_onnxruntimes(axis, ordered, rng):
    x = rng.integers(0, 3, (2, 9)).astype(np.float32)
    more = {} if axis is None else {"axis": axis}
    for wanted in range(1, 5):
        node = helper.make_node("Unique", ["x"], NAMES[:wanted], sorted=ordered, **more)
        outputs = [(name, FLOAT if name == "found" else INT, None) for name in NAMES[:wanted]]
        source = model(graph([node], [("x", FLOAT, x.shape)], outputs))
        got = clgraph.compile(source, device="host").run({"x": x})
        for name, want in expected(source, {"x": x}).items():
            np.testing.assert_array_equal(got[name], want, name)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64, np.uint64], ids=str)
def test_slices_of_integers_come_in_the_order_of_their_elements(dtype, rng):
    # Of the whole range, and near its ends: rows that are one number of 64 bits, and rows that are not.
    ends = (0, 1) if dtype == np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for low, high in (ends, (ends[0], ends[0] + 1), (ends[1] - 1, ends[1])):
        x = rng.integers(low, high, (2, 30, 2), np.uint8 if dtype == np.bool_ else dtype, endpoint=True).astype(dtype)
        x[:, 7:15] = x[:, 3:11]
        want = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=1)
        for got, expect in zip(Unique(1).reference(x), want, strict=True):
            np.testing.assert_array_equal(got, expect.reshape(got.shape))
        np.testing.assert_array_equal(Unique(1, wanted=1).reference(x)[0], want[0])


@pytest.mark.parametrize("ordered", [True, False])
def test_slices_that_are_small_numbers_come_as_sorted(ordered, rng, monkeypatch):
    x = rng.integers(-2, 3, (500, 3))
    with monkeypatch.context() as patched:
        patched.setattr(np, "unique", None)
        counted = Unique(0, ordered).reference(x)
    monkeypatch.setattr("clgraph.ops.unique._DENSE", 0)
    for got, want in zip(counted, Unique(0, ordered).reference(x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64], ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("ordered", [True, False])
def test_few_integers_are_compared_one_by_one_and_come_as_of_many(ordered, axis, dtype, rng, monkeypatch):
    for shape in ((3, 5, 2), (7, 2), (2, 9)):
        x = rng.integers(0, 2, shape).astype(dtype)
        few = Unique(axis, ordered).reference(x)
        with monkeypatch.context() as patched:
            patched.setattr(np, "unique", None)
            assert len(Unique(axis, ordered, 2).reference(x)) == 2
        with monkeypatch.context() as patched:
            patched.setattr("clgraph.ops.unique._FEW", 0)
            for got, want in zip(few, Unique(axis, ordered).reference(x), strict=True):
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
