"""Dropout in every version: what trains, what is kept, and of what type the mask is."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import ShapeError
from tests.support.onnx_case import agree, one_node

X = np.arange(1, 601, dtype=np.float32).reshape(2, 300)


def run(inputs, *, opset, times=1, **more):
    model, feeds = one_node("Dropout", inputs, opset=opset, outputs=2, **more)
    compiled = clgraph.compile(model, "host")
    return [tuple(compiled.run(feeds).values()) for _ in range(times)]


@pytest.mark.parametrize("opset", [7, 10, 12, 13, 22])
def test_what_does_not_train_is_kept_as_onnxruntime_has_it(opset):
    agree("Dropout", [X], opset=opset, outputs=2 if opset >= 12 else 1)
    if opset >= 12:
        agree("Dropout", [X, np.float32(0.3), np.array(False)], opset=opset, outputs=2, constant=(2,))


@pytest.mark.parametrize("opset", [1, 6])
def test_before_version_7_a_node_trains_unless_it_is_a_test(opset):
    for x in (X, X.astype(np.float16)):
        ((y, mask),) = run([x], opset=opset, is_test=1, ratio=0.25)
        np.testing.assert_array_equal(y, x)
        np.testing.assert_array_equal(mask, np.ones_like(x))
        (y, mask), (_, other) = run([x], opset=opset, ratio=0.25, times=2)
        assert mask.dtype == x.dtype
        assert 0.5 < mask.mean(dtype=np.float64) < 0.95
        assert not np.array_equal(mask, other)
        np.testing.assert_allclose(y, np.where(mask, x / x.dtype.type(0.75), 0), rtol=1e-3 if x.itemsize == 2 else 3e-7)


@pytest.mark.parametrize("constant", [(), (1,), (2,), (1, 2)])
def test_ratio_and_mode_may_be_known_or_not(constant):
    for ratio, trains in ((0.25, True), (0.0, True), (1.0, True), (0.25, False)):
        inputs = [X, np.array(ratio, np.float64), np.array(trains)]
        (y, mask), (_, again) = run(inputs, opset=22, constant=constant, seed=7, times=2)
        np.testing.assert_array_equal(mask, again)
        assert mask.dtype == bool
        kept = 1 - ratio if trains else 1.0
        assert abs(mask.mean() - kept) < 0.1
        assert kept not in (0.0, 1.0) or mask.mean() == kept
        wanted = np.where(mask, X / np.float32(max(kept, 0.5)), 0)
        np.testing.assert_allclose(y, wanted, rtol=3e-7)


def test_without_a_ratio_half_is_dropped():
    ((_, mask),) = run([X, None, np.array([True])], opset=13, seed=7)
    assert abs(mask.mean() - 0.5) < 0.1


def test_a_ratio_is_one_value():
    with pytest.raises(ShapeError, match=r"are one value each, not \[2\]"):
        run([X, np.zeros(2, np.float32), np.array(True)], opset=13)
