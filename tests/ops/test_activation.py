"""Unary functions."""

import numpy as np
import pytest

from tests.support.onnx_case import agree

SIMPLE = {
    "Relu": (7, 13, 14), "Sigmoid": (7, 13), "Tanh": (7, 13), "Exp": (7, 13), "Log": (7, 13), "Sqrt": (7, 13),
    "Reciprocal": (7, 13), "Neg": (7, 13), "Abs": (7, 13), "Erf": (9, 13), "Floor": (7, 13), "Ceil": (7, 13),
    "Round": (11, 22), "Softplus": (7, 22), "Softsign": (7, 22), "Sin": (7, 22), "Cos": (7, 22), "Sign": (9, 13),
    "Mish": (18, 22), "LeakyRelu": (7, 16), "Elu": (7, 22), "HardSigmoid": (7, 22), "HardSwish": (14, 22),
    "Gelu": (20,),
}  # fmt: skip
PARAMETERS = {
    "LeakyRelu": [{"alpha": 0.3}],
    "Elu": [{"alpha": 0.7}],
    "HardSigmoid": [{"alpha": 0.3, "beta": 0.4}],
    "Gelu": [{"approximate": "tanh"}],
}


@pytest.mark.parametrize(("op", "opset"), [(op, v) for op, versions in SIMPLE.items() for v in versions])
def test_functions_agree_with_onnxruntime(op, opset, rng):
    x = rng.standard_normal((3, 17)).astype(np.float32) * 3
    x = np.abs(x) + np.float32(0.01) if op in ("Log", "Sqrt", "Reciprocal") else x
    for more in ({}, *PARAMETERS.get(op, [])):
        agree(op, [x], opset=opset, rtol=2e-5, **more)


def test_not_agrees_with_onnxruntime():
    agree("Not", [np.array([True, False])], opset=13)
