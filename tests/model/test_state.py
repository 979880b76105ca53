"""State: caches that stay in memory, in sessions and in runs that are fed what they returned."""

from __future__ import annotations

import gc
from dataclasses import replace

import numpy as np
import pytest

import clgraph
from clgraph.engines import opening
from clgraph.errors import InputError
from clgraph.model.state import caches as memory
from clgraph.model.state.biases import widened
from clgraph.runtime.device import find_device
from clgraph.runtime.memory import Memory
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, greedy_tokens, onnxruntime_run

EXPORTS = [
    Decoder("genai", 1),
    Decoder("onnx23", 1),
    Decoder("optimum", 1),
    Decoder("genai", 1, dtype="float16", packed_qkv=True, window=5),
]
PROMPT = [int(x) for x in np.random.default_rng(0).integers(0, 300, 20)]
pytestmark = pytest.mark.opencl


def fed_back(model):
    return lambda feeds: list(model.run(feeds).values())


def programs(model):
    return len(model._model_state.programs.made)


def rest(session, d, ids):
    """Return what a session is fed with *ids*; masks are left out."""
    ids = np.array(ids, np.int64)
    feeds = {"input_ids": ids}
    if d.export != "genai":
        feeds["position_ids"] = np.tile(np.arange(session.length, session.length + ids.shape[1]), (len(ids), 1))
    return feeds


def in_session(session, d, prompt, count):
    ids, tokens = [prompt], []
    for _ in range(count):
        tokens.append(int(session.run(rest(session, d, ids))["logits"][0, -1].argmax()))
        ids = [tokens[-1:]]
    return tokens


@pytest.fixture(scope="module")
def decoder():
    d = Decoder("genai", 1)
    made = decoder_model(d)
    return d, clgraph.compile(made), onnxruntime_run(made)


@pytest.mark.parametrize("d", EXPORTS, ids=lambda d: f"{d.export}-{d.dtype}")
def test_tokens_are_onnxruntimes_in_a_session_and_fed_back_with_two_programs(d):
    made = decoder_model(d)
    model, want = clgraph.compile(made), greedy_tokens(onnxruntime_run(made), d, PROMPT, 12)
    assert in_session(model.session(), d, PROMPT, 12) == want
    assert greedy_tokens(fed_back(model), d, PROMPT, 12) == want
    assert programs(model) == 2
    assert not model.compiled
    assert "cached_attention" in str(model.program)
    assert "present.0.key -> past_key_values.0.key: a cache" in model.explain().notes["state"]
    assert sorted((p.input, p.output, p.grows) for p in model.state) == [
        (f"past_key_values.0.{part}", f"present.0.{part}", True) for part in ("key", "value")
    ]


def test_prompts_of_any_length_are_chunks_where_heads_have_no_elements_that_are_not_turned():
    d = Decoder("optimum", 1, unturned=True)
    made = decoder_model(d)
    model, run = clgraph.compile(made), onnxruntime_run(made)
    for count in (7, 20, 37, 150):
        prompt = [*range(3, 3 + count)]
        assert greedy_tokens(fed_back(model), d, prompt, 4) == greedy_tokens(run, d, prompt, 4)
    assert programs(model) == 4  # of 1, 16, 32 and 128 tokens


def test_caches_grow_by_doubling_and_no_length_compiles_anything(decoder, monkeypatch):
    d, model, run = decoder
    monkeypatch.setattr(memory, "LEAST_PLACES", 8)
    session = model.session()
    want = greedy_tokens(run, d, PROMPT[:3], 40)
    capacities = []
    ids, tokens = [PROMPT[:3]], []
    for _ in range(40):
        tokens.append(int(session.run(rest(session, d, ids))["logits"][0, -1].argmax()))
        ids = [tokens[-1:]]
        capacities.append(session.capacity)
    assert tokens == want
    assert sorted(set(capacities)) == [8, 16, 32, 64]
    for count in (1, 2, 5, 16, 17, 33):
        session.reset()
        session.run(rest(session, d, [[*PROMPT, *PROMPT][:count]]))
    assert programs(model) <= 4


def test_a_token_that_the_vocabulary_does_not_have_is_refused_and_the_session_goes_on(decoder):
    d, model, run = decoder
    session = model.session()
    with pytest.raises(InputError, match=r"'input_ids': index 320 is out of range: .* picks from 320 slices"):
        session.run(rest(session, d, [[*PROMPT, 320]]))
    assert in_session(session, d, PROMPT, 3) == greedy_tokens(run, d, PROMPT, 3)


def test_prompts_in_pieces_have_the_logits_of_whole_ones(decoder):
    d, model, run = decoder
    ids = np.random.default_rng(1).integers(0, 300, (1, 150))
    for count in (7, 130, 150):
        feeds = decoder_feeds(d, ids[:, :count])
        logits, *presents = fed_back(model)(feeds)
        wanted = run(feeds)
        assert logits.shape == wanted[0].shape
        for got, want in zip((logits, *presents), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert programs(model) <= 4


def test_the_last_token_alone_has_the_logits_that_it_has_among_all_in_arrays_of_the_callers(decoder):
    d, model, run = decoder
    session = model.session()
    for count in (1, 7, 16, 130):
        ids = np.random.default_rng(count).integers(0, 300, (1, count))
        (want, *_), target = run(decoder_feeds(d, ids)), np.empty((1, 1, d.vocabulary), np.float32)
        session.reset()
        assert session.run(rest(session, d, ids), outputs={"logits": target}, last=True)["logits"] is target
        np.testing.assert_allclose(target, want[:, -1:], rtol=1e-4, atol=1e-5)
        session.reset()
        every = np.empty_like(want)
        assert session.run(rest(session, d, ids), outputs={"logits": every})["logits"] is every
        np.testing.assert_allclose(every, want, rtol=1e-4, atol=1e-5)
    session.run(rest(session, d, ids), last=True)
    head = next(n for n in model.program if "lm_head" in n.name and "matmul" in n.primitive.kind)
    assert head.output.layout.shape == (1, 1, d.vocabulary)


def test_the_last_token_alone_is_the_only_row_of_a_head_in_few_bits():
    d = Decoder("genai", 1, bits=4)
    model = clgraph.compile(decoder_model(d))
    session, ids = model.session(), np.array([PROMPT])
    want = session.run(rest(session, d, ids))["logits"]
    session.reset()
    got = session.run(rest(session, d, ids), last=True)["logits"]
    np.testing.assert_allclose(got, want[:, -1:], rtol=1e-4, atol=1e-5)
    head = next(n for n in model.program if "lm_head" in n.name and "matmul" in n.primitive.kind)
    assert head.output.layout.shape == (1, 1, d.vocabulary)


def test_branches_and_rollbacks_of_what_was_returned_stay_right(decoder):
    d, model, run = decoder

    def step(caches, token):
        feeds = decoder_feeds(d, np.array([[token]]), caches)
        logits, *presents = fed_back(model)(feeds)
        np.testing.assert_allclose(logits, run(feeds)[0], rtol=1e-4, atol=1e-5)
        return presents

    _, *start = fed_back(model)(decoder_feeds(d, np.array([PROMPT])))
    one = step(start, 5)
    kept = [a.copy() for a in one]
    two = step(start, 9)
    for array, was in zip(one, kept, strict=True):
        np.testing.assert_array_equal(array, was)
    step(two, 1)
    step([a[:, :, :8] for a in one], 3)
    step([a[:, :, ::2] for a in one], 3)
    step([np.ascontiguousarray(a) for a in one], 4)
    for array, was in zip(one, kept, strict=True):
        np.testing.assert_array_equal(array, was)


def test_what_was_returned_from_memory_that_grew_meanwhile_is_what_it_was(decoder, monkeypatch):
    d, model, run = decoder
    monkeypatch.setattr(memory, "LEAST_PLACES", 8)
    monkeypatch.setattr(model._model_state, "_spare", None)
    _, *start = fed_back(model)(decoder_feeds(d, np.array([PROMPT[:7]])))
    feeds = [decoder_feeds(d, np.array([[5, 6]]), start), decoder_feeds(d, np.array([PROMPT[:3:-1]]))]
    for given in (*feeds, feeds[0]):  # into other memory, where another text stands then
        logits = fed_back(model)(given)[0]
        np.testing.assert_allclose(logits, run(given)[0], rtol=1e-4, atol=1e-5)


def test_what_is_fed_back_is_not_copied(decoder, monkeypatch):
    d, model, _ = decoder
    _, *caches = fed_back(model)(decoder_feeds(d, np.array([PROMPT])))
    moved = []
    monkeypatch.setattr(memory.Caches, "_write", lambda *a: moved.append("written"))
    monkeypatch.setattr(memory.Caches, "_take", lambda *a: moved.append("taken"))
    start = caches[0].ctypes.data
    for token in range(5):
        _, *caches = fed_back(model)(decoder_feeds(d, np.array([[token]]), caches))
        gc.collect()
    assert not moved
    assert caches[0].ctypes.data == start
    assert caches[0].shape[2] == len(PROMPT) + 5


def test_sessions_take_turns_fork_and_are_cut(decoder):
    d, model, run = decoder
    want = {n: greedy_tokens(run, d, PROMPT[:n], 6) for n in (4, 9)}
    one, two = model.session(), model.session()
    ids = {one: [PROMPT[:4]], two: [PROMPT[:9]]}
    found = {one: [], two: []}
    for _ in range(6):
        for session in (one, two):
            logits = session.run(rest(session, d, ids[session]))["logits"]
            found[session].append(int(logits[0, -1].argmax()))
            ids[session] = [found[session][-1:]]
    assert (found[one], found[two]) == (want[4], want[9])
    one.truncate(4)
    other = one.fork()
    assert in_session(one, d, want[4][:1], 5) == want[4][1:]
    assert other.length == 4
    assert in_session(other, d, want[4][:1], 5) == want[4][1:]
    two.reset()
    assert two.length == 0
    assert in_session(two, d, PROMPT[:4], 6) == want[4]
    two.close()
    assert in_session(two, d, PROMPT[:4], 6) == want[4]


@pytest.mark.parametrize("config", [{}, {"device_class": "gpu", "precision": "f16"}], ids=["cpu", "gpu"])
def test_masks_of_other_forms_are_added_to_scores(config):
    d = Decoder("optimum", 1, shared=4)
    made = decoder_model(d)
    model, run = clgraph.compile(made, config=config), onnxruntime_run(made)
    # A unit of float16 in each of about 20 steps of the layer, of logits of up to 4.
    close = 20 * 4 * 2.0**-11 if config else 1e-4
    ids, caches = np.array([PROMPT[:7]]), []
    for step in range(3):
        feeds = decoder_feeds(d, ids, caches)
        feeds["attention_mask"][:, 1:3] = 0
        logits, *caches = fed_back(model)(feeds)
        np.testing.assert_allclose(logits, run(feeds)[0], rtol=close, atol=close)
        ids = np.array([[step]])
    assert not model.compiled


def test_masks_that_are_added_to_scores_compile_nothing_when_caches_grow(monkeypatch):
    monkeypatch.setattr(memory, "LEAST_PLACES", 8)
    d = Decoder("optimum", 1, shared=4)
    made = decoder_model(d)
    model, run, caches = clgraph.compile(made), onnxruntime_run(made), ()
    for step in range(18):
        ids = np.array([[step]]) if step else np.array([PROMPT[:7]])
        feeds = decoder_feeds(d, ids, caches)
        feeds["attention_mask"][:, 1:3] = 0
        logits, *caches = fed_back(model)(feeds)
        np.testing.assert_allclose(logits, run(feeds)[0], rtol=1e-4, atol=1e-5)
    assert model._model_state._spare.places == 32
    assert programs(model) == 2


def test_a_mask_of_one_column_counts_for_all_tokens():
    one = widened(np.array([[0.5], [-np.inf]], np.float16), 3, 5)
    assert one.shape == (1, 1, 2, 5)
    np.testing.assert_array_equal(one[0, 0], [[0.5] * 3 + [-np.inf] * 2, [-np.inf] * 5])
    np.testing.assert_array_equal(widened(np.array([True, False]), 2, 3), [[[[0, -np.inf, -np.inf]]]])


def test_one_buffer_for_past_and_present_takes_the_new_tokens(decoder):
    d, model, run = decoder
    want = greedy_tokens(run, d, PROMPT, 4)
    buffers = {f"{name}.0.{p}": np.zeros((1, 2, 64, 16), np.float32) for p in ("key", "value") for name in ("x",)}
    pasts = {n.replace("x.", "past_key_values."): a for n, a in buffers.items()}
    presents = {n.replace("x.", "present."): a for n, a in buffers.items()}
    ids, tokens = np.array([PROMPT]), []
    for step in range(4):
        mask = np.ones((1, len(PROMPT) + step), np.int64)
        made = model.run({"input_ids": ids, "attention_mask": mask, **pasts}, outputs={"logits": None, **presents})
        assert made["present.0.key"] is presents["present.0.key"]
        tokens.append(int(made["logits"][0, -1].argmax()))
        ids = np.array([tokens[-1:]])
    assert tokens == want
    _, key, _ = run(decoder_feeds(d, np.array([PROMPT])))
    np.testing.assert_allclose(pasts["past_key_values.0.key"][:, :, : len(PROMPT)], key, rtol=1e-4, atol=1e-5)
    assert not pasts["past_key_values.0.key"][:, :, len(PROMPT) + 3 :].any()


@pytest.mark.parametrize(
    "options", [{"device": "host"}, {"config": {"device_class": "gpu"}}, {"placement": {"*GroupQuery*": "host"}}]
)
def test_caches_lie_where_they_are_updated(options):
    d = Decoder("genai", 1)
    made = decoder_model(d)
    want = greedy_tokens(onnxruntime_run(made), d, PROMPT, 3)
    model = clgraph.compile(made, **options)
    assert in_session(model.session(), d, PROMPT, 3) == want
    assert greedy_tokens(fed_back(model), d, PROMPT, 3) == want


def test_caches_on_a_device_with_memory_of_its_own(monkeypatch):
    def copying(text="auto"):
        found = find_device(text)
        return replace(found, info=replace(found.info, features=found.info.features - {"host_memory"}))

    monkeypatch.setattr(opening, "find_device", copying)
    monkeypatch.setattr(memory, "LEAST_PLACES", 8)
    d = Decoder("genai", 1)
    made = decoder_model(d)
    want = greedy_tokens(onnxruntime_run(made), d, PROMPT[:6], 6)
    model = clgraph.compile(made, config={"executor": "stream"})
    session = model.session()
    assert in_session(session, d, PROMPT[:6], 1) == want[:1]
    other = session.fork()
    for each in (session, other):
        assert in_session(each, d, want[:1], 5) == want[1:]
    assert session.capacity == 16
    assert isinstance(session._caches.held, Memory)
    assert session._caches.held.array is None
    assert greedy_tokens(fed_back(model), d, PROMPT[:6], 6) == want


def test_a_batch_of_texts_of_different_lengths_is_onnxruntimes(decoder):
    d, model, run = decoder
    ids, mask = np.array([PROMPT[:6], PROMPT[6:12]]), np.ones((2, 6), np.int64)
    mask[1, 4:] = 0
    feeds = {**decoder_feeds(d, ids), "attention_mask": mask}
    feeds |= {n: np.zeros((2, *a.shape[1:]), a.dtype) for n, a in feeds.items() if n.startswith("past")}
    got, want = fed_back(model)(feeds), run(feeds)
    for step in range(3):
        real = np.s_[:] if step else np.s_[:1]
        np.testing.assert_allclose(got[0][real], want[0][real], rtol=1e-4, atol=1e-5)
        mask = np.pad(mask, ((0, 0), (0, 1)))
        mask[0, 6 + step] = mask[1, 4 + step] = 1
        feeds = {"input_ids": np.array([[step], [7]]), "attention_mask": mask}
        names = [n for n in model.input_names if n.startswith("past")]
        got = fed_back(model)(feeds | dict(zip(names, got[1:], strict=True)))
        want = run(feeds | dict(zip(names, want[1:], strict=True)))


def test_what_does_not_fit_is_one_error_and_the_session_goes_on(decoder):
    d, model, run = decoder
    want = greedy_tokens(run, d, PROMPT[:4], 3)
    for most in (0, -1, True, "8"):
        with pytest.raises(InputError, match=f"most={most!r} is not a maximum number of tokens"):
            model.session(most=most)
    for ids in (np.ones(3, np.int64), np.ones((1, 3, 1), np.int64)):
        with pytest.raises(InputError, match=r"'input_ids' is .*; the model requires \[batch_size, sequ"):
            model.session().run(input_ids=ids)
    session = model.session(most=8)
    assert in_session(session, d, PROMPT[:4], 1) == want[:1]
    with pytest.raises(InputError, match="5 tokens behind 4 are more than the 8"):
        session.run(rest(session, d, [PROMPT[:5]]))
    with pytest.raises(InputError, match="is a cache, which the session keeps"):
        session.run({**rest(session, d, [[1]]), "past_key_values.0.key": np.zeros((1, 2, 4, 16), np.float32)})
    with pytest.raises(InputError, match="lengths or masks that are fed are those of another text"):
        session.run({**rest(session, d, [[1]]), "attention_mask": np.ones((1, 9), np.int64)})
    with pytest.raises(InputError, match="has 2: reset it"):
        session.run(rest(session, d, [[1], [2]]))
    with pytest.raises(InputError, match="cannot be cut to 5"):
        session.truncate(5)
    assert in_session(session, d, want[:1], 2) == want[1:]
    feeds = decoder_feeds(d, np.array([[1]]), [np.zeros((1, 2, 3, 16), np.float32)] * 2)
    other = {**feeds, "past_key_values.0.value": np.zeros((1, 4, 3, 16), np.float32)}
    with pytest.raises(InputError, match="caches of other models or runs do not fit"):
        model.run(other)
    np.testing.assert_allclose(fed_back(model)(feeds)[0], run(feeds)[0], rtol=1e-4, atol=1e-5)
