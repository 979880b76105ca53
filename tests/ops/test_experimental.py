"""Operators that were experiments of ONNX's first versions agree with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import ModelError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node

X = np.random.default_rng(0).standard_normal((2, 3, 6, 7)).astype(np.float32)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Affine", {}),
        ("Affine", {"alpha": 0.5, "beta": 2.0}),
        ("Crop", {"border": [1, 0, 2, 3]}),
        ("Crop", {"border": [0, 2, 0, 0]}),
        ("Crop", {"border": [1, 2, 0, 0], "scale": [3, 4]}),
        ("ImageScaler", {"bias": [0.5, -1.0, 2.0]}),
        ("ImageScaler", {"bias": [0.5, -1.0, 2.0], "scale": 0.25}),
        ("MeanVarianceNormalization", {}),
        ("MeanVarianceNormalization", {"across_channels": 1}),
        ("MeanVarianceNormalization", {"normalize_variance": 0}),
        ("ParametricSoftplus", {"alpha": 0.5, "beta": 2.0}),
        ("Scale", {"scale": 0.25}),
        ("ScaledTanh", {"alpha": 0.5, "beta": 2.0}),
        ("ThresholdedRelu", {}),
        ("ThresholdedRelu", {"alpha": 0.2}),
    ],
)
def test_what_early_exporters_wrote_agrees_with_onnxruntime(op_type, attributes):
    agree(op_type, [X], opset=7, **attributes)


def test_a_slice_whose_bounds_are_computed_agrees_with_onnxruntime():
    starts, ends, axes = np.array([1, -3]), np.array([2, 100]), np.array([0, 3])
    agree("DynamicSlice", [X, starts, ends, axes], opset=7, constant=(1, 2, 3))
    agree("DynamicSlice", [X, starts, ends], opset=9, constant=(1, 2))


@pytest.mark.parametrize(
    ("op_type", "attributes", "match"),
    [
        ("ImageScaler", {}, "lacks attribute 'bias'"),
        ("ScaledTanh", {"alpha": 1.0}, "lacks attribute 'beta'"),
        ("Crop", {"border": [1, 2, 3]}, r"border is \[1, 2, 3\], four sizes"),
        ("Crop", {"border": [1, 2, 3, 4], "scale": [1]}, r"scale \[1\], two"),
        ("Crop", {"boarder": [1, 2, 3, 4]}, "'boarder', which ONNX does not define"),
    ],
)
def test_what_lacks_its_parameters_is_refused_by_name(op_type, attributes, match):
    with pytest.raises(ModelError, match=match):
        load_onnx(one_node(op_type, [X], opset=7, **attributes)[0])
