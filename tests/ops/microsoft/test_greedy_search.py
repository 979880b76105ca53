"""GreedySearch and BeamSearch over a small decoder, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import clgraph
from clgraph.errors import InputError, ShapeError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.interpret import interpret
from tests.support.onnx_case import onnxruntime_outputs

WORDS, WIDTH, HEADS = 20, 8, 2
NAMES = ("input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask",
         "attention_mask")  # fmt: skip
BEAMS = (*NAMES[:3], "num_beams", "num_return_sequences", "length_penalty", *NAMES[3:])
INT = TensorProto.INT32


def decoder(**renamed):
    """Return one layer of ONNX Runtime's Attention, whose words' vectors are of the graph around."""
    rng = np.random.default_rng(0)
    shapes = {"where": (64, WIDTH), "qkv": (WIDTH, 3 * WIDTH), "none": (3 * WIDTH,), "out": (WIDTH, WORDS)}
    weights = {name: rng.standard_normal(s).astype(np.float32) * (name != "none") for name, s in shapes.items()}
    a = {"domain": "com.microsoft", "num_heads": HEADS, "unidirectional": 1}
    nodes = [
        helper.make_node("Gather", ["what", "input_ids"], ["word"]),
        helper.make_node("Gather", ["where", "position_ids"], ["place"]),
        helper.make_node("Add", ["word", "place"], ["x"]),
        helper.make_node("Attention", ["x", "qkv", "none", "attention_mask", "past_0"], ["a", "present_0"], **a),
        helper.make_node("Add", ["x", "a"], ["y"]),
        helper.make_node("MatMul", ["y", "out"], ["logits"]),
    ]
    info, head = helper.make_tensor_value_info, WIDTH // HEADS
    inputs = [info(n, INT, ["b", s]) for n, s in (("input_ids", "s"), ("position_ids", "s"), ("attention_mask", "t"))]
    inputs.append(info("past_0", TensorProto.FLOAT, [2, "b", renamed.get("heads", HEADS), "p", head]))
    outputs = [info("logits", TensorProto.FLOAT, ["b", "s", WORDS])]
    outputs.append(info("present_0", TensorProto.FLOAT, [2, "b", HEADS, "t", head]))
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    return helper.make_graph(nodes, "decoder", inputs, outputs, initializers)


def search(feeds, *, body=None, **attributes):
    """Return a model of one search that reads *feeds*: over beams where they say how many."""
    beams = "num_beams" in feeds
    reads = [name if name in feeds else "" for name in (BEAMS if beams else NAMES)]
    while not reads[-1]:
        reads.pop()
    sizes = {"decoder": body or decoder(), "eos_token_id": 3, "pad_token_id": 0} | attributes
    results = ["sequences", "sequences_scores"] if beams else ["sequences"]
    op_type = "BeamSearch" if beams else "GreedySearch"
    node = helper.make_node(op_type, reads, results, name="node", domain="com.microsoft", **sizes)
    shapes = {"input_ids": ["b", "s"], "attention_mask": ["b", "s"], "prefix_vocab_mask": ["b", WORDS]}
    types = dict.fromkeys(("repetition_penalty", "length_penalty", "sequences_scores"), TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info(n, types.get(n, INT), shapes.get(n, [len(feeds[n])])) for n in reads if n]
    made = [helper.make_tensor_value_info(name, types.get(name, INT), None) for name in results]
    table = np.random.default_rng(1).standard_normal((WORDS, WIDTH)).astype(np.float32)
    graph = helper.make_graph([node], "g", inputs, made, [numpy_helper.from_array(table, "what")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def drawn(rng, case, pad):
    batch, tokens = rng.integers(1, 4), rng.integers(1, 5)
    feeds = {
        "input_ids": rng.integers(0, WORDS, (batch, tokens)),
        "max_length": [rng.integers(tokens + 1, 14)],
        "min_length": [rng.integers(0, 10)],
        "vocab_mask": rng.random(WORDS) < 0.8,
        "prefix_vocab_mask": rng.random((batch, WORDS)) < 0.6,
        "attention_mask": np.sort(rng.random((batch, tokens)) < 0.7, 1),
    }
    feeds["input_ids"][0, : tokens // 2] = pad
    left_out = {"min_length": 2, "vocab_mask": 3, "prefix_vocab_mask": 2, "attention_mask": 2}
    feeds = {n: np.asarray(a, np.int32) for n, a in feeds.items() if n not in left_out or case % left_out[n]}
    return feeds | {"repetition_penalty": np.array([(1, 1.5, 0.8)[case % 3]], np.float32)}


def same_as_far_as_texts_go(got, want, pad):
    """Compare up to the last word that is no padding: behind it ONNX Runtime leaves what was in memory."""
    end = 1 + np.flatnonzero((got != pad).any(0)).max(initial=-1)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got[:, :end], want[:, :end])


def test_words_are_onnxruntimes(rng):
    for case in range(12):
        end, pad = rng.integers(0, WORDS, 2).tolist()
        feeds = drawn(rng, case, pad)
        more = {"no_repeat_ngram_size": case % 4, "eos_token_id": end, "pad_token_id": pad}
        made = search(feeds, **more | ({"vocab_size": WORDS} if case % 2 else {}))
        (want,) = onnxruntime_outputs(made, feeds)
        same_as_far_as_texts_go(interpret(load_onnx(made), feeds)["sequences"], want, pad)


def test_texts_of_beams_are_onnxruntimes(rng):
    for case in range(12):
        end, pad = rng.choice(WORDS, 2, replace=False).tolist()
        feeds, beams = drawn(rng, case, pad), 1 + case % 4
        more = {"min_length": [2 * (case % 3)], "num_beams": [beams], "num_return_sequences": [1 + case // 2 % beams]}
        feeds |= {name: np.array(value, np.int32) for name, value in more.items()}
        feeds["length_penalty"] = np.array([(1, 0.5, 2)[case // 2 % 3]], np.float32)
        attributes = {"no_repeat_ngram_size": case % 3, "early_stopping": case // 3 % 2}
        made = search(feeds, **attributes, eos_token_id=end, pad_token_id=pad)
        texts, scores = onnxruntime_outputs(made, feeds)
        got = interpret(load_onnx(made), feeds)
        np.testing.assert_array_equal(got["sequences"], texts)
        np.testing.assert_allclose(got["sequences_scores"], scores, rtol=1e-4, atol=1e-5)


@pytest.mark.opencl
def test_a_device_finds_the_words(rng):
    feeds = drawn(rng, 1, 0)
    made = search(feeds)
    (want,) = onnxruntime_outputs(made, feeds)
    same_as_far_as_texts_go(clgraph.compile(made).run(feeds)["sequences"], want, 0)


@pytest.mark.opencl
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_decoder_of_a_search_has_state(rng, kind):
    feeds = {"input_ids": np.array([[5, 6, 7]], np.int32), "max_length": np.array([24], np.int32)}
    numbers = {"min_length": 0, "num_beams": 2, "num_return_sequences": 2}
    feeds |= {name: np.array([n], np.int32) for name, n in numbers.items()}
    feeds |= {name: np.array([1], np.float32) for name in ("length_penalty", "repetition_penalty")}
    made = search(feeds)
    with clgraph.compile(made, config={"device_class": kind}) as model:
        got, want = model.run(feeds), onnxruntime_outputs(made, feeds)
        (decoder,) = (m for piece in model._runner.pieces for m in piece.models if m.state)
        assert not decoder.compiled  # for no length
    np.testing.assert_array_equal(got["sequences"], want[0])


def test_the_first_word_may_have_a_decoder_of_its_own():
    feeds = {"input_ids": np.array([[5, 6, 7]], np.int32), "max_length": np.array([12], np.int32)}
    made, other = search(feeds, init_decoder=decoder()), search(feeds)
    got, want = (interpret(load_onnx(m), feeds)["sequences"] for m in (made, other))
    np.testing.assert_array_equal(got, want)


def test_what_is_not_there_is_refused_by_name():
    feeds = {"input_ids": np.array([[5, 6, 7]], np.int32), "max_length": np.array([3], np.int32)}
    for more, what in (
        ({"model_type": 1}, "model_type=1 is not supported"),
        ({"body": decoder(heads="h")}, "past 'past_0' is not declared"),
    ):
        with pytest.raises(UnsupportedError, match=what):
            load_onnx(search(feeds, **more))
    beams = feeds | {"num_beams": np.array([2], np.int32), "num_return_sequences": np.array([3], np.int32)}
    with pytest.raises(ShapeError, match="num_return_sequences is 3, not 1 to 2"):
        interpret(load_onnx(search(beams)), beams | {"max_length": np.array([5], np.int32)})
    with pytest.raises((ShapeError, InputError), match="cannot grow: max_length is 3"):
        interpret(load_onnx(search(feeds)), feeds)
