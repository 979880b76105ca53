"""One text in the making: a decoder that is fed tokens and its own cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from clgraph.errors import UnsupportedError
from clgraph.generate.decoder_session import DecoderSession, chunks
from clgraph.generate.feeding import Feeding
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.model.model import Model

Step = Callable[[Mapping[str, Array]], Array]
"""Runs a decoder on new tokens and returns the logits."""


class DecoderSequence(Protocol):
    """A text that a decoder generates: alone, or in a batch."""

    def push(self, tokens: Sequence[int]) -> None:
        """Have *tokens* read next."""

    def logits(self) -> Array:
        """Return the logits ``[vocabulary]`` behind what was pushed, in float32.

        Raises:
            ClgraphError: The model cannot be compiled for the length, or the device fails; the text is as it was.
        """


class Decoding:
    """One text that a decoder has read so far.

    Its cache is a session's, on the device, where the model's caches are recognised as its state; else it is fed back
    as arrays, and every length is compiled.

    Attributes:
        length: How many tokens it has read.
    """

    def __init__(self, model: Model, feeding: Feeding) -> None:
        """Start a text."""
        self._feeding, self.length = feeding, 0
        self._next: Sequence[int] = ()
        self._run = _in_session(model, feeding) if is_kept(model, feeding) else _fed_back(model, feeding)

    def push(self, tokens: Sequence[int]) -> None:
        """Have *tokens* read next."""
        self._next = tokens

    def logits(self) -> Array:
        """Read, and return the logits behind the last token, as :class:`DecoderSequence` has it."""
        total = self.length + len(self._next)
        ids, mask, places = np.array([self._next]), np.ones((1, total), np.int64), np.arange(self.length, total)[None]
        logits: Array = self._run(self._feeding.feeds(ids, mask, places))[0, -1].astype(np.float32, copy=False)
        self.length = total
        return logits


def is_kept(model: Model, feeding: Feeding) -> bool:
    """Whether all caches of *model* are recognised as its state."""
    return {pair.input: pair.output for pair in model.state} | dict(feeding.carried) == feeding.pairs


def _in_session(model: Model, feeding: Feeding) -> Step:
    decoder = DecoderSession(model, feeding)
    return lambda feeds: decoder.run(feeds, last=True)


def _fed_back(model: Model, feeding: Feeding) -> Step:
    signatures = {s.name: s for s in model.inputs}
    caches = {past: _empty(signatures[past], grows=past not in feeding.carried) for past in feeding.pairs}

    def run(feeds: Mapping[str, Array]) -> Array:
        fed = dict(caches)
        for chunk in chunks(feeding, feeds, (1,)) if feeding.single else (feeds,):
            results = model.run({**chunk, **fed})
            fed = {past: results[present] for past, present in feeding.pairs.items()}
        caches.update(fed)
        return results[feeding.logits]

    return run


def _empty(signature: Signature, *, grows: bool) -> Array:
    """Return what a layer is fed back before the first token: a cache ``[1, heads, 0, size]``, or zeros."""
    shape = signature.shape or ()
    if signature.dtype is None or (grows and len(shape) != 4) or not shape:
        raise UnsupportedError(f"the cache {signature} is not [batch, heads, tokens, size]")
    if grows and isinstance(shape[2], int):
        raise UnsupportedError(f"the cache {signature} has a fixed number of tokens: export it with an open one")
    if isinstance(shape[0], int) and shape[0] != 1:
        raise UnsupportedError(f"the cache {signature} has a fixed number of texts: export it with an open one")
    sizes = [1, *(0 if grows and i == 2 else d for i, d in enumerate(shape) if i)]
    if not all(isinstance(d, int) for d in sizes):
        raise UnsupportedError(f"the cache {signature} has open heads or sizes: export it with them known")
    return np.zeros([d for d in sizes if isinstance(d, int)], signature.dtype.numpy)
