"""Masks that a model makes of lengths: how its prompts are run, and what is hidden."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.core.dtype import DType, largest
from clgraph.model.state.biases import hides_ahead
from tests.support import oracle
from tests.support.rounding import assert_both_round

pytestmark = pytest.mark.opencl

AND_A_SUM = """summed = ReduceSum <keepdims = 0> (x, axis)
        next = Add (sum, summed)"""


def test_masks_in_bfloat16_tell_what_is_hidden():
    mask = np.zeros((1, 1, 2, 5), DType.BF16.numpy)
    assert not hides_ahead(mask, 3)
    mask[..., 0, 4] = -largest(mask.dtype)
    assert hides_ahead(mask, 3, alone=True)


def test_one_token_sees_what_is_before_it_where_its_mask_hides_nothing():
    for mask, hidden in ((np.zeros((1, 1, 1, 4), np.float32), -np.inf), (np.ones((1, 4), np.bool_), False)):
        assert hides_ahead(mask, 3)
        assert hides_ahead(mask, 3, alone=True)
        assert not hides_ahead(mask, 2)
        mask[..., 1] = hidden
        assert hides_ahead(mask, 3)
        assert not hides_ahead(mask, 3, alone=True)


@pytest.mark.parametrize("carried", [False, True])
def test_masks_for_a_whole_prompt_or_for_one_token_run_prompts_at_once(carried, rng):
    """The first places of the mask hide what is ahead among the new tokens: behind others several have none.

    Where a value is carried besides, no rows are computed that are no tokens.
    """
    more = ("", "", "") if not carried else (", float[b,16] sum", ", float[b,16] next", AND_A_SUM)
    text = f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    at_once (float[b,s,16] x, int64[b,s] places, float[b,2,p,8] past_k, float[b,2,p,8] past_v{more[0]})
        => (float[b,s,16] y, float[b,2,t,8] present_k, float[b,2,t,8] present_v{more[1]})
        <int64 zero = {{0}}, int64 one = {{1}}, int64[1] axis = {{1}}, int64[2] column = {{-1, 1}},
         int64[2] ones = {{1, 1}}, int64[1] first = {{0}}, int64[1] third = {{2}},
         float none = {{0}}, float low = {{-3e38}}> {{
        sizes = Shape (places)
        count = Gather (sizes, axis)
        single = Squeeze (count)
        row = Range (zero, single, one)
        column_of = Reshape (row, column)
        ahead = Greater (row, column_of)
        square = Where (ahead, low, none)
        shape = Shape (past_k)
        past = Gather (shape, third)
        total = Add (past, count)
        wide = Concat <axis = 0> (ones, count, total)
        mask = Expand (square, wide)
        y, present_k, present_v = com.microsoft.MultiHeadAttention <num_heads = 2> (x, x, x, , , mask, past_k, past_v)
        {more[2]}
    }}"""
    made = onnx.parser.parse_model(text)
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    session = model.session({"sum": "next"} if carried else None)
    feeds = {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}
    feeds |= {"sum": np.zeros((1, 16), np.float32)} if carried else {}
    empty = feeds
    for prompt in (5, 9):
        feeds = empty
        session.reset()
        for tokens in (prompt, 1, 1):
            new = {"x": rng.standard_normal((1, tokens, 16)).astype(np.float32), "places": np.zeros((1, tokens), int)}
            y, *presents = ort.run(None, new | feeds)
            assert_both_round(made, new | feeds, {"y": session.run(new)["y"]}, {"y": y})
            feeds = dict(zip(feeds, presents, strict=True))
        if carried:
            np.testing.assert_array_equal(session.run(new, outputs=["next"])["next"], feeds["sum"] + new["x"][:, 0])
    assert len(model._model_state.programs.made) == (3 if carried else 2)


def test_a_mask_that_places_are_counted_by_may_have_a_size_of_its_own(rng):
    """As torch.export names it; one with more places than tokens is cut by the model, which runs without caches."""
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    masked (float[b,s,16] x, int64[b,n] mask, float[b,2,p,8] past_k, float[b,2,p,8] past_v)
        => (float[b,2,s,8] y, float[b,2,t,8] keys, float[b,2,t,8] values)
        <int64 axis = {1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1}, int64[2] middle = {1, 2},
         int64[4] apart = {0, 0, 2, 8}, float low = {-1e9}, float unit = {1}> {
        counted = CumSum (mask, axis)
        past = Shape <start = 2, end = 3> (past_k)
        new = Shape <start = 1, end = 2> (x)
        total = Add (past, new)
        own = Slice (counted, past, total, one)
        places = Cast <to = 1> (own)
        column = Unsqueeze (places, last)
        placed = Add (x, column)
        heads = Reshape (placed, apart)
        q = Transpose <perm = [0, 2, 1, 3]> (heads)
        keys = Concat <axis = 2> (past_k, q)
        values = Concat <axis = -2> (past_v, q)
        kt = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (q, kt)
        seen = Slice (mask, zero, total, one)
        floats = Cast <to = 1> (seen)
        hidden = Sub (unit, floats)
        lows = Mul (hidden, low)
        bias = Unsqueeze (lows, middle)
        scores = Add (products, bias)
        shares = Softmax <axis = -1> (scores)
        y = MatMul (shares, values)
    }""")
    model = clgraph.compile(made)
    ort = oracle.session(made, threads=1)
    assert len(model.state) == 2
    for more in (0, 4):
        past, total = {n: np.zeros((2, 2, 0, 8), np.float32) for n in ("past_k", "past_v")}, 0
        for tokens in (5, 1, 1):
            total += tokens
            mask = np.ones((2, total + more), np.int64)
            mask[0, :2] = 0
            feeds = {"x": 0.1 * rng.standard_normal((2, tokens, 16)).astype(np.float32), "mask": mask, **past}
            got, want = model.run(feeds), ort.run(None, feeds)
            for a, b in zip(got.values(), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            past = {"past_k": got["keys"], "past_v": got["values"]}
        assert bool(model.compiled) == bool(more)
