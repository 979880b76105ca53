"""Decoders of several exports, widths and sizes over a prompt and further tokens, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import onnxruntime
import pytest

import clgraph
from tests.support.decoder_folder import CHAT_TEMPLATE, tokenizer, write_decoder_folder
from tests.support.decoder_weights import Array, Decoder, Quantised
from tests.support.decoders import decoder_feeds, decoder_model, greedy_tokens, onnxruntime_run
from tests.support.oracle import WHOLE_MODEL

PROMPT = [5, 17, 80, 3, 200]
EXPORTS = ("genai", "onnx23", "optimum")
DECODERS = {
    "float32": Decoder(),
    "float16": Decoder(dtype="float16"),
    "zero points": Decoder(bits=4, zero_points=True),
    "blocks of 128": Decoder(bits=4, block=128, packed_qkv=True, width=128),
    "8 bits": Decoder(bits=8, heads=2, shared=1, head_size=96),
}


@pytest.mark.parametrize("name", DECODERS)
def test_exports_of_the_same_weights_have_the_same_tokens(name):
    d = DECODERS[name]
    kinds = [replace(d, export=e, packed_qkv=d.packed_qkv and e == "genai") for e in EXPORTS]
    found = [greedy_tokens(onnxruntime_run(decoder_model(kind)), kind, PROMPT, 6) for kind in kinds]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zero_points", [False, True])
def test_rounded_weights_are_within_a_step(bits, zero_points):
    weights = np.random.default_rng(3).standard_normal((80, 7)).astype(np.float32)
    q = Quantised.of(weights, bits, 32, zero_points=zero_points)
    values = (q.integers.astype(np.float32) - q.zero_points[:, None]) * q.scales[:, None]
    # Half a step more at the ends of ranges whose zero point is rounded too.
    steps = np.repeat(q.scales, 32, 0)[:80] * (1.0 if zero_points else 0.5)
    assert (np.abs(values.reshape(-1, 7)[:80] - weights) <= steps * (1 + 1e-6)).all()


def test_a_folder_holds_what_runtimes_read(tmp_path):
    d = Decoder(bits=4)
    folder = write_decoder_folder(tmp_path, d, chat_template=CHAT_TEMPLATE, max_length=40)
    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    want = onnxruntime_run(decoder_model(d))(decoder_feeds(d, np.array([PROMPT])))
    np.testing.assert_array_equal(session.run(None, decoder_feeds(d, np.array([PROMPT])))[0], want[0])
    words = tokenizer(d.vocabulary)
    ids = words.encode("Café in the rain").ids
    assert ids[0] == 1
    assert words.decode(ids) == "Café in the rain"


def results(model: clgraph.Model, feeds: Mapping[str, Array]) -> Sequence[Array]:
    return list(model.run(feeds).values())


SHAPES = {
    "one group of wide heads": Decoder(layers=1, width=128, heads=2, shared=1, head_size=128),
    "heads of 96 without groups": Decoder(layers=1, width=96, heads=3, shared=3, head_size=96, packed_qkv=True),
    "8 heads of 64 in a group, 4 bits": Decoder(layers=1, heads=8, shared=1, head_size=64, bits=4),
    "24 layers": Decoder(layers=24, width=32, heads=2, shared=1, inner=32),
    "32,000 tokens, blocks of 128": Decoder(layers=1, width=128, vocabulary=32000, bits=4, block=128),
    "8 bits in blocks of 16": Decoder(layers=1, bits=8, block=16, zero_points=True),
    "a window and a cap": Decoder(window=5, softcap=3.0),
    "plain, quantised": Decoder("onnx23", layers=1, bits=4, zero_points=True),
    "plain, wide heads": Decoder("onnx23", width=128, heads=2, shared=1, head_size=128),
    "spelled out": Decoder("optimum"),
    "spelled out, quantised": Decoder("optimum", layers=1, bits=4, zero_points=True),
    "halves in 4 bits": Decoder(dtype="float16", bits=4),
    "plain, halves": Decoder("onnx23", dtype="float16"),
}


@pytest.mark.opencl
@pytest.mark.parametrize("name", SHAPES)
def test_a_decoder_gives_onnxruntimes_tokens(name, device):
    d = SHAPES[name]
    model = decoder_model(d)
    compiled, run = clgraph.compile(model, device), onnxruntime_run(model)
    feeds = decoder_feeds(d, np.array([PROMPT]))
    got, want = results(compiled, feeds)[0].astype(np.float32), run(feeds)[0].astype(np.float32)
    # Halves are rounded where they are stored: a dozen tensors a layer, to 2^-11 of their values each.
    bound = WHOLE_MODEL if d.dtype == "float32" else 12 * d.layers * 2.0**-11
    assert np.abs(got - want).max() <= bound * np.abs(want).max()
    if d.dtype == "float32":
        assert greedy_tokens(partial(results, compiled), d, PROMPT, 4) == greedy_tokens(run, d, PROMPT, 4)
