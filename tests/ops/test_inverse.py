"""Inverses of matrices, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ShapeError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node, reference_outputs

MICROSOFT = {"opset": 17, "domain": "com.microsoft"}


def test_matrices_are_inverted_as_onnxruntime_does(rng):
    # Of a condition below 4: each of 4 eliminations rounds by 2^-24 of the largest entry.
    matrices = np.eye(4) * 4 + rng.uniform(-0.5, 0.5, (2, 3, 4, 4))
    agree("Inverse", [matrices.astype(np.float32)], **MICROSOFT)


def test_one_that_has_none_becomes_nan_and_leaves_the_others_alone():
    matrices = np.stack([np.ones((2, 2)), np.eye(2) * 2]).astype(np.float32)
    model, feeds = one_node("Inverse", [matrices], **MICROSOFT)
    (y,) = reference_outputs(load_onnx(model).build(), feeds)
    assert np.isnan(y[0]).all()
    np.testing.assert_array_equal(y[1], np.eye(2) / 2)


def test_what_is_not_square_is_refused():
    model, _ = one_node("Inverse", [np.zeros((2, 3), np.float32)], **MICROSOFT)
    with pytest.raises(ShapeError, match="not a tensor of square matrices"):
        load_onnx(model).build()
