"""One text in the making: a decoder that is fed tokens and its own cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.generate.folder import Names
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.model.model import Model

Step = Callable[[Mapping[str, Array]], Array]
"""Runs a decoder on new tokens and returns the logits."""


@frozen
class Feeding:
    """How a decoder is fed.

    Attributes:
        mask, positions: ``None`` where it has no such input.
        pairs: Inputs for the cache, with the outputs that are fed to them in the next run.
    """

    ids: str
    mask: str | None
    positions: str | None
    logits: str
    pairs: tuple[tuple[str, str], ...]


def feeding_of(model: Model, names: Names) -> Feeding:
    """Return how *model* is fed.

    Raises:
        UnsupportedError: It has inputs besides tokens, mask, positions and cache, or lacks some.
    """
    inputs, outputs = {s.name for s in model.inputs}, {s.name for s in model.outputs}
    pairs = _pairs(names, inputs)
    known = {names.input_ids, names.attention_mask, names.position_ids, *(past for past, _ in pairs)}
    wanted = {names.input_ids, *(past for past, _ in pairs)} - inputs
    wanted |= {names.logits, *(present for _, present in pairs)} - outputs
    if missing := sorted(wanted):
        raise UnsupportedError(
            f"the model has no input or output {missing[0]!r}: it is no decoder with a cache, or calls things "
            f"otherwise than its folder says; it has {', '.join(sorted(inputs | outputs))}"
        )
    if odd := sorted(inputs - known):
        raise UnsupportedError(f"nothing is known about the decoder's input {odd[0]!r}: export it without")
    return Feeding(
        names.input_ids,
        names.attention_mask if names.attention_mask in inputs else None,
        names.position_ids if names.position_ids in inputs else None,
        names.logits,
        tuple(pairs),
    )


def vocabulary_of(model: Model, feeding: Feeding) -> int | None:
    """Return how many tokens there are, ``None`` where the model does not declare it."""
    shapes = {s.name: s.shape for s in model.outputs}
    last = (shapes[feeding.logits] or (None,))[-1]
    return last if isinstance(last, int) else None


def _pairs(names: Names, inputs: set[str]) -> list[tuple[str, str]]:
    """Return the cache's inputs and outputs of each layer that has one of *inputs*, those of the first in any case."""
    parts = ((names.past_key_names, names.present_key_names), (names.past_value_names, names.present_value_names))
    found: list[tuple[str, str]] = []
    while not found or any(_of_layer(past, len(found) // 2) in inputs for past, _ in parts):
        found += [(_of_layer(past, len(found) // 2), _of_layer(present, len(found) // 2)) for past, present in parts]
    return found


class Reader(Protocol):
    """One text that a decoder reads: alone, or beside others."""

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
        """Read, and return the logits behind the last token, as :class:`Reader` has it."""
        feeding, tokens = self._feeding, self._next
        total = self.length + len(tokens)
        feeds = {feeding.ids: np.array([tokens], np.int64)}
        if feeding.mask is not None:
            feeds[feeding.mask] = np.ones((1, total), np.int64)
        if feeding.positions is not None:
            feeds[feeding.positions] = np.arange(self.length, total)[None]
        logits: Array = self._run(feeds)[0, -1].astype(np.float32, copy=False)
        self.length = total
        return logits


def is_kept(model: Model, feeding: Feeding) -> bool:
    """Whether all caches of *model* are recognised as its state."""
    return {(pair.input, pair.output) for pair in model.state} == set(feeding.pairs)


def _in_session(model: Model, feeding: Feeding) -> Step:
    session = model.session()
    return lambda feeds: session.run(feeds, outputs=[feeding.logits], last=True)[feeding.logits]


def _fed_back(model: Model, feeding: Feeding) -> Step:
    signatures = {s.name: s for s in model.inputs}
    caches = {past: _empty(signatures[past]) for past, _ in feeding.pairs}

    def run(feeds: Mapping[str, Array]) -> Array:
        results = model.run({**feeds, **caches})
        caches.update({past: results[present] for past, present in feeding.pairs})
        return results[feeding.logits]

    return run


def _of_layer(name: str, layer: int) -> str:
    return name.replace("%d", str(layer))


def _empty(signature: Signature) -> Array:
    """Return a cache ``[1, heads, 0, size]`` of no token."""
    shape = signature.shape or ()
    if len(shape) != 4 or signature.dtype is None:
        raise UnsupportedError(f"the cache {signature} is not [batch, heads, tokens, size]")
    batch, heads, tokens, size = shape
    if not (isinstance(heads, int) and isinstance(size, int)):
        raise UnsupportedError(f"the cache {signature} has open heads or sizes: export it with them known")
    if isinstance(tokens, int) or (isinstance(batch, int) and batch != 1):
        raise UnsupportedError(f"the cache {signature} has a fixed number of texts or tokens: export it with open ones")
    return np.zeros((1, heads, 0, size), signature.dtype.numpy)
