"""Presents that a model cuts to the latest tokens: those of a cache that has all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.graph.primitive import Array
from tests.support import oracle

pytestmark = pytest.mark.opencl

WINDOW = 12


SEEN = """
        floats = Cast <to = 1> (seen)
        hidden = Sub (unit, floats)
        lows = Mul (hidden, low)
        bias = Unsqueeze (lows, middle)
        scores = Add (products, bias)
"""
"""Every new token sees what the mask shows."""

NEAR = """
        all_tokens = Squeeze (all, zero)
        first_key = Squeeze (begin, zero)
        first_row = Squeeze (before, zero)
        keys_at = Range (first_key, all_tokens, step)
        own = Range (first_row, all_tokens, step)
        rows = Unsqueeze (own, one)
        distance = Sub (rows, keys_at)
        behind = GreaterOrEqual (distance, start)
        near = LessOrEqual (distance, most)
        both = And (behind, near)
        bools = Cast <to = 9> (seen)
        texts = Unsqueeze (bools, middle)
        shown = And (both, texts)
        scores = Where (shown, products, low)
"""
"""A token sees those up to itself that are in its window, and that the mask shows."""


def sliding(
    window: str = f"{{-{WINDOW}}}",
    end: str = "{9223372036854775807}",
    scores: str = SEEN,
    places: str = "places",
    softmax: str = "scores",
) -> onnx.ModelProto:
    """Return a decoder's layer as Transformers exports it: names of sizes know nothing of each other."""
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
    sliding (float[b,s,16] x, int64[m,n] mask, float[b,2,p,8] past_k, float[b,2,q,8] past_v)
        => (float[b,2,s,8] y, float[b,2,t,8] present_k, float[b,2,u,8] present_v)
        <int64[1] one = {{1}}, int64[1] last = {{-1}}, int64[1] tokens = {{2}}, int64[2] middle = {{1, 2}},
         int64[1] window = {window}, int64[1] end = {end},
         int64[4] apart = {{0, 0, 2, 8}}, float low = {{-3e38}}, float unit = {{1}},
         int64[1] zero = {{0}}, int64 start = {{0}}, int64 step = {{1}}, int64 most = {{{WINDOW}}}> {{
        past = Shape <start = 2, end = 3> (past_k)
        new = Shape <start = 1, end = 2> (x)
        total = Add (past, new)
        all = Shape <start = 1, end = 2> (mask)
        before = Sub (all, new)
        places = Cast <to = 1> (before)
        placed = Add (x, {places})
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
        {scores}
        shares = Softmax <axis = -1> ({softmax})
        y = MatMul (shares, values)
    }}""")


def empty(texts: int) -> dict[str, Array]:
    return {name: np.zeros((texts, 2, 0, 8), np.float32) for name in ("past_k", "past_v")}


def behind(results: Mapping[str, Array]) -> dict[str, Array]:
    return {"past_k": results["present_k"], "past_v": results["present_v"]}


def compared(made: onnx.ModelProto, counts: Sequence[int], rng, texts: int = 1, copies: bool = False) -> list[int]:
    """Compare runs of these numbers of new tokens, and return how many programs there are after each.

    Args:
        copies: What is fed back are other arrays, of the texts in another order.
    """
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    past, total, programs = empty(texts), 0, []
    for tokens in counts:
        total += tokens
        mask = np.ones((texts, total), np.int64)
        feeds = {"x": 0.1 * rng.standard_normal((texts, tokens, 16)).astype(np.float32), "mask": mask, **past}
        got, want = model.run(feeds), ort.run(None, feeds)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        assert got["present_k"].shape[2] == min(total, WINDOW)
        past = {name: a[::-1].copy() if copies else a for name, a in behind(got).items()}
        programs.append(len(model._model_state.programs.made) + len(model.compiled))
    return programs


@pytest.mark.parametrize("texts", [1, 2])
def test_presents_that_are_cut_are_the_latest_tokens_of_caches(texts, rng):
    """No program is compiled for a length, neither up to the window nor behind it."""
    programs = compared(sliding(), (5, 1, 1, 4, 1, 1, 4, 1, 1), rng, texts)
    assert programs == [1, 2, 2, 2, 2, 2, 2, 3, 3]  # for 16 tokens and one, and for one where some are hidden


def test_other_arrays_are_copied_to_where_the_latest_tokens_stand(rng):
    compared(sliding(), (11, 1, 1, 3, 1), rng, texts=2, copies=True)


def test_prompts_beyond_the_window_are_computed_at_once_where_masks_do_not_hide_what_chunks_have_not_got(rng):
    assert compared(sliding(), (40, 1, 30), rng) == [1, 2, 3]


def test_what_memory_had_before_is_not_seen_in_front_of_the_latest_tokens(rng):
    """Of another text, whose numbers were none: what is hidden is multiplied by zero."""
    made = sliding()
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    model.run({"x": np.full((1, 11, 16), np.nan, np.float32), "mask": np.ones((1, 11), np.int64), **empty(1)})
    pasts = {name: rng.standard_normal((1, 2, WINDOW, 8)).astype(np.float32) for name in empty(1)}
    x = 0.1 * rng.standard_normal((1, 1, 16)).astype(np.float32)
    feeds = {"x": x, "mask": np.ones((1, WINDOW + 8), np.int64), **pasts}
    np.testing.assert_allclose(model.run(feeds)["y"], ort.run(None, feeds)[0], rtol=1e-4, atol=1e-5)


def test_models_that_are_exported_for_full_windows_alone_have_caches(rng):
    """Sizes of their masks are those behind the window, whatever the pasts have."""
    fixed = (
        SEEN
        + f"""
        window_size = Constant <value_ints = [{WINDOW}]> ()
        columns = Add (window_size, new)
        both = Concat <axis = 0> (new, columns)
        zeros = ConstantOfShape (both)
        all_scores = Add (scores, zeros)
"""
    )
    made = sliding(scores=fixed, softmax="all_scores")
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    past = {name: rng.standard_normal((1, 2, WINDOW, 8)).astype(np.float32) for name in empty(1)}
    total = 40
    for tokens in (1, 3, 1):
        total += tokens
        x = 0.1 * rng.standard_normal((1, tokens, 16)).astype(np.float32)
        feeds = {"x": x, "mask": np.ones((1, total), np.int64), **past}
        got, want = model.run(feeds), ort.run(None, feeds)
        for a, b in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        past = behind(got)
    assert not model.compiled
    assert len(model.state) == 2


def test_prompts_are_computed_at_once_where_masks_show_what_the_model_forgets(rng):
    seen = NEAR.replace("LessOrEqual (distance, most)", "GreaterOrEqual (distance, start)")
    assert compared(sliding(scores=seen, places="unit"), (40, 1, 30), rng) == [1, 2, 3]


def test_prompts_beyond_the_window_are_computed_in_chunks_where_masks_hide_it(rng):
    """That the window hides all but so many tokens, and those behind each, is seen in the mask of the whole prompt."""
    assert compared(sliding(scores=NEAR, places="unit"), (40, 1, 30), rng) == [2, 3, 3]


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


def test_sessions_keep_all_tokens(rng):
    made = sliding()
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    session, past = model.session(), empty(1)
    x = 0.1 * rng.standard_normal((1, 20, 16)).astype(np.float32)
    for at in range(20):
        if at == 15:
            other = session.fork()
        feeds = {"x": x[:, at : at + 1], "mask": np.ones((1, at + 1), np.int64), **past}
        want, *presents = ort.run(None, feeds)
        past = dict(zip(past, presents, strict=True))
        np.testing.assert_allclose(session.run(x=feeds["x"])["y"], want, rtol=1e-4, atol=1e-5)
    other.run(x=x[:, :3])
    other.truncate(15)
    for at in range(15, 20):
        last = other.run(x=x[:, at : at + 1])["y"]
    np.testing.assert_allclose(last, want, rtol=1e-4, atol=1e-5)


def test_attentions_without_a_mask_have_caches_until_they_are_cut(rng):
    """Nothing would hide from them what the model has forgotten."""
    made = sliding(scores="scores = Identity (products)", places="unit")
    programs = compared(made, (5, 1, 4, 1, 1, 1, 1), rng)
    assert programs[4:] == [programs[3] + n for n in (0, 1, 1)]  # 13 tokens are seen from then on
    model = clgraph.compile(made)
    assert model.state == ()
    with pytest.raises(UnsupportedError, match=f"returns the latest {WINDOW} tokens"):
        model.session()


@pytest.mark.parametrize(("window", "end"), [("{1}", "{9223372036854775807}"), (f"{{-{WINDOW}}}", "{-1}")])
def test_other_parts_of_what_is_joined_are_no_caches(window, end):
    assert clgraph.compile(sliding(window, end))._model_state.parts is None
