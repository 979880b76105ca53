"""Operators of ONNX Runtime's that ONNX has taken over are read as ONNX's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

import clgraph
from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.adopted import _ADOPTED
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.frontend.protobuf import defs
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

F = np.float32
MICROSOFT = {"opset": 17, "domain": "com.microsoft", "outputs": 2}


def magnitudes(query, key, value, state, decay, beta, rule, scale):
    """Return the results and the states of a linear attention whose terms all count as positive."""
    q, k, v = (np.abs(a).reshape(2, 3, 2, 4).swapaxes(1, 2) for a in (query, key, value))
    state, results = np.abs(state), []
    for t in range(3):
        if decay is not None:
            state = state * np.exp(decay[:, t, :, None, None])
        read = k[:, :, t, None] @ state if "delta" in rule else 0.0
        by = 1.0 if beta is None else beta[:, t, :, None, None]
        state = state + k[:, :, t, :, None] @ ((v[:, :, t, None] + read) * by)
        results.append(scale * q[:, :, t, None] @ state)
    return np.concatenate(results, 2).swapaxes(1, 2).reshape(2, 3, 8), state


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention_is_onnxruntimes(rule, rng):
    query, key, value = (rng.standard_normal((2, 3, 8)).astype(F) / 4 for _ in range(3))
    past = rng.standard_normal((2, 2, 4, 4)).astype(F)
    decay = -abs(rng.standard_normal((2, 3, 2)).astype(F)) if "gated" in rule else None
    beta = rng.uniform(0, 1, (2, 3, 2)).astype(F) if "delta" in rule else None
    inputs = given = [query, key, value, past, decay, beta]
    while inputs[-1] is None:
        inputs = inputs[:-1]
    sizes = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": rule}
    for more in ({}, {"scale": 0.25, "state_window": 0}):
        model, feeds = one_node("LinearAttention", inputs, **MICROSOFT, **sizes, **more)
        found = clgraph.compile(model, "host").run(feeds)
        # Each step rounds a state 13 times: exp with 4 ulps, 2 products, sums of 4, a difference and a sum; a result
        # adds a sum of 4 products and the scale. Twice that for both sides.
        for mine, theirs, size, roundings in zip(
            found.values(),
            onnxruntime_outputs(model, feeds),
            magnitudes(*given, rule, more.get("scale", 0.5)),
            (3 * 13 + 5, 3 * 13),
            strict=True,
        ):
            assert (np.abs(mine - theirs) <= 2 * roundings * 2**-24 * size).all()


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
    with pytest.raises(UnsupportedError, match=r"'node' \(CausalConvWithState\): dilation=2 is not there, only 1"):
        load_onnx(model)
    (problem,) = check_onnx(model).problems
    assert problem.what == "dilation=2 is not there, only 1, as ONNX has it"
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
