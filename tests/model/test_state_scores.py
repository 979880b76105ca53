"""Attentions that a model spells out: what stands between the products and the softmax."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from tests.support import oracle

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
_OF_ALL_HEADS_AND_BACK = (
    _OF_ALL_HEADS[0],
    """
        back{i} = Concat <axis = 0> (four, tokens{i}, rest)
        hidden{i}f = Reshape (hidden{i}, back{i})
        shares{i}f = Softmax <axis = 2> (hidden{i}f)
        shares{i} = Reshape (shares{i}f, heads{i})
        y{i} = MatMul (shares{i}, values{i})""",
)
_OF_EACH_HEAD = (
    """
        k{i}t = Transpose <perm = [0, 1, 3, 2]> (keys{i})
        products{i} = MatMul ({q}, k{i}t)
        small{i} = Mul (products{i}, half)
        within{i} = Tanh (small{i})
        capped{i} = Mul (within{i}, two_and_a_half)
        added{i} = Add (capped{i}, slopes{i})""",
    """
        halves{i} = Mul (hidden{i}, half)
        floored{i} = Max (halves{i}, low)
        shares{i} = Softmax <axis = -1> (floored{i})
        y{i} = MatMul (shares{i}, values{i})""",
)
_WITH_A_SINK = (
    _OF_EACH_HEAD[0],
    """
        column{i} = Concat <axis = 0> (one, four, tokens{i}, one)
        sinks{i} = Expand (sink, column{i})
        joined{i} = Concat <axis = -1> (hidden{i}, sinks{i})
        most{i} = ReduceMax <axes = [-1], keepdims = 1> (joined{i})
        below{i} = Sub (joined{i}, most{i})
        all_shares{i} = Softmax <axis = -1> (below{i})
        shares{i} = Slice (all_shares{i}, zero, rest, rest)
        y{i} = MatMul (shares{i}, values{i})""",
)


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("form", [_OF_ALL_HEADS, _OF_ALL_HEADS_AND_BACK, _OF_EACH_HEAD, _WITH_A_SINK])
def test_scores_may_be_biased_masked_and_multiplied_in_any_order(form, hides, rng):
    """As BLOOM, XGLM, MPT, CodeGen, Gemma 2 and GPT-OSS do, with a mask that each layer cuts to queries and keys."""
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
         float half = {{0.5}}, float two_and_a_half = {{2.5}}, float low = {{-1e30}}> {{
        {body}
    }}""")
    alibi = np.arange(64, dtype=np.float32) * 0.1 * np.arange(4, dtype=np.float32)[:, None, None]
    seen = np.tri(64, 64, dtype=np.bool_)
    sink = np.float32([-1, 0, 1, 3]).reshape(1, 4, 1, 1)
    for name, array in (("alibi", alibi), ("mask", ~seen if hides else seen), ("sink", sink)):
        made.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    feeds = {f"past_{x}{i}": np.zeros((1, 4, 0, 8), np.float32) for i in range(2) for x in "kv"}
    for tokens in (3, 1, 1):
        new = {n: rng.standard_normal((1, 4, tokens, 8)).astype(np.float32) for n in "qkv"}
        got, want = model.run(new | feeds), ort.run(None, new | feeds)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        feeds = {f"past_{x[0]}{i}": got[f"{x}{i}"] for i in range(2) for x in ("keys", "values")}
    assert len(model.state) == 4
    assert not model.compiled


def test_a_cache_beside_one_that_no_attention_reads_is_no_state(rng):
    """As where an exporter joins one of them in another way: the model runs as it is, and says why."""
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    odd (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,2,p,8] past_k, float[b,2,p,8] past_v,
         float[b,2,p,8] past_x)
        => (float[b,2,s,8] y, float[b,2,t,8] keys, float[b,2,t,8] values, float[b,2,t,8] x) {
        alone = Concat <axis = 2> (past_k)
        joined = Concat <axis = 2> (alone, k)
        keys = Cast <to = 1> (joined)
        values = Concat <axis = 2> (past_v, v)
        kt = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (q, kt)
        shares = Softmax <axis = -1> (products)
        y = MatMul (shares, values)
        x = Concat <axis = 2> (y, past_x)
    }""")
    model = clgraph.compile(made)
    new = {n: rng.standard_normal((1, 2, 3, 8)).astype(np.float32) for n in "qkv"}
    past = {f"past_{n}": rng.standard_normal((1, 2, 4, 8)).astype(np.float32) for n in "kvx"}
    ort = oracle.session(made, threads=1)
    for a, b in zip(model.run(new | past).values(), ort.run(None, new | past), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    with pytest.raises(UnsupportedError, match="'past_x' is as long as the pasts, and is no cache"):
        model.session()


def test_a_mask_that_is_asked_how_many_texts_there_are_still_tells_lengths_alone(rng):
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    masked (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v, float[b,n] mask, float[b,2,p,8] past_k,
            float[b,2,p,8] past_v)
        => (float[b,s,16] y, float[b,2,t,8] keys, float[b,2,t,8] values)
        <int64[2] middle = {1, 2}, int64[2] rest = {-1, 16}> {
        keys = Concat <axis = 2> (past_k, k)
        values = Concat <axis = -2> (past_v, v)
        kt = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (q, kt)
        bias = Unsqueeze (mask, middle)
        scores = Add (products, bias)
        shares = Softmax <axis = -1> (scores)
        mixed = MatMul (shares, values)
        rows = Transpose <perm = [0, 2, 1, 3]> (mixed)
        texts = Shape <start = 0, end = 1> (mask)
        shape = Concat <axis = 0> (texts, rest)
        y = Reshape (rows, shape)
    }""")
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    new = {n: rng.standard_normal((2, 2, 3, 8)).astype(np.float32) for n in "qkv"}
    new |= {f"past_{n}": rng.standard_normal((2, 2, 4, 8)).astype(np.float32) for n in "kv"}
    new["mask"] = rng.standard_normal((2, 7)).astype(np.float32)
    for a, b in zip(model.run(new).values(), ort.run(None, new), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    assert len(model.state) == 2
