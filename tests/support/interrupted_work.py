"""What ``tools/check_interrupts`` interrupts: calls of clgraph that do the same whenever they are made.

A scenario is given a device, prepares objects that live on from call to call, and returns the call.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import clgraph
from clgraph.errors import RunCancelledError
from clgraph.model.state.session import Session
from tests.support.decoder_folder import write_decoder_folder
from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model
from tests.support.hybrid import hybrid_model
from tests.support.models import image, small_model
from tests.support.recurrent_decoder import recurrent_decoder

SIZES = (12, 18)
LARGE = 160
"""The sides of a picture that is read, and whose result is written, in the caller's arrays."""
MODEL = small_model(size="n").SerializeToString()
UNCACHED = {"model_cache": 0}
PLENTY = 600.0
Call = Callable[[], object]
Scenario = Callable[[str], Call]

CHOSEN = """
    < ir_version: 8, opset_import: ["" : 17] >
    chosen (float[n] x) => (int64[1, m] places, float[k] y) {
        places = NonZero(x)
        rows = Squeeze(places)
        found = Gather(x, rows)
        y = Exp(found)
    }
"""
TOKENS = (5, 9, 17, 4, 30, 2, 11, 8)
"""A text: a prompt of three, and what follows it one by one."""


def compiling(device: str) -> Call:
    """Return what compiles a model and runs it for several shapes; it returns bits and kernels."""
    return lambda: _told(clgraph.compile(MODEL, device, config=UNCACHED))


def saving(device: str) -> Call:
    """Return the same of a model that is saved and loaded."""

    def call() -> object:
        with tempfile.TemporaryDirectory() as folder:
            model = clgraph.compile(MODEL, device, config=UNCACHED)
            model.prepare({"x": (1, 3, SIZES[0], SIZES[0])})
            model.save(Path(folder) / "model.clg")
            return _told(clgraph.load(Path(folder) / "model.clg", device))

    return call


def caching(device: str) -> Call:
    """Return what compiles a model twice, which the model cache then has, and its image; it returns the bits."""

    def call() -> object:
        with tempfile.TemporaryDirectory() as folder:
            path, found = Path(folder) / "model.onnx", []
            path.write_bytes(MODEL)
            os.utime(path, (1e9, 1e9))
            for _ in range(2):
                model = clgraph.compile(path, device, {"x": (1, 3, 16, 16)}, config={"model_cache": 64})
                found.append(_bits(model.run({"x": image((1, 3, 16, 16))})))
                model.close()
            return found

    return call


def running(device: str) -> Call:
    """Return what runs a model of fixed shapes, members of a family, and stages, in every way that there is."""
    fixed = clgraph.compile(small_model(size=LARGE), device, config=UNCACHED)
    family = clgraph.compile(MODEL, device, config={**UNCACHED, "shape_cache": 0})
    staged = clgraph.compile(onnx.parser.parse_model(CHOSEN).SerializeToString(), device, config=UNCACHED)
    large, chosen = image((1, 3, LARGE, LARGE)), np.arange(-3, 5, dtype=np.float32)
    family.run({"x": image((1, 3, 8, 8))})

    def call() -> object:
        into = np.empty((1, 8, LARGE // 2, LARGE // 2), np.float32)
        found = [_bits(fixed.run({"x": large}))]
        found += [_bits(fixed.run(x, outputs={"y": into})) for x in ({"x": large}, {"x": large[..., ::-1]})]
        found.append(_bits({"y": fixed.run({"x": large}, tensors=True)["y"].numpy()}))
        found.append(_bits(fixed.run({"x": large}, timeout=PLENTY, cancellation=clgraph.Cancellation())))
        found.append(_ended(lambda: fixed.run({"x": large}, timeout=0)))
        found.append(_ended(lambda: fixed.run({"x": large}, cancellation=_cancelled())))
        found += [_bits(future.result()) for future in [fixed.run_async({"x": large}) for _ in range(3)]]
        found += [_bits(family.run({"x": image((1, 3, n, n), n)})) for n in SIZES]
        found += [_bits(staged.run({"x": chosen[at:]})) for at in range(2)]
        return [*found, _bits(fixed.clone().run({"x": large}))]

    return call


def streaming(device: str) -> Call:
    """Return what sends requests to a model in streams, of which few may wait."""
    joined = clgraph.Batching(4)
    model = clgraph.compile(MODEL, device, config=UNCACHED, hint="throughput", streams=1, batching=joined, queue_size=1)
    x = image((1, 3, 16, 16))

    def call() -> object:
        found = [_bits(model.run({"x": x}, queue_timeout=PLENTY))]
        found.append(_bits(model.run({"x": x}, timeout=PLENTY)))
        found.append(_ended(lambda: model.run({"x": x}, timeout=0)))
        futures = [model.submit({"x": x}) for _ in range(3)]
        return [*found, *(_bits(future.result()) for future in futures)]

    return call


def keeping(device: str) -> Call:
    """Return what reads a text in sessions, with caches, with carried values, and with both.

    An interrupted run has read its tokens or it has not: where the length tells, the session goes on from there. It
    forks, and is cut.
    """
    cached = _Text(decoder_model(Decoder(layers=1)), device)
    hybrid = _Text(hybrid_model(Decoder(layers=1)), device)
    recurrent = clgraph.compile(recurrent_decoder().SerializeToString(), device, config=UNCACHED).session()

    def call() -> object:
        found = [hybrid.read(), cached.read(), cached.fork(4)]
        recurrent.reset()
        return [*found, *(_bits(recurrent.run({"input_ids": np.array([[token]])})) for token in TOKENS)]

    return call


def generating(device: str) -> Call:
    """Return what generates texts, alone and as a batch."""
    with tempfile.TemporaryDirectory() as folder:
        made = clgraph.generate.load(write_decoder_folder(Path(folder) / "model", Decoder(layers=1)), device)
        options = clgraph.generate.Options(max_tokens=3, ignore_end=True)
        assert made.tokenizer

    def call() -> object:
        alone = made.generate([1, 5, 9], options)
        return alone.text, alone.tokens, [each.tokens for each in made.generate_all([[1, 7], [1, 5, 9]], options)]

    return call


class _Text:
    """A text in a session: each call goes on where the one before has come to, and then begins anew."""

    def __init__(self, model: onnx.ModelProto, device: str) -> None:
        self._model = clgraph.compile(model.SerializeToString(), device, config=UNCACHED)
        self._session, self._known = self._model.session(), dict[int, bytes]()
        self._known = self._rest(self._session)

    def read(self) -> object:
        """Read what is left of the text, then all of it; return the logits of all of it."""
        self._rest(self._session)
        self._session.reset()
        return self._rest(self._session)

    def fork(self, length: int) -> object:
        """Fork the session, cut the other to *length*, and read what is left there."""
        other = self._session.fork()
        other.truncate(length)
        found = self._rest(other)
        other.close()
        return found

    def _rest(self, session: Session) -> dict[int, bytes]:
        """Return the logits of what is left of the text, by the number of tokens in front; they are those known."""
        found = {}
        while (length := session.length) < len(TOKENS):
            new = TOKENS[length : length + (1 if length else 3)]
            places = np.arange(length, length + len(new))
            shapes = {name: signature.shape for name, signature in self._model.topology.inputs.items()}
            feeds = {"input_ids": np.array([new])}
            if "position_ids" in shapes:
                feeds["position_ids"] = np.broadcast_to(places, (3, 1, len(new)))
            found[length] = session.run(feeds, outputs=["logits"])["logits"].tobytes()
            assert self._known.get(length, found[length]) == found[length], f"the run behind {length} tokens"
        return found


def _told(model: clgraph.Model) -> object:
    results = [_bits(model.run({"x": image((1, 3, n, n), n)})) for n in SIZES]
    kernels = [[str(getattr(n.choice, "name", n.choice)) for n in s.program] for s in model.compiled.values()]
    return results, kernels


def _bits(results: Mapping[str, Any]) -> object:
    return {name: (np.shape(y), np.asarray(y).tobytes()) for name, y in results.items()}


def _cancelled() -> clgraph.Cancellation:
    made = clgraph.Cancellation()
    made.cancel()
    return made


def _ended(run: Callable[[], object]) -> object:
    """Return the class of the error that ends *run* early."""
    try:
        return run()
    except RunCancelledError as error:
        return type(error)


SCENARIOS: dict[str, Scenario] = {
    "compile": compiling,
    "save": saving,
    "cache": caching,
    "run": running,
    "streams": streaming,
    "session": keeping,
    "generate": generating,
}
