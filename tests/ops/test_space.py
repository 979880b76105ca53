"""DepthToSpace and SpaceToDepth."""

import numpy as np
import pytest

from tests.support.onnx_case import agree


@pytest.mark.parametrize("mode", [None, "DCR", "CRD"])
def test_depth_to_space_agrees_with_onnxruntime(mode, rng):
    more = {} if mode is None else {"mode": mode}
    x = rng.standard_normal((2, 12, 3, 2)).astype(np.float32)
    agree("DepthToSpace", [x], opset=13 if mode else 7, blocksize=2, **more)


def test_space_to_depth_agrees_with_onnxruntime(rng):
    agree("SpaceToDepth", [rng.standard_normal((2, 3, 4, 6)).astype(np.float32)], opset=13, blocksize=2)
