"""Tokens one behind the other: each is computed as the one before it was, as long as nothing else is asked for."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import InputError
from clgraph.model.state import caches as memory
from clgraph.network.network import Network
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, greedy_tokens, onnxruntime_run

PROMPT = [int(x) for x in np.random.default_rng(3).integers(0, 300, 9)]
EXPORTS = ("genai", "onnx23", "optimum")
pytestmark = pytest.mark.opencl


@pytest.fixture(scope="module", params=EXPORTS)
def decoder(request):
    d = Decoder(request.param)
    made = decoder_model(d)
    return d, clgraph.compile(made), onnxruntime_run(made)


@pytest.fixture
def prepared(monkeypatch):
    """The runs that are prepared anew."""
    runs, real = [], Network.run
    monkeypatch.setattr(Network, "run", lambda self, *a, **k: runs.append(self) or real(self, *a, **k))
    return runs


def next_ids(session, d, ids, **more):
    feeds = decoder_feeds(
        d, np.array(ids), [np.zeros((len(ids), d.shared, session.length, d.head_size))] * 2 * d.layers
    )
    return session.run({n: a for n, a in feeds.items() if "past" not in n and n != "attention_mask"}, **more)["logits"]


def continued(session, d, logits, count):
    tokens = [int(logits[0, -1].argmax())]
    while len(tokens) < count:
        tokens.append(int(next_ids(session, d, [tokens[-1:]])[0, -1].argmax()))
    return tokens


def test_only_prompts_first_tokens_and_larger_caches_are_prepared(decoder, prepared, monkeypatch):
    monkeypatch.setattr(memory, "LEAST_PLACES", 16)
    d, model, run = decoder
    session = model.session()
    assert continued(session, d, next_ids(session, d, [PROMPT]), 1 + 30) == greedy_tokens(run, d, PROMPT, 1 + 30)
    assert len(prepared) == 1 + 1 + 2, "of a prompt, a token, and of 32 and 64 places"
    assert session.capacity == 64


def test_forks_cuts_and_other_sessions_go_on_from_their_own_tokens(decoder, prepared):
    d, model, run = decoder
    want = greedy_tokens(run, d, PROMPT, 8)
    session, other = model.session(), model.session()
    tokens = continued(session, d, next_ids(session, d, [PROMPT]), 5)
    fork = session.fork()
    continued(other, d, next_ids(other, d, [PROMPT[::-1]]), 5)
    count = len(prepared)
    assert tokens == want[:5]
    assert continued(fork, d, next_ids(fork, d, [tokens[-1:]]), 3) == want[5:]
    session.truncate(len(PROMPT) + 2)
    assert continued(session, d, next_ids(session, d, [want[2:3]]), 5) == want[3:]
    assert len(prepared) == count


def test_several_texts_and_arrays_of_the_callers_take_what_they_need(decoder):
    d, model, run = decoder
    one, two, target = model.session(), model.session(), np.empty((1, 1, d.vocabulary), np.float32)
    together = np.array([PROMPT, PROMPT[::-1]])
    _, *caches = run(decoder_feeds(d, together))
    next_ids(two, d, together)
    next_ids(one, d, [PROMPT])
    for token in range(5):
        wanted, *caches = run(decoder_feeds(d, np.array([[token], [7]]), caches))
        np.testing.assert_allclose(next_ids(two, d, [[token], [7]]), wanted, rtol=1e-4, atol=1e-5)
        outputs = {"logits": target} if token % 2 else None
        got = next_ids(one, d, [[token]], outputs=outputs)
        assert (got is target) == (token % 2 == 1)
        np.testing.assert_allclose(got, wanted[:1], rtol=1e-4, atol=1e-5)


def test_presents_and_a_mask_that_hides_tokens_are_those_of_the_run(decoder):
    d, model, run = decoder
    caches = list(model.run(decoder_feeds(d, np.array([PROMPT]))).values())[1:]
    for token in range(6):
        feeds = decoder_feeds(d, np.array([[token]]), caches)
        if d.export == "optimum" and token in (2, 4):
            feeds["attention_mask"][0, 3:5] = 0
        found, wanted = model.run(feeds).values(), run(feeds)
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        caches = list(found)[1:]


def test_what_does_not_fit_is_refused_and_the_next_token_is_computed(decoder):
    d, model, run = decoder
    session, want = model.session(), greedy_tokens(run, d, PROMPT, 5)
    tokens = continued(session, d, next_ids(session, d, [PROMPT]), 3)
    with pytest.raises(InputError, match="out of range"):
        next_ids(session, d, [[d.vocabulary]])
    with pytest.raises(InputError, match="the session has 1 texts"):
        next_ids(session, d, [[1], [2]])
    assert [*tokens, *continued(session, d, next_ids(session, d, [tokens[-1:]]), 2)] == want


def test_a_mask_that_goes_on_hiding_tokens_is_added_to_the_scores_of_the_next_token(prepared):
    d = Decoder("optimum")
    made = decoder_model(d)
    model, run = clgraph.compile(made), onnxruntime_run(made)
    caches = list(model.run(decoder_feeds(d, np.array([PROMPT]))).values())[1:]
    for token in range(6):
        feeds = decoder_feeds(d, np.array([[token]]), caches)
        feeds["attention_mask"][0, 3 : 5 + token // 3] = 0
        found = list(model.run(feeds).values())
        for got, want in zip(found, run(feeds), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        caches = found[1:]
    assert len(prepared) == 1 + 1, "of a prompt, and of the first token"
