"""Presents that a model cuts to the latest tokens: a cache as long as nothing has been cut."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.graph.primitive import Array
from tests.support import oracle

pytestmark = pytest.mark.opencl

WINDOW = 12


def sliding(window: str = f"{{-{WINDOW}}}", end: str = "{9223372036854775807}") -> onnx.ModelProto:
    """Return a decoder's layer as Transformers exports it: names of sizes know nothing of each other."""
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    sliding (float[b,s,16] x, int64[m,n] mask, float[b,2,p,8] past_k, float[b,2,q,8] past_v)
        => (float[b,2,s,8] y, float[b,2,t,8] present_k, float[b,2,u,8] present_v)
        <int64[1] one = {{1}}, int64[1] last = {{-1}}, int64[1] tokens = {{2}}, int64[2] middle = {{1, 2}},
         int64[1] window = {window}, int64[1] end = {end},
         int64[4] apart = {{0, 0, 2, 8}}, float low = {{-1e9}}, float unit = {{1}}> {{
        past = Shape <start = 2, end = 3> (past_k)
        new = Shape <start = 1, end = 2> (x)
        total = Add (past, new)
        all = Shape <start = 1, end = 2> (mask)
        before = Sub (all, new)
        places = Cast <to = 1> (before)
        placed = Add (x, places)
        heads = Reshape (placed, apart)
        q0 = Transpose <perm = [0, 2, 1, 3]> (heads)
        keys = Concat <axis = 2> (past_k, q0)
        values = Concat <axis = -2> (past_v, q0)
        present_k = Slice (keys, window, end, tokens, one)
        present_v = Slice (values, window, end, tokens, one)
        kt = Transpose <perm = [0, 1, 3, 2]> (keys)
        products = MatMul (q0, kt)
        begin = Sub (all, total)
        seen = Slice (mask, begin, all, one)
        floats = Cast <to = 1> (seen)
        hidden = Sub (unit, floats)
        lows = Mul (hidden, low)
        bias = Unsqueeze (lows, middle)
        scores = Add (products, bias)
        shares = Softmax <axis = -1> (scores)
        y = MatMul (shares, values)
    }}""")


def empty(texts: int) -> dict[str, Array]:
    return {name: np.zeros((texts, 2, 0, 8), np.float32) for name in ("past_k", "past_v")}


def behind(results: Mapping[str, Array]) -> dict[str, Array]:
    return {"past_k": results["present_k"], "past_v": results["present_v"]}


def test_presents_are_caches_until_they_are_cut(rng):
    """No program is compiled for a length up to the window; what is behind it is computed without caches."""
    made = sliding()
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    for texts in (1, 2):
        past, total = empty(texts), 0
        model_programs = len(model.compiled)
        for tokens in (5, 1, 1, 4, 1, 1, 1, 1):
            total += tokens
            mask = np.ones((texts, total), np.int64)
            mask[0, :2] = 0
            feeds = {"x": 0.1 * rng.standard_normal((texts, tokens, 16)).astype(np.float32), "mask": mask, **past}
            got, want = model.run(feeds), ort.run(None, feeds)
            for a, b in zip(got.values(), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            assert got["present_k"].shape[2] == min(total, WINDOW)
            assert (len(model.compiled) == model_programs) == (total <= WINDOW)
            past = behind(got)


def test_masks_and_pasts_of_other_sizes_are_computed_without_caches(rng):
    """A mask of one text that is used for two, and one of more places than there are tokens."""
    made = sliding()
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    x = 0.1 * rng.standard_normal((2, 2, 16)).astype(np.float32)
    pasts = {name: rng.standard_normal((2, 2, 3, 8)).astype(np.float32) for name in ("past_k", "past_v")}
    for count, shape in enumerate(((1, 5), (2, 7)), 1):
        mask = np.ones(shape, np.int64)
        mask[0, 3] = 0
        feeds = {"x": x, "mask": mask, **pasts}
        for a, b in zip(model.run(feeds).values(), ort.run(None, feeds), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        assert len(model.compiled) == count


def test_sessions_have_no_caches_that_are_cut():
    model = clgraph.compile(sliding())
    assert model.state == ()
    with pytest.raises(UnsupportedError, match=f"returns the latest {WINDOW} tokens"):
        model.session()


@pytest.mark.parametrize(("window", "end"), [("{1}", "{9223372036854775807}"), (f"{{-{WINDOW}}}", "{-1}")])
def test_other_parts_of_what_is_joined_are_no_caches(window, end):
    assert clgraph.compile(sliding(window, end))._model_state.parts is None
