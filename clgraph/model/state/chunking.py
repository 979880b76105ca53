"""Chunked prefill: the new tokens of a run in chunks, the feeds of each, and their joined results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.model.state.biases import hides_ahead, hides_before
from clgraph.model.state.cut_topology import Bias, CutTopology
from clgraph.model.state.tokens import Tokens, tokens_of

CHUNKS = (1, 16, 32, 128)
"""Tokens of each text that a program computes: a prompt comes in chunks of the last, and its rest in smaller ones.

Weights are read once a chunk: on CPU devices 32 tokens in float32 take about as long as 16.
"""

FEW = 80
"""Up to this many tokens are computed sooner in chunks of the smaller sizes than in one of the last, padded."""


def rows_for(left: int) -> int:
    """Return how many rows the program has that computes the next of *left* tokens."""
    *smaller, largest = CHUNKS
    return largest if left > FEW else next((size for size in smaller if left <= size), smaller[-1])


@frozen
class TokenChunk:
    """Tokens *start* to *start + count* of a run, computed by a program for *rows* of them."""

    start: int
    count: int
    rows: int


class Chunking:
    """Cuts runs of one cut topology into chunks.

    Attributes:
        parts: What was cut.
    """

    def __init__(self, parts: CutTopology) -> None:
        """Keep *parts*; which axes are tokens' is determined at the first run of several tokens."""
        self.parts = parts

    @cached_property
    def tokens(self) -> Tokens:
        """Which axes are tokens'."""
        return tokens_of(self.parts)

    def of(self, count: int, values: Mapping[str, Array], past: int) -> Iterator[TokenChunk]:
        """Yield the chunks of *count* tokens behind a *past*, with what the host has computed as *values*."""
        start = 0
        if count in CHUNKS or not self.parts.token_axes or not self.tokens.apart:
            yield TokenChunk(0, count, count)
            return
        if not self.tokens.behind or not self._causal(values, past):
            # Nothing shows rows behind the tokens where a bias does not: it is as wide as the tokens are.
            yield TokenChunk(0, count, max(CHUNKS[1], 1 << (count - 1).bit_length()) if self.parts.biases else count)
            return
        while start < count:
            left = count - start
            rows = rows_for(left)
            yield TokenChunk(start, min(rows, left), rows)
            start += rows

    def unpadded(self, count: int, results: Sequence[str]) -> Iterator[TokenChunk]:
        """Yield chunks without rows behind their tokens, which values that are carried would take for tokens."""
        tokens = self.tokens
        if not tokens.behind or any(tokens.results[name] is None for name in results):
            yield TokenChunk(0, count, count)
            return
        start = 0
        for rows in reversed(CHUNKS):
            while count - start >= rows:
                yield TokenChunk(start, rows, rows)
                start += rows

    def _causal(self, values: Mapping[str, Array], past: int) -> bool:
        """Whether no token sees one behind it, as far as attentions or what is added to their scores say."""
        if self.parts.wide is not None:
            return self.parts.wide.causal(values, past)
        if not self.parts.looks_ahead:
            return True
        return bool(self.parts.biases) and all(self._hides(b, values[b.value], past) for b in self.parts.biases)

    def _hides(self, bias: Bias, given: Array, past: int) -> bool:
        """Whether *given* hides tokens behind each, and those that a later chunk of several has not got."""
        if not bias.latest:
            return hides_ahead(given, past)
        return hides_ahead(given, min(past, bias.latest)) and hides_before(given, bias.latest)

    def cut(self, feeds: Mapping[str, Array], chunk: TokenChunk, count: int, past: int) -> dict[str, Array]:
        """Return what *feeds* have for the tokens of *chunk*, and of inputs that grow for all up to its last."""
        if chunk.count == count:
            return dict(feeds)
        names = {self.parts.shapes[n][i] for n, axes in self.parts.token_axes.items() for i in axes}
        found = {}
        for name, array in feeds.items():
            index = [slice(None)] * array.ndim
            axes = self.parts.token_axes.get(name)
            for i, d in enumerate(self.parts.shapes[name]):
                if i in axes if axes is not None else d in names and d is not None:
                    index[i] = slice(chunk.start, chunk.start + chunk.count)
                elif axes is None and not isinstance(d, int) and array.shape[i] == past + count and i > 0:
                    index[i] = slice(0, past + chunk.start + chunk.count)
            found[name] = array[tuple(index)]
        return found

    def told(
        self, feeds: Mapping[str, Array], values: Mapping[str, Array] | None, batch: int, chunk: TokenChunk, past: int
    ) -> dict[str, Array]:
        """Return what the host computes for *chunk*, *values* if that is known: for all of its rows, but for biases."""
        parts, more = self.parts, chunk.rows - chunk.count
        found = dict(values or parts.host_values(feeds, batch, past))
        if more and parts.crossing:
            wide = {n: padded(a, self._axes(n, a, past + chunk.count), more) for n, a in feeds.items()}
            told = parts.host_values(wide, batch, past)
            found |= {name: told[name] for name in parts.crossing}
        return found

    def _axes(self, name: str, array: Array, total: int) -> tuple[int, ...]:
        """Return the axes of an input that have a place for each new token, or for all tokens up to *total*."""
        axes, shape = self.parts.token_axes.get(name), self.parts.shapes[name]
        if axes is not None:
            return axes
        return tuple(i for i, d in enumerate(shape) if i and not isinstance(d, int) and array.shape[i] == total)

    def rows_of(self, bias: Array, more: int) -> Array:
        """Return a bias ``[..., tokens, all]`` with its last row *more* times again; one row for all as it is."""
        return padded(bias, (bias.ndim - 2,), more) if more and bias.ndim > 1 and bias.shape[-2] > 1 else bias

    def without(self, name: str, array: Array, chunk: TokenChunk) -> Array:
        """Return a result without the rows behind the tokens of *chunk*."""
        axis = self.tokens.results[name]
        assert axis is not None
        return array[(*[slice(None)] * axis, slice(0, chunk.count))]

    def last_of(self, name: str, array: Array, chunk: TokenChunk) -> Array:
        """Return the last token of a result of the last chunk, which may have no other."""
        axis = self.tokens.results[name]
        return array if axis is None else array[(*[slice(None)] * axis, slice(array.shape[axis] - 1, None))]

    def joined(self, name: str, parts: Sequence[Array], target: Array | None) -> Array:
        """Return a result of all chunks, in *target* if there is one."""
        if target is not None and parts[0] is target:
            return target
        found = parts[0]
        if len(parts) > 1:
            axis = self.tokens.results[name]
            assert axis is not None
            found = np.concatenate(parts, axis)
        if target is None:
            return found if found.flags.c_contiguous else np.ascontiguousarray(found)
        target[...] = found
        return target


def padded(array: Array, axes: Sequence[int], more: int) -> Array:
    """Return *array* with its last entry along *axes* repeated *more* times."""
    if not axes:
        return array
    return np.pad(array, [(0, more if i in axes else 0) for i in range(array.ndim)], mode="edge")
