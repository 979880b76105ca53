"""Caches that layers read as tensors of all tokens: one program for every length, places behind the newest hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.graph.primitive import Array
from clgraph.model.state.caches import LEAST_PLACES
from clgraph.model.state.wide import Wide
from tests.support import oracle

pytestmark = pytest.mark.opencl

MASK = """
        past = Shape <start = 2, end = 3> (past_c)
        new = Shape <start = 1, end = 2> (x)
        total = Add (past, new)
        first = Squeeze (past, zero)
        end = Squeeze (total, zero)
        places = Range (first, end, step)
        keys = Range (start, end, step)
        rows = Unsqueeze (places, one)
        seen = LessOrEqual (keys, rows)
        bools = Cast <to = 9> (mask)
        texts = Unsqueeze (bools, middle)
        shown = And (seen, texts)
"""
"""Which tokens each of the new ones sees: those up to itself that the mask shows."""

HEAD = """
        heads = Reshape (x, apart)
        q = Transpose <perm = [0, 2, 1, 3]> (heads)
        scaled = Mul (x, half)
        latent = Unsqueeze (scaled, one)
"""
JOIN = "c = Concat <axis = 2> (past_c, latent)"

LATENT = """
        k = MatMul (c, up)
        grown = Mul (k, k)
        kt = Transpose <perm = [0, 1, 3, 2]> (k)
        products = MatMul (q, kt)
        scores = Where (shown, products, low)
        shares = Softmax <axis = -1> (scores)
        v = Add (grown, k)
        y = MatMul (shares, v)
"""
"""Keys and values are computed of a cache of latent vectors, a head's for all heads of queries."""

MIXED = """
        k0, v0 = Split <axis = 3, num_outputs = 2> (c)
        kt = Transpose <perm = [0, 1, 3, 2]> (k0)
        products = MatMul (q, kt)
        biased = Where (shown, products, low)
        means = ReduceMean <keepdims = 0> (v0, last)
        own = Unsqueeze (means, two)
        scores = Add (biased, own)
        one_share = Softmax <axis = -1> (scores)
        doubled = Add (biased, biased)
        other_share = Softmax <axis = -1> (doubled)
        less = Mul (other_share, half)
        shares = Sub (one_share, less)
        y = MatMul (shares, v0)
"""
"""Two softmaxes share a cache, and what is computed of its values is added to the scores of one."""


FILLED = LATENT.replace("(grown, k)", "(grown, filled)").replace(
    "v = ",
    """size = Shape (k)
        times = Constant <value_ints = [1, 1, 1, 64]> ()
        sizes = Mul (size, times)
        many = ConstantOfShape <value = float[1] {0.5}> (sizes)
        eight = Constant <value_ints = [8]> ()
        filled = Slice (many, zero, eight, last)
        v = """,
)
"""A number for each place is added, of as many as there are in what is computed of the cache."""

EXPANDED = LATENT.replace("(grown, k)", "(grown, wide)").replace(
    "v = ",
    """size = Shape (k)
        n = Gather <axis = 0> (size, rows_at)
        every = Range (start, n, step)
        column = Unsqueeze (every, one)
        row = Cast <to = 7> (up)
        flat = Reshape (row, last)
        grid = Add (column, flat)
        places_of = Shape <end = 1> (grid)
        depth = Shape <start = 1> (up)
        asked = Concat <axis = 0> (places_of, depth)
        rank = Shape (asked)
        units = ConstantOfShape <value = int64[1] {1}> (rank)
        minus = Neg (units)
        open = Equal (asked, minus)
        chosen = Where (open, units, asked)
        wide = Expand (k, chosen)
        v = """,
)
"""A size is asked for as ``torch.onnx.export`` traces an Expand: of what has places, where it is not -1."""


WEIGHTS = ", ".join(f"{(7 * i) % 11 / 10 - 0.5:.1f}" for i in range(128))


def decoder(body: str = LATENT, mask: str = MASK, join: str = JOIN) -> onnx.ModelProto:
    """Return a decoder's layer over one cache ``[batch, 1, tokens, 16]``; y is ``[batch, 2, tokens, 8]``."""
    return onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
    latent (float[b,s,16] x, int64[b,n] mask, float[b,1,p,16] past_c) => (float[b,2,s,8] y, float[b,1,t,16] c)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[2] middle = {{1, 2}}, int64[4] apart = {{0, 0, 2, 8}},
         int64 start = {{0}}, int64 step = {{1}}, float low = {{-1e9}}, float half = {{0.5}}, int64 rows_at = {{2}},
         int64[1] last = {{-1}},
         int64[1] two = {{2}}, float[16,8] up = {{{WEIGHTS}}}> {{
        {mask} {HEAD} {join} {body} }}""")


def compared(made: onnx.ModelProto, counts: Sequence[int], rng, texts: int = 1, hidden: int = 0) -> list[int]:
    """Compare runs of these numbers of new tokens, and return how many programs there are after each.

    Args:
        hidden: Tokens of the first text, at its beginning, that the mask hides. What is computed for them is not
            compared: it is a mean over whatever tokens a chunk has.
    """
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    past, total, programs = np.zeros((texts, 1, 0, 16), np.float32), 0, []
    for tokens in counts:
        total += tokens
        mask = np.ones((texts, total), np.int64)
        mask[0, :hidden] = 0
        feeds = {"x": rng.standard_normal((texts, tokens, 16)).astype(np.float32), "mask": mask, "past_c": past}
        got, want = model.run(feeds), ort.run(None, feeds)
        from_token = max(0, hidden - (total - tokens))
        for a, b in ((got["y"][:1, :, from_token:], want[0][:1, :, from_token:]), (got["y"][1:], want[0][1:])):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(got["c"], want[1])
        past = got["c"]
        programs.append(len(model._model_state.programs.made) + len(model.compiled))
    return programs


BODIES = {"latent": LATENT, "mixed": MIXED, "filled": FILLED, "expanded": EXPANDED}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_one_program_computes_a_token_behind_any_number(body, rng):
    programs = compared(decoder(body), (5, 1, 1, 1, 3, 1, 1), rng, texts=2, hidden=2)
    assert programs == [1, 2, 2, 2, 2, 2, 2]  # of a chunk of 16 and of one token


def test_prompts_are_computed_in_chunks(rng):
    assert compared(decoder(), (35, 1, 18, 1, 100), rng) == [2, 3, 3, 3, 4]  # of 32 and 16, of 1, of 128 tokens


def test_caches_grow(rng):
    """Another program computes as many places, also where the last tokens of the run before filled the others."""
    programs = compared(decoder(), (LEAST_PLACES - 2, 1, 1, 1, 1), rng)
    assert programs == [1, 2, 2, 3, 3]


def test_sessions_keep_them(rng):
    made = decoder(MIXED)
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    assert [(p.input, p.output, p.reader) for p in model.state] == [("past_c", "c", "concat 'Concat_16'")]
    session = model.session()
    assert session.padding == "left"
    x = rng.standard_normal((1, 24, 16)).astype(np.float32)
    none = np.zeros((1, 1, 0, 16), np.float32)
    (want, _) = ort.run(None, {"x": x, "mask": np.ones((1, 24), np.int64), "past_c": none})
    np.testing.assert_allclose(session.run(x=x[:, :20], last=True)["y"], want[:, :, 19:20], rtol=1e-4, atol=1e-4)
    other = session.fork()
    for at in range(20, 24):
        np.testing.assert_allclose(session.run(x=x[:, at : at + 1])["y"], want[:, :, at : at + 1], rtol=1e-4, atol=1e-4)
    other.truncate(8)
    np.testing.assert_allclose(other.run(x=x[:, 8:12])["y"], want[:, :, 8:12], rtol=1e-4, atol=1e-4)


def test_keys_that_are_changed_behind_their_past_are_no_cache():
    assert clgraph.compile(decoder(join="joined = Concat <axis = 2> (past_c, latent)\n c = Neg (joined)")).state == ()


def test_sessions_of_different_room_take_turns(rng):
    made = decoder()
    model, ort = clgraph.compile(made), oracle.session(made, threads=1)
    x = rng.standard_normal((1, LEAST_PLACES + 4, 16)).astype(np.float32)
    none = np.zeros((1, 1, 0, 16), np.float32)
    (want, _) = ort.run(None, {"x": x, "mask": np.ones(x.shape[:2], np.int64), "past_c": none})
    long, short = model.session(), model.session()
    long.run(x=x[:, :-3])
    for at in range(3):
        for session, place in ((short, at), (long, x.shape[1] - 3 + at)):
            y = session.run(x=x[:, place : place + 1])["y"]
            np.testing.assert_allclose(y, want[:, :, place : place + 1], rtol=1e-4, atol=1e-4)


def test_tokens_that_see_those_behind_them_are_computed_together(rng):
    ahead = MASK.replace("And (seen, texts)", "Expand (texts, first)").replace("first = Squeeze (past, zero)", "")
    ahead = ahead.replace("places = Range (first, end, step)", "first = Concat <axis = 0> (one, new, total)")
    ahead = ahead.replace("rows = Unsqueeze (places, one)", "").replace("seen = LessOrEqual (keys, rows)", "")
    assert compared(decoder(mask=ahead), (35, 1), rng) == [1, 2]


def feeds_of(rng) -> Mapping[str, Array]:
    x, past = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 16), (1, 1, 3, 16)))
    return {"x": x, "mask": np.ones((1, 5), np.int64), "past_c": past}


def test_what_is_one_number_all_over_is_a_constant_of_as_many_places(rng):
    """The host makes none of it at each token."""
    count = "depth = Shape <start = 1> (up)\n size = Concat <axis = 0> (one, one, total, depth)"
    made = decoder(FILLED.replace("size = Shape (k)", count))
    assert compared(made, (5, 1, 1), rng) == [1, 2, 2]
    assert clgraph.compile(made)._model_state.parts.wide.axes.keys() == {"shown"}


@pytest.mark.parametrize("places", [7, 12])
def test_values_have_what_stands_in_the_last_place_in_all_behind_it(places, rng):
    values = {"a": rng.standard_normal((2, 9, 3)), "b": rng.standard_normal((9, 9)), "c": rng.standard_normal(2)}
    made = Wide({"a": (1,), "b": (0, 1), "c": ()}, None, ()).widened(values, places)
    more = max(0, places - 9)
    np.testing.assert_array_equal(made["a"], np.pad(values["a"], [(0, 0), (0, more), (0, 0)], "edge")[:, :places])
    np.testing.assert_array_equal(made["b"], np.pad(values["b"], [(0, more)] * 2, "edge")[:places, :places])
    assert made["c"] is values["c"]


OTHERS = {
    "sum of ones": LATENT.replace("(grown, k)", "(grown, sums)")
    .replace("v = ", "n = Shape (k)\n ones = ConstantOfShape (n)\n sums = ReduceSum (ones, two)\n v = ")
    .replace("ConstantOfShape (n)", "ConstantOfShape <value = float[1] {1}> (n)"),
    "size": FILLED.replace("(grown, filled)", "(sized, filled)").replace(
        "v = ",
        "m = Shape <start = 2, end = 3> (filled)\n f = Cast <to = 1> (m)\n sized = Mul (grown, f)\n v = ",
    ),
    "mean": LATENT.replace("(grown, k)", "(grown, mean)").replace(
        "v = ", "mean = ReduceMean <keepdims = 1> (k, two)\n v = "
    ),
    "count": LATENT.replace("(grown, k)", "(grown, count)").replace(
        "v = ", "n = Shape <start = 2, end = 3> (k)\n count = Cast <to = 1> (n)\n v = "
    ),
    "sums": LATENT.replace("(grown, k)", "(grown, sums)").replace(
        "v = ", "axis = Identity (two)\n sums = CumSum (k, axis)\n v = "
    ),
    "turned": LATENT.replace("(shares, v)", "(shares, back)").replace(
        "y = ", "back = Slice (v, last, low_end, two, last)\n y = "
    ),
}


@pytest.mark.parametrize("body", OTHERS.values(), ids=OTHERS)
def test_what_depends_on_more_than_the_places_of_tokens_has_no_such_caches(body, rng):
    made = decoder(body)
    if "low_end" in body:
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-(1 << 40)]), "low_end"))
    model = clgraph.compile(made)
    assert model._model_state.parts is None
    feeds = feeds_of(rng)
    for a, b in zip(model.run(feeds).values(), oracle.session(made, threads=1).run(None, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
