"""Models with inputs of several shapes, and what ONNX Runtime makes of them, computed before anything is tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from clgraph import Preprocess, compile
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model, greedy_tokens, onnxruntime_run
from tests.support.graphs import FLOAT, INT
from tests.support.models import image, small_model
from tests.support.open_models import convolutions, open_model
from tests.support.oracle import WHOLE_MODEL, session
from tests.support.zoo import TINY, ZOO
from tests.support.zoo_text import encoder, tokens

Array = NDArray[Any]
Feeds = Mapping[str, Array]

DECODER = Decoder("genai", 1)
PROMPT = tuple(int(token) for token in np.random.default_rng(0).integers(0, DECODER.vocabulary, 20))
TOKENS = 12


@dataclass(frozen=True)
class Specimen:
    """A model, requests for it, and the results that each must have.

    Attributes:
        joins: Whether its requests may be joined to batches.
        preprocess: What is done to its requests, which are images.
    """

    name: str
    model: bytes
    requests: tuple[Feeds, ...]
    wanted: tuple[Mapping[str, Array], ...]
    joins: bool = False
    preprocess: Preprocess | None = None

    def compiled(self, **options: Any) -> Any:
        """Return it compiled, as ``clgraph.compile`` does; raises as that."""
        return compile(self.model, preprocess=self.preprocess, **options)

    def wrong(self, number: int, results: Mapping[str, Any]) -> str:
        """Say what is wrong with the *results* of request *number*; nothing where they are right."""
        for name, there in self.wanted[number].items():
            here = np.asarray(results[name])
            if here.shape != there.shape or here.dtype != there.dtype:
                return f"{name} is {here.dtype}{here.shape}, not {there.dtype}{there.shape}"
            if here.dtype.kind != "f":
                if not (here == there).all():
                    return f"{name} has other elements"
            elif not np.isfinite(here).all():
                return f"{name} has what is not a number"
            elif here.size and (off := np.abs(here - there).max()) > WHOLE_MODEL * np.abs(there).max():
                return f"{name} is off by {off:g} of {np.abs(there).max():g}"
        return ""


def specimens() -> tuple[Specimen, ...]:
    """Return all: convolutions of open and fixed sizes, encoders, a detector, stages, control flow, a reshape."""
    small = small_model(size="n")
    small.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    pictures = [{"x": image((b, 3, n, n), b + n)} for b, n in ((1, 10), (2, 10), (1, 72), (3, 33), (1, 128), (4, 16))]
    texts = [tokens(b, n, TINY.vocabulary, seed=n) for b, n in ((1, 5), (2, 13), (1, 40), (3, 8), (1, 21))]
    found = [
        _specimen("small", small, pictures, joins=True),
        _specimen("convolutions", convolutions(), [{"x": image((1, 3, n, n + 3), n)} for n in (12, 20, 31, 48)]),
        _specimen("encoder", encoder(TINY, "batch", "tokens"), texts, joins=True),
        _specimen("peaks", peaks(), [{"x": image((1, 3, n, n), n)} for n in (9, 16, 30)]),
        _specimen("steps", steps(), [{"x": image((n, 8), n), "k": np.array(k)} for n, k in ((1, 3), (5, 7), (9, 1))]),
        _specimen("matrices", matrices(), [{"x": image((n, 96), n)} for n in (1, 3, 17, 64)]),
    ]
    for name in ("small_mobilenet_v3", "small_yolov8"):
        model, feeds = ZOO[name].make()
        found.append(_specimen(name, model, [feeds]))
    return (*found, pictures_of(small_model(size="n")))


def pictures_of(model: onnx.ModelProto) -> Specimen:
    """Return *model* fed images of bytes, which are made 32 by 32: every second pixel, all, or each four times."""
    rng = np.random.default_rng(5)
    images = [rng.integers(0, 256, (n, n, 3), np.uint8) for n in (32, 16, 64)]
    same = [images[0], images[1].repeat(2, 0).repeat(2, 1), images[2][::2, ::2]]
    planes = [{"x": ((a.astype(np.float32) - 127) / 64).transpose(2, 0, 1)[None]} for a in same]
    done = Preprocess(size=(32, 32), resize="nearest", rule="opencv", mean=127, scale=64)
    found = _specimen("pictures", model, planes)
    return replace(found, requests=tuple({"x": a} for a in images), preprocess=done)


def _specimen(name: str, model: onnx.ModelProto, requests: Sequence[Feeds], *, joins: bool = False) -> Specimen:
    made = session(model, 1)
    names = [o.name for o in made.get_outputs()]
    wanted = tuple(dict(zip(names, made.run(None, dict(feeds)), strict=True)) for feeds in requests)
    return Specimen(name, model.SerializeToString(), tuple(requests), wanted, joins)


def peaks() -> onnx.ModelProto:
    """Return a network that finds places, as many as the data has: it runs in stages."""
    node = helper.make_node
    return open_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
            node("Greater", ["c", "limit"], ["above"]),
            node("NonZero", ["above"], ["places"]),
            node("Transpose", ["places"], ["rows"]),
            node("GatherND", ["c", "rows"], ["found"]),
            node("ReduceSum", ["found"], ["y"], keepdims=1),
        ],
        {"x": (FLOAT, ("n", 3, "h", "w_"))},
        {"w": image((4, 3, 3, 3), 2), "limit": np.float32(3)},
    )


def steps() -> onnx.ModelProto:
    """Return a loop of as many trips as an input says."""
    node, value = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [node("MatMul", ["v", "m"], ["p"]), node("Tanh", ["p"], ["v2"]), node("Identity", ["go"], ["go2"])],
        "body",
        [value("i", INT, []), value("go", onnx.TensorProto.BOOL, []), value("v", FLOAT, None)],
        [value("go2", onnx.TensorProto.BOOL, []), value("v2", FLOAT, None)],
    )
    return open_model(
        [node("Loop", ["k", "", "x"], ["y"], body=body)],
        {"x": (FLOAT, ("n", 8)), "k": (INT, ())},
        {"m": image((8, 8), 3) / 3},
    )


def matrices() -> onnx.ModelProto:
    """Return two dense layers with a normalisation and a softmax."""
    node = helper.make_node
    return open_model(
        [
            node("MatMul", ["x", "a"], ["h"]),
            node("LayerNormalization", ["h", "scale"], ["n"]),
            node("Relu", ["n"], ["g"]),
            node("MatMul", ["g", "b"], ["s"]),
            node("Softmax", ["s"], ["y"]),
        ],
        {"x": (FLOAT, ("n", 96))},
        {
            "a": image((96, 192), 4) / 10,
            "scale": np.linspace(0.5, 1.5, 192, dtype=np.float32),
            "b": image((192, 40), 5) / 14,
        },
    )


@cache
def text_model() -> bytes:
    """Return a decoder that keeps its state."""
    return decoder_model(DECODER).SerializeToString()


@cache
def text() -> tuple[int, ...]:
    """Return the tokens that the decoder makes behind the prompt."""
    return tuple(greedy_tokens(onnxruntime_run(decoder_model(DECODER)), DECODER, PROMPT, TOKENS))
