"""CDist, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.onnx_case import agree, one_node

MICROSOFT = {"opset": 17, "domain": "com.microsoft"}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_distances_are_onnxruntimes(kind, rng):
    a, b = (rng.uniform(-2, 2, shape).astype(kind) for shape in ((5, 7), (4, 7)))
    for more in ({}, {"metric": "sqeuclidean"}, {"metric": "euclidean"}):
        agree("CDist", [a, b], **MICROSOFT, **more)


def test_another_metric_is_refused(rng):
    a = np.zeros((2, 3), np.float32)
    model, _ = one_node("CDist", [a, a], **MICROSOFT, metric="cosine")
    with pytest.raises(UnsupportedError, match="metric is sqeuclidean or euclidean, not 'cosine'"):
        load_onnx(model)
