"""Several texts in one program: rows of a batch, padded on the side where the model hides what is not a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from clgraph.generate.decoder_session import DecoderSession
from clgraph.generate.decoding import DecoderSequence, is_kept
from clgraph.generate.feeding import Feeding
from clgraph.graph.primitive import Array
from clgraph.model.model import Model


def readers(model: Model, feeding: Feeding, prompts: Sequence[Sequence[int]]) -> list[DecoderSequence] | None:
    """Return readers of a batch for *prompts*, which each is to push first; ``None`` where the model cannot have one.

    It can where its caches are recognised and take any number of tokens, and where prompts of different lengths can be
    padded: to the left only if the model reads positions, which would count the padding otherwise.
    """
    if len(prompts) < 2 or (feeding.single and feeding.caches) or not is_kept(model, feeding):
        return None
    decoder = DecoderSession(model, feeding)
    padding = decoder.session.padding if feeding.mask is not None else None
    if len({len(p) for p in prompts}) > 1 and (padding is None or (padding == "left" and feeding.positions is None)):
        return None
    batch = _Batch(decoder, feeding, padding or "left", len(prompts))
    return [_Row(batch, i) for i in range(len(prompts))]


class _Row:
    """One text of a batch."""

    def __init__(self, batch: _Batch, number: int) -> None:
        self._batch, self._number = batch, number

    def push(self, tokens: Sequence[int]) -> None:
        """Have *tokens* read when any text of the batch asks for logits."""
        self._batch.waiting[self._number] = tokens

    def logits(self) -> Array:
        """Return the logits behind what was pushed; read for all texts that have pushed something."""
        if self._number in self._batch.waiting:
            self._batch.read()
        return self._batch.found.pop(self._number)


class _Batch:
    """Texts that have been read so far.

    A text that pushes nothing any more keeps its row, which reads a token that is forgotten.

    Attributes:
        waiting: Tokens to be read, by the text's number.
        found: Logits ``[vocabulary]`` that were not asked for yet.
    """

    def __init__(
        self, decoder: DecoderSession, feeding: Feeding, padding: Literal["left", "right"], count: int
    ) -> None:
        self.waiting: dict[int, Sequence[int]] = {}
        self.found: dict[int, Array] = {}
        self._decoder, self._feeding, self._padding = decoder, feeding, padding
        self._lengths = np.zeros(count, np.int64)
        self._mask = np.zeros((count, 0), np.int64)

    def read(self) -> None:
        """Read what is waiting; all texts stay as they were where that raises."""
        rows, feeding = [self.waiting.get(i, (0,)) for i in range(len(self._lengths))], self._feeding
        counts = np.array([len(row) for row in rows])
        ids, new = _padded(rows, self._padding)
        mask = self._masked(new, counts)
        own = np.arange(ids.shape[1]) if self._padding == "right" else np.maximum(new.cumsum(1) - 1, 0)
        feeds = feeding.feeds(ids, mask, self._lengths[:, None] + own)
        last = self._padding == "left" or ids.shape[1] == 1 or len(set(counts.tolist())) == 1
        logits = self._decoder.run(feeds, last=last)
        for i in self.waiting:
            self.found[i] = logits[i, -1 if last else counts[i] - 1].astype(np.float32)
            self._lengths[i] += counts[i]
        self.waiting, self._mask = {}, mask

    def _masked(self, new: Array, counts: Array) -> Array:
        """Return which of all places hold tokens, with the *new* ones."""
        if self._padding == "left":
            return np.concatenate([self._mask, new], 1)
        totals = self._lengths + counts
        return (np.arange(totals.max()) < totals[:, None]).astype(np.int64)


def _padded(rows: Sequence[Sequence[int]], padding: Literal["left", "right"]) -> tuple[Array, Array]:
    """Return the tokens of *rows* ``[texts, most]``, and ones where they are."""
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    there = np.zeros_like(ids)
    for i, row in enumerate(rows):
        at = slice(len(row)) if padding == "right" else slice(ids.shape[1] - len(row), None)
        ids[i, at], there[i, at] = row, 1
    return ids, there
