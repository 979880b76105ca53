"""Random calls of ONNX Runtime's operators: what it computes is computed alike, in float32 and in float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from clgraph.frontend.onnx_loader import load_onnx
from tests.support.drawing import Call, Draw
from tests.support.microsoft_cases import CALLS
from tests.support.onnx_case import one_node, onnxruntime_outputs, reference_outputs

REFUSES = {"Attention": 0.7, "MultiHeadAttention": 0.7, "FusedGemm": 0.3, "QGemm": 0.4, "QLinearAdd": 0.3}
REFUSES |= {"QLinearMul": 0.3, "FusedConv": 0.1}
"""Share of calls that ONNX Runtime's CPU may refuse; of the others none."""
INTEGERS = (
    "CDist",
    "D",
    "LinearAttentionGate",
    "MatMulInteger",
    "NGram",
    "NhwcMaxPool",
    "QGemm",
    "QLinear",
    "QuantizeLinear",
    "UnfoldTensor",
)
"""How operators begin that integers go into, or that have no float16."""


def outcomes(op_type: str, call: Call, dtype: Any = np.float32) -> tuple[list[Any], list[Any]] | None:
    """Return what is computed here and by ONNX Runtime, ``None`` where that refuses; floats are of *dtype*."""
    inputs = [None if x is None else x.astype(dtype) if x.dtype == np.float32 else x for x in call.inputs]
    while inputs[-1] is None:
        inputs.pop()
    constant = [at for at in call.constant if at < len(inputs) and inputs[at] is not None]
    attributes = {name: value for name, value in call.attributes.items() if name != "opset"}
    given = {"opset": 17, "domain": "com.microsoft", "outputs": call.outputs, "constant": constant}
    model, feeds = one_node(op_type, inputs, **given, **attributes)
    if "opset" in call.attributes:  # an attribute of QLinearSoftmax
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("opset", call.attributes["opset"]))
    try:
        theirs = onnxruntime_outputs(model, feeds)
    except Exception:  # of its extension module, whichever
        return None
    return reference_outputs(load_onnx(model).build(), feeds), theirs


def check(op_type: str, seeds: range, dtype: Any, bound: float) -> None:
    """Compare calls, with an error of *bound* by the largest result; integers are the same."""
    compared = 0
    for seed in seeds:
        call = CALLS[op_type](Draw(seed))
        if (made := outcomes(op_type, call, dtype)) is None:
            continue
        compared += 1
        for own, theirs in zip(*made, strict=True):
            assert (own.shape, own.dtype) == (theirs.shape, theirs.dtype), f"seed {seed}: {call}"
            largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=0)
            atol = 0 if own.dtype.kind in "iu" else bound * max(1.0, largest)
            wide = np.float64
            np.testing.assert_allclose(own.astype(wide), theirs.astype(wide), 0, atol, err_msg=f"seed {seed}: {call}")
    assert compared >= (1 - REFUSES.get(op_type, 0)) * len(seeds), f"ONNX Runtime refuses all but {compared}"


def bound_of(op_type: str) -> float:
    """Return the error, by the largest result, that another order of the same sums makes.

    The longest sums are of 80 products: 80 roundings of 6e-8, four times that where they cancel. A state of the
    quantised LSTM that is beside the middle of two steps may be rounded to either, which none of the first calls has:
    at most 4 elements of a range of 2, by weights of at most 1.28, move gates, whose slopes are at most 1, by a step
    each, in each of at most 4 steps.
    """
    return 4 * 4 * 2 / 255 * 1.28 if op_type == "DynamicQuantizeLSTM" else 2e-5


@pytest.mark.parametrize("op_type", CALLS)
def test_few_calls_are_onnxruntimes(op_type: str) -> None:
    check(op_type, range(12), np.float32, 2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("op_type", CALLS)
def test_many_calls_are_onnxruntimes(op_type: str) -> None:
    check(op_type, range(12, 300), np.float32, bound_of(op_type))


@pytest.mark.parametrize("op_type", [name for name in CALLS if not name.startswith(INTEGERS)])
def test_calls_in_float16_are_onnxruntimes(op_type: str) -> None:
    # Each of up to sixteen steps rounds to 11 bits here or there.
    check(op_type, range(6), np.float16, 16 * 2**-11)


def test_a_token_sees_those_up_to_itself_and_the_last_one_all() -> None:
    eye = np.eye(8, dtype=np.float32)
    for tokens, keys in ((2, 4), (1, 3), (4, 2)):
        q, k = np.zeros((1, tokens, 8), np.float32), np.zeros((1, keys, 8), np.float32)
        call = Call((q, k, eye[None, :keys]), {"num_heads": 1, "unidirectional": 1})
        made = outcomes("MultiHeadAttention", call)
        assert made is not None
        np.testing.assert_allclose(made[0][0], made[1][0], atol=1e-6)
