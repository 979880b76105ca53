from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import clgraph
from clgraph.errors import DeviceError, GenerationError, InputError, ModelError, OptionError, UnsupportedError
from clgraph.generate import Options
from clgraph.generate.decoding import Decoding
from clgraph.model.state.session import Session
from tests.support.decoder_folder import tokenizer
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds, decoder_model, greedy_tokens, onnxruntime_run
from tests.support.hybrid import PAST, hybrid_model, hybrid_settings
from tests.support.models import small_model
from tests.support.recurrent_decoder import recurrent_decoder

SOME = Options(max_tokens=5, ignore_end=True)
pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("export", ["genai", "onnx23", "optimum"])
def test_tokens_are_onnxruntimes(folder, device, export):
    d = Decoder(export=export)
    lm = clgraph.generate.load(folder(d), device)
    made = lm.generate("The heron waited", SOME)
    assert list(made.tokens) == greedy_tokens(onnxruntime_run(decoder_model(d)), d, made.prompt, 5)
    assert made.text == lm.tokenizer.decode(made.tokens)
    assert made.reason == "length"
    assert made.prompt == tuple(lm.tokenizer.encode("The heron waited"))
    assert list(lm.tokens(made.prompt, SOME)) == list(made.tokens)


@pytest.mark.parametrize("export", ["genai", "onnx23", "optimum"])
def test_256_tokens_are_onnxruntimes(folder, device, export):
    d = Decoder(export=export, layers=3, vocabulary=1000)
    made = clgraph.generate.load(folder(d), device).generate("A", replace(SOME, max_tokens=256))
    assert list(made.tokens) == greedy_tokens(onnxruntime_run(decoder_model(d)), d, made.prompt, 256)


def test_a_text_is_a_session_where_the_models_caches_are_recognised(folder, device, monkeypatch):
    begun = []
    made = clgraph.Model.session

    def session(model, state):
        begun.append(made(model, state))
        return begun[-1]

    monkeypatch.setattr(clgraph.Model, "session", session)
    lm = clgraph.generate.load(folder(Decoder(layers=1)), device)
    tokens = lm.generate([1, 5], replace(SOME, max_tokens=3)).tokens
    assert [session.length for session in begun] == [4]
    monkeypatch.setattr(clgraph.Model, "state", ())
    assert lm.generate([1, 5], replace(SOME, max_tokens=3)).tokens == tokens
    assert len(begun) == 1


def test_several_texts_are_those_that_each_prompt_has_alone(folder, device):
    lm = clgraph.generate.load(folder(), device)
    prompts = ["The clock", [1, 7, 9], "A"]
    options = replace(SOME, max_tokens=3)
    made = lm.generate_all(prompts, options)
    assert [m.tokens for m in made] == [lm.generate(prompt, options).tokens for prompt in prompts]
    pieces = dict.fromkeys(range(3), "")
    for number, piece in lm.stream_all(prompts, options):
        pieces[number] += piece
    assert list(pieces.values()) == [m.text for m in made]
    drawn = replace(options, temperature=3.0, seed=5)
    first, second = lm.generate_all(["A", "A"], drawn)
    assert first.tokens != second.tokens
    assert first.tokens == lm.generate("A", drawn).tokens


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("export", ["genai", "optimum"])
def test_a_decoder_with_caches_that_takes_one_token_at_a_time_is_fed_so(folder, device, monkeypatch, kept, export):
    d = Decoder(layers=1, vocabulary=64, export=export)
    path, made = folder(d), decoder_model(d)
    for value in (*made.graph.input, *made.graph.output):
        if value.name in ("input_ids", "position_ids", "logits"):
            value.type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(made, path / "model.onnx")
    lm = clgraph.generate.load(path, device)
    if not kept:
        monkeypatch.setattr(clgraph.Model, "state", ())
    prompts = [[int(x) for x in np.random.default_rng(n).integers(3, 64, n)] for n in (1, 7)]
    wanted = [tuple(greedy_tokens(onnxruntime_run(decoder_model(d)), d, prompt, 5)) for prompt in prompts]
    assert [m.tokens for m in lm.generate_all(prompts, SOME)] == wanted
    if kept:
        assert {rows for (_, rows), *_ in lm.model._model_state.programs._made} == {1}


@pytest.mark.parametrize("kept", [True, False])
def test_what_layers_without_attention_carry_goes_from_piece_to_piece(folder, device, monkeypatch, kept):
    d = Decoder(layers=1, vocabulary=64)
    path = folder(d)
    onnx.save(hybrid_model(d), path / "model.onnx")
    config = path / "genai_config.json"
    config.write_text(json.dumps(hybrid_settings(json.loads(config.read_text()))))
    lm = clgraph.generate.load(path, device)
    run = onnxruntime_run(hybrid_model(d))
    if not kept:
        monkeypatch.setattr(clgraph.Model, "state", ())
    prompts = [[int(x) for x in np.random.default_rng(n).integers(3, 64, n)] for n in (1, 19)]
    if kept:
        # The texts of a batch have one length: padding would be part of what is carried.
        assert [m.tokens for m in lm.generate_all([prompts[1]] * 2, SOME)] == [lm.generate(prompts[1], SOME).tokens] * 2
        assert len({m.tokens for m in lm.generate_all(prompts, SOME)}) == 2
    for prompt in prompts:
        assert list(lm.generate(prompt, SOME).tokens) == _greedy(run, d, prompt, 5)
    if kept:
        assert {rows for (_, rows), *_ in lm.model._model_state.programs._made} <= {1, 16}


def _greedy(run, d, prompt, count):
    """Return the tokens of the hybrid model that is *run*."""
    tokens, new, past = [], prompt, [np.zeros((1, d.width, 2), np.float32)]
    caches = []
    for _ in range(count):
        feeds = decoder_feeds(d, np.array([new]), caches)
        places = np.arange(feeds["attention_mask"].shape[1])[-len(new) :]
        more = {"position_ids": np.broadcast_to(places, (3, 1, len(new))), PAST: past[0]}
        logits, *caches, past[0] = run(feeds | more)
        new = [int(logits[0, -1].argmax())]
        tokens += new
    return tokens


@pytest.mark.parametrize(
    ("tokens", "mask", "names"),
    [
        ("tokens", None, ("past_conv.%d", "present_conv.%d", "past_ssm.%d", "present_ssm.%d")),
        ("tokens", "tokens", ("past_conv.%d", "present_conv.%d", "past_ssm.%d", "present_ssm.%d")),
        ("tokens", "all", ("state_a%d", "state_a%d_out", "state_b%d", "new_state_b%d")),
        (1, None, ("state_a%d", "state_a%d_out", "state_b%d", "new_state_b%d")),
    ],
)
def test_a_decoder_that_carries_values_alone_reads_in_pieces(folder, device, monkeypatch, tokens, mask, names):
    counts, run_session = set(), Session.run

    def counted(session, feeds, **more):
        counts.add(feeds["input_ids"].shape[1])
        return run_session(session, feeds, **more)

    monkeypatch.setattr(Session, "run", counted)
    path, made = folder(), recurrent_decoder(tokens=tokens, mask=mask, names=names)
    onnx.save(made, path / "model.onnx")
    lm = clgraph.generate.load(path, device)
    run = onnxruntime_run(made)
    prompts = [[int(x) for x in np.random.default_rng(n).integers(3, 64, n)] for n in (1, 19, 147)]
    for prompt in prompts:
        assert list(lm.generate(prompt, SOME).tokens) == _greedy_carried(run, made, prompt, 5)
    together = lm.generate_all([prompts[1]] * 2, SOME)
    assert [m.tokens for m in together] == [lm.generate(prompts[1], SOME).tokens] * 2
    assert counts == ({1} if tokens == 1 else {1, 16, 128})


def test_a_text_that_is_read_in_pieces_stays_where_one_fails(folder, device, monkeypatch):
    path, made = folder(), recurrent_decoder()
    onnx.save(made, path / "model.onnx")
    lm = clgraph.generate.load(path, device)
    text = Decoding(lm.model, lm._feeding)
    text.push([5, 6, 7])
    text.logits()
    session, calls = Session, []
    run = session.run

    def failing(*given, **more):
        calls.append(1)
        if len(calls) == 2:
            raise DeviceError("the device is gone")
        return run(*given, **more)

    text.push(list(range(17)))
    with monkeypatch.context() as patch:
        patch.setattr(session, "run", failing)
        with pytest.raises(DeviceError):
            text.logits()
    logits = text.logits()
    again = Decoding(lm.model, lm._feeding)
    again.push([5, 6, 7, *range(17)])
    np.testing.assert_allclose(logits, again.logits(), rtol=1e-5, atol=1e-5)


def _greedy_carried(run, made, prompt, count):
    """Return the tokens of the recurrent decoder that is *run*, whose tokens come one at a time."""
    sizes = {x.name: [d.dim_value or 1 for d in x.type.tensor_type.shape.dim] for x in made.graph.input}
    names = [name for name in sizes if name not in ("input_ids", "attention_mask")]
    values = [np.zeros(sizes[name], np.float32) for name in names]
    tokens, new, total = [], list(prompt), 0
    for _ in range(count):
        for token in new:
            total += 1
            feeds = {"input_ids": np.array([[token]]), **dict(zip(names, values, strict=True))}
            if "attention_mask" in sizes:
                feeds["attention_mask"] = np.ones((1, 1), np.int64)
            logits, *values = run(feeds)
        new = [int(logits[0, -1].argmax())]
        tokens += new
    return tokens


@pytest.mark.parametrize(("export", "padded"), [("genai", "right"), ("optimum", "left"), ("onnx23", None)])
def test_texts_of_a_batch_are_those_that_each_prompt_has_alone(folder, device, monkeypatch, export, padded):
    """Where the model cannot hide padding, prompts of one length are a batch, others take turns."""
    batches = []
    run = Session.run

    def counted(session, feeds, **more):
        batches.append(len(feeds["input_ids"]))
        return run(session, feeds, **more)

    monkeypatch.setattr(Session, "run", counted)
    lm = clgraph.generate.load(folder(Decoder(export=export, layers=1)), device)
    prompts = [[1, 5, 6], list(range(3, 23)), [1, 9]]
    alone = [lm.generate(prompt, replace(SOME, max_tokens=6)).tokens for prompt in prompts]
    ended = Options(max_tokens=6, ignore_end=True, stop_tokens=frozenset(alone[1][2:3]))
    want = [tokens[: next((i + 1 for i, t in enumerate(tokens) if t in ended.stop_tokens), 6)] for tokens in alone]
    batches.clear()
    assert [m.tokens for m in lm.generate_all(prompts, ended)] == want
    assert len(want[1]) == 3
    assert set(batches) == ({3} if padded else {1})
    batches.clear()
    assert [m.tokens for m in lm.generate_all(prompts[:1] * 2, ended)] == want[:1] * 2
    assert set(batches) == {2}


def test_a_text_ends_where_the_model_has_no_more_places(folder, device):
    lm = clgraph.generate.load(folder(Decoder(positions=9)), device)
    made = lm.generate([1, 5, 6, 7], replace(SOME, max_tokens=None))
    assert (len(made.tokens), made.reason) == (5, "length")
    for prompt, message in (
        (range(9), "has 9 tokens and the model's longest text 9"),
        ([1, 320], "has a token 320; ids begin at 0, and the model has 320"),
        ([-1], "has a token -1"),
        (None, "a text or a list of token ids, not None"),
        ([1.5], r"a text or a list of token ids, not \[1.5\]"),
    ):
        with pytest.raises(InputError, match=message):
            lm.generate(prompt, SOME)
    with pytest.raises(OptionError, match=r"options are clgraph.generate.Options\(...\), not {'top_k': 3}"):
        lm.generate([1], {"top_k": 3})
    assert lm.generate([], replace(SOME, max_tokens=1)).prompt == (1,)
    assert lm.generate([1, 5, 6, 7], replace(SOME, max_tokens=None)).tokens == made.tokens


def test_a_tokenizer_of_another_model_is_named(folder, device):
    path = folder(Decoder(layers=1, vocabulary=64))
    tokenizer(320).save(str(path / "tokenizer.json"))
    lm = clgraph.generate.load(path, device)
    with pytest.raises(InputError, match="the model has 64: the tokenizer in its folder is another model's"):
        lm.generate("The heron", SOME)
    assert len(lm.generate([1, 5], SOME).tokens) == 5


def test_a_tokenizer_without_a_token_for_the_prompt_is_an_error(folder, device):
    from tokenizers import Tokenizer, models

    path = folder(Decoder(layers=1, vocabulary=64))
    Tokenizer(models.WordLevel({"heron": 5})).save(str(path / "tokenizer.json"))
    with pytest.raises(InputError, match=r"the tokenizer cannot read the prompt: WordLevel error: Missing \[UNK\]"):
        clgraph.generate.load(path, device).generate("clock", SOME)


def test_tokens_masks_and_positions_may_be_int32(folder, device):
    d = Decoder(export="optimum", layers=1, vocabulary=64)
    path = folder(d)
    prompts = [[1, 5, 6], [1, 9]]
    want = clgraph.generate.load(path, device).generate_all(prompts, SOME)
    model = decoder_model(d)
    for given in model.graph.input[:3]:
        for node in model.graph.node:
            node.input[:] = [f"{name}_i64" if name == given.name else name for name in node.input]
        cast = onnx.helper.make_node("Cast", [given.name], [f"{given.name}_i64"], to=onnx.TensorProto.INT64)
        model.graph.node.insert(0, cast)
        given.type.tensor_type.elem_type = onnx.TensorProto.INT32
    assert {given.name for given in model.graph.input[:3]} == {"input_ids", "attention_mask", "position_ids"}
    onnx.save(model, path / "model.onnx")
    made = clgraph.generate.load(path, device).generate_all(prompts, SOME)
    assert [m.tokens for m in made] == [m.tokens for m in want]


def test_logits_that_are_no_numbers_are_an_error_and_the_model_stays_usable(folder, device):
    d = Decoder()
    path = folder(d)
    model = decoder_model(d)
    table = next(t for t in model.graph.initializer if t.name.endswith("embed_tokens.weight"))
    values = numpy_helper.to_array(table).copy()
    values[7] = np.nan
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    onnx.save(model, path / "model.onnx")
    lm = clgraph.generate.load(path, device)
    stream = lm.stream([1, 7], SOME)
    with pytest.raises(GenerationError, match="logits of token 2 have NaN"):
        next(stream)
    assert list(lm.tokens([1, 8], replace(SOME, max_tokens=2))) == list(
        lm.generate([1, 8], replace(SOME, max_tokens=2)).tokens
    )
    assert list(stream) == []
    assert len(lm.generate([1, 8], replace(SOME, max_tokens=2)).tokens) == 2


def test_a_model_that_is_no_decoder_is_refused(folder, device):
    path = folder()
    onnx.save(small_model(), path / "model.onnx")
    with pytest.raises(UnsupportedError, match=r"no input or output 'input_ids': it is not a decoder with a cache"):
        clgraph.generate.load(path, device)
    model = decoder_model(Decoder())
    onnx.save(model, path / "model.onnx")
    config = (path / "genai_config.json").read_text()
    for old, new in (
        ("past_key_values.%d.key", "past.%d"),
        ("present.%d.value", "now.%d"),
        (': "logits"', ': "now.0"'),
    ):
        (path / "genai_config.json").write_text(config.replace(old, new))
        with pytest.raises(UnsupportedError, match=r"no input or output '(past|now)\.0'"):
            clgraph.generate.load(path, device)
    (path / "genai_config.json").write_text(config)
    (path / "genai_config.json").write_text(config.replace("present.%d.key", "present.%d.value"))
    with pytest.raises(ModelError, match=r"past_key_values.0.key' becomes 'present.0.key' .*, and 'present.0.value'"):
        clgraph.generate.load(path, device)
    (path / "genai_config.json").write_text(config)
    for axes, message in (
        (["n", 320], r"logits f32 \[n, 320\] is not \[texts, tokens, vocabulary\]"),
        (["n"], r"input_ids i64 \[n\] is not \[texts, tokens\]"),
        (["n", 16], r"input_ids i64 \[n, 16\] has a fixed number of tokens"),
        ([2, "n"], r"input_ids i64 \[2, n\] has a fixed number of texts"),
    ):
        changed = onnx.ModelProto.FromString(model.SerializeToString())
        given = changed.graph.output[0] if message.startswith("logits") else changed.graph.input[0]
        kind = given.type.tensor_type.elem_type
        given.CopyFrom(onnx.helper.make_tensor_value_info(given.name, kind, axes))
        onnx.save(changed, path / "model.onnx")
        with pytest.raises(UnsupportedError, match=message):
            clgraph.generate.load(path, device)
    model.graph.input.append(onnx.helper.make_tensor_value_info("odd", onnx.TensorProto.FLOAT, [1]))
    onnx.save(model, path / "model.onnx")
    with pytest.raises(UnsupportedError, match="nothing is known about the decoder's input 'odd'"):
        clgraph.generate.load(path, device)
