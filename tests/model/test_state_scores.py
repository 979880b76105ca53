"""Attentions that a model spells out: what stands between the products and the softmax."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import clgraph

pytestmark = pytest.mark.opencl

_OF_ALL_HEADS = (
    """
        q{i}f = Reshape ({q}, flat)
        k{i}f = Reshape (keys{i}, flat)
        k{i}t = Transpose <perm = [0, 2, 1]> (k{i}f)
        products{i} = MatMul (q{i}f, k{i}t)
        scaled{i} = Mul (products{i}, half)
        steep{i} = Add (slopes{i}, scaled{i})
        heads{i} = Concat <axis = 0> (one, four, tokens{i}, rest)
        added{i} = Reshape (steep{i}, heads{i})""",
    """
        shares{i} = Softmax <axis = -1> (hidden{i})
        rows{i} = Concat <axis = 0> (four, tokens{i}, rest)
        shares{i}f = Reshape (shares{i}, rows{i})
        v{i}f = Reshape (values{i}, flat)
        y{i}f = MatMul (shares{i}f, v{i}f)
        y{i} = Reshape (y{i}f, back)""",
)
_OF_EACH_HEAD = (
    """
        k{i}t = Transpose <perm = [0, 1, 3, 2]> (keys{i})
        products{i} = MatMul ({q}, k{i}t)
        added{i} = Add (products{i}, slopes{i})""",
    """
        halves{i} = Mul (hidden{i}, half)
        floored{i} = Max (halves{i}, low)
        shares{i} = Softmax <axis = -1> (floored{i})
        y{i} = MatMul (shares{i}, values{i})""",
)


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("form", [_OF_ALL_HEADS, _OF_EACH_HEAD])
def test_scores_may_be_biased_masked_and_multiplied_in_any_order(form, hides, rng):
    """As BLOOM, MPT, GPT-Neo and CodeGen do, with a mask that each layer cuts to its own queries and keys."""
    body = ""
    for i, q in enumerate(("q", "y0")):
        mask = f"""
        keys{i} = Concat <axis = 2> (past_k{i}, k)
        values{i} = Concat <axis = -2> (past_v{i}, v)
        tokens{i} = Shape <start = 2, end = 3> ({q})
        all{i} = Shape <start = 2, end = 3> (keys{i})
        before{i} = Sub (all{i}, tokens{i})
        lines{i} = Slice (mask, before{i}, all{i}, zero)
        seen{i} = Slice (lines{i}, zero, all{i}, one)
        slopes{i} = Slice (alibi, zero, all{i}, two)"""
        where = f"hidden{i} = Where (seen{i}, {f'low, added{i}' if hides else f'added{i}, low'})"
        body += f"{mask}{form[0].format(i=i, q=q)}\n{where}{form[1].format(i=i, q=q)}"
    caches = ", ".join(f"float[b,4,p,8] past_{x}{i}" for i in range(2) for x in "kv")
    presents = ", ".join(f"float[b,4,t,8] {x}{i}" for i in range(2) for x in ("keys", "values"))
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    spelled (float[b,4,s,8] q, float[b,4,s,8] k, float[b,4,s,8] v, {caches}) => (float[b,4,s,8] y1, {presents})
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[1] two = {{2}}, int64[1] four = {{4}},
         int64[1] rest = {{-1}}, int64[3] flat = {{4, -1, 8}}, int64[4] back = {{1, 4, -1, 8}},
         float half = {{0.5}}, float low = {{-1e30}}> {{
        {body}
    }}""")
    alibi = np.arange(64, dtype=np.float32) * 0.1 * np.arange(4, dtype=np.float32)[:, None, None]
    seen = np.tri(64, 64, dtype=np.bool_)
    for name, array in (("alibi", alibi), ("mask", ~seen if hides else seen)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = clgraph.compile(made)
    ort = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {f"past_{x}{i}": np.zeros((1, 4, 0, 8), np.float32) for i in range(2) for x in "kv"}
    for tokens in (3, 1, 1):
        new = {n: rng.standard_normal((1, 4, tokens, 8)).astype(np.float32) for n in "qkv"}
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        feeds = {f"past_{x[0]}{i}": got[f"{x}{i}"] for i in range(2) for x in ("keys", "values")}
    assert len(model.state) == 4
    assert not model.compiled
