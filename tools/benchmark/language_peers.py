"""Runtimes that continue texts greedily: each opens a folder, and returns what makes the tokens behind a prompt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

import clgraph
from clgraph.generate.options import Options as Choosing
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_feeds
from tools.benchmark.peers import Options, installed, onnxruntime_options

Continue = Callable[[Sequence[int]], Iterator[int]]
"""Returns the tokens behind a prompt, each computed when it is asked for, the first with the prompt."""

GENAI = "onnxruntime-genai"


def with_clgraph(folder: Path, d: Decoder, options: Options) -> Continue:
    lm = clgraph.generate.load(folder, options.device, threads=options.workers)
    return lambda prompt: lm.tokens(prompt, Choosing(ignore_end=True))


def with_onnxruntime(folder: Path, d: Decoder, options: Options) -> Continue:
    """Feed the caches back as arrays, as programs do."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        folder / "model.onnx", onnxruntime_options(options), providers=["CPUExecutionProvider"]
    )

    def tokens(prompt: Sequence[int]) -> Iterator[int]:
        ids, caches = np.array([prompt]), []
        while True:
            logits, *caches = session.run(None, decoder_feeds(d, ids, caches))
            yield (token := int(logits[0, -1].argmax()))
            ids = np.array([[token]])

    return tokens


def with_genai(folder: Path, d: Decoder, options: Options) -> Continue:
    import onnxruntime_genai

    config = onnxruntime_genai.Config(str(folder))
    threads = {"intra_op_num_threads": options.threads, "inter_op_num_threads": 1}
    config.overlay(json.dumps({"model": {"decoder": {"session_options": threads}}}))
    model = onnxruntime_genai.Model(config)

    def tokens(prompt: Sequence[int]) -> Iterator[int]:
        search = onnxruntime_genai.GeneratorParams(model)
        search.set_search_options(do_sample=False, max_length=d.positions)
        generator = onnxruntime_genai.Generator(model, search)
        generator.append_tokens(np.array([prompt], np.int32))
        while True:
            generator.generate_next_token()
            yield int(generator.get_next_tokens()[0])

    return tokens


LANGUAGE_RUNTIMES: dict[str, Callable[[Path, Decoder, Options], Continue]] = {
    "clgraph": with_clgraph,
    "onnxruntime": with_onnxruntime,
    GENAI: with_genai,
}


def peers_of(d: Decoder) -> list[str]:
    """Return the other runtimes that are installed and read the export."""
    there = [name for name in LANGUAGE_RUNTIMES if name != "clgraph" and installed(name)]
    return [name for name in there if name != GENAI or d.export == "genai"]
