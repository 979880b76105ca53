"""Operators of ONNX Runtime's that ONNX has taken over are read as ONNX's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.adopted import _ADOPTED
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.frontend.protobuf import defs
from tests.support.onnx_case import agree, one_node

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft", "outputs": 2}


@pytest.mark.parametrize("activation", ["none", "silu", "swish"])
def test_causal_convolutions_are_onnxruntimes(activation, rng):
    x, weights = rng.standard_normal((2, 6, 5)).astype(F), rng.standard_normal((6, 1, 4)).astype(F)
    bias, past = rng.standard_normal(6).astype(F), rng.standard_normal((2, 6, 3)).astype(F)
    more = {**MICROSOFT, "activation": activation, "constant": (1, 2)}
    agree("CausalConvWithState", [x, weights, bias, past], **more, ndim=1, dilation=1)
    agree("CausalConvWithState", [x, weights], **more)


def test_what_onnx_has_not_is_refused_by_name(rng):
    inputs = [np.zeros((2, 6, 5), F), np.zeros((6, 1, 4), F)]
    model, _ = one_node("CausalConvWithState", inputs, **MICROSOFT, dilation=2)
    with pytest.raises(UnsupportedError, match=r"'node' \(CausalConvWithState\): dilation=2 is not supported, only 1"):
        load_onnx(model)
    (problem,) = check_onnx(model).problems
    assert problem.what == "dilation=2 is not supported, only 1, as in ONNX"
    assert not check_onnx(one_node("CausalConvWithState", inputs, **MICROSOFT)[0]).problems
    model, _ = one_node("CausalConvWithState", inputs, **MICROSOFT, dilatation=2)
    with pytest.raises(ModelError, match="'dilatation', which ONNX does not define"):
        load_onnx(model)


def test_what_onnxruntime_has_beyond_onnx_is_known_with_its_defaults():
    theirs = {s.name: s for s in state.get_all_operator_schema() if s.domain == "com.microsoft"}
    for op_type, version in _ADOPTED.items():
        attributes = dict(theirs[op_type].attributes)
        for name in defs.get_schema(op_type, version.opset, "").attributes:
            del attributes[name]
        defaults = {
            name: helper.get_attribute_value(AttributeProto.FromString(a._default_value))
            for name, a in attributes.items()
        }
        assert dict(version.further) == defaults
