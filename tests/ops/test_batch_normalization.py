"""Batch normalisation."""

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from tests.support.onnx_case import agree


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3), (1, 3, 7)])
def test_import_and_reference_agree_with_onnxruntime(shape, opset, rng):
    statistics = [rng.standard_normal(3).astype(np.float32) for _ in range(3)] + [
        rng.random(3).astype(np.float32) + np.float32(0.1)
    ]
    agree("BatchNormalization", [rng.standard_normal(shape).astype(np.float32), *statistics], opset=opset, epsilon=1e-3)


def test_training_is_refused(rng):
    arrays = [rng.random((2, 3, 4)).astype(np.float32), *(rng.random(3).astype(np.float32) for _ in range(4))]
    with pytest.raises(UnsupportedError, match="training_mode"):
        agree("BatchNormalization", arrays, opset=15, training_mode=1)
