"""Words behind texts, one by one, of a decoder that is a body: what ONNX Runtime's searches have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from clgraph.core.frozen import frozen, mutable
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode
from clgraph.graph.interpret import ControlFlow, RunBody
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology

_FED = 3
"""Inputs of a decoder in front of its pasts: words, places and mask."""


@frozen
class DecoderSearch(ControlFlow):
    """Base of such searches.

    The first inputs are words ``[batch, tokens]``, padded on the left, and the length; then as *given* says the length
    below which no text ends, a penalty that scores of words in the text are divided by (multiplied where they are
    negative), masks ``[words]`` of those that may come at all and ``[batch, words]`` at the first step, a mask of the
    texts ``[batch, tokens]``; what the bodies read from around.

    A body takes words ``[batch, n]``, their places, a mask of all tokens and pasts ``[2, batch, heads, tokens, D]``; it
    makes scores ``[batch, n, words]`` and presents. Places count the tokens of a text that are no padding.

    Attributes:
        decoder: Makes every word.
        first: Makes the first word; ``None``: as the others are.
        end, padding: Words that end a text, and that stand in front of it and behind it.
        ngram: Words that do not follow one another in the same order twice; 0: any may.
        words: How many words there are; 0: as many as scores.
        given: Names of the inputs behind the length, in their order.
    """

    decoder: Topology
    first: Topology | None
    end: int
    padding: int
    ngram: int = 0
    words: int = 0
    given: tuple[str, ...] = ()

    def bodies(self) -> Mapping[str, Topology]:
        return {"decoder": self.decoder} | ({} if self.first is None else {"init_decoder": self.first})

    def begin(self, inputs: Sequence[Any], run: RunBody, rows: str = "") -> Search:
        """Return the search at its beginning; each text once, or as often as the input *rows* says."""
        texts, length, *rest = inputs
        given, around = dict(zip(self.given, rest, strict=False)), rest[len(self.given) :]
        if texts.ndim != 2 or 0 in texts.shape:
            raise ShapeError(f"tokens {list(texts.shape)} are not [batch, tokens]")
        if texts.shape[1] >= (most := int(number(length))):
            raise ShapeError(f"sequences of {texts.shape[1]} tokens cannot grow: max_length is {most}")
        count = int(number(given[rows])) if rows else 1
        if count < 1:
            raise ShapeError(f"{rows} is {count} and must be at least 1")
        texts = np.repeat(texts, count, axis=0)
        for name in {"attention_mask", "prefix_vocab_mask"} & given.keys():
            given[name] = np.repeat(given[name], count, axis=0)
        told = texts != self.padding
        mask = given.get("attention_mask", told).astype(np.int32)
        places = np.where(told, np.cumsum(told, axis=1) - 1, 0).astype(np.int32)
        after, pasts = told.sum(1, dtype=np.int32), self._empty(len(texts))
        return Search(self, run, given, around, most, texts, texts, places, mask, after, pasts)

    def _empty(self, batch: int) -> list[Array]:
        """Return pasts of no tokens."""
        found = []
        for name in tuple(self.decoder.inputs)[_FED : _FED + len(self.decoder.outputs) - 1]:
            signature = self.decoder.inputs[name]
            assert signature.dtype is not None
            sizes = [d if isinstance(d, int) else 0 for d in signature.shape or ()]
            found.append(np.zeros((2, batch, sizes[2], 0, sizes[4]), signature.dtype.numpy))
        return found

    def allowed(self, scores: Array, texts: Array, given: Mapping[str, Array], *, first: bool) -> Array:
        """Return *scores* ``[batch, words]`` of what follows *texts*, the least number for words that must not."""
        low = np.finfo(np.float32).min
        if (penalty := np.float32(number(given.get("repetition_penalty", 1)))) != 1:
            used = np.zeros(scores.shape, np.bool_)
            np.put_along_axis(used, texts.astype(np.int64), True, axis=1)
            scores = np.where(used, np.where(scores < 0, scores * penalty, scores / penalty), scores)
        for row, text in zip(scores, texts.tolist(), strict=True):
            row[_again(text, self.ngram)] = low
        if "vocab_mask" in given:
            scores[:, given["vocab_mask"] == 0] = low
        if first and "prefix_vocab_mask" in given:
            scores[given["prefix_vocab_mask"] == 0] = low
        if texts.shape[1] < number(given.get("min_length", 0)) and self.end >= 0:
            scores[:, self.end] = low
        return scores


@mutable
class Search:
    """Texts of a search, a row each, and what the decoder is fed with next.

    Attributes:
        most: The length that texts get.
        texts: ``[rows, words]`` so far.
    """

    search: DecoderSearch
    run: RunBody
    given: dict[str, Any]
    around: Sequence[Any]
    most: int
    texts: Array
    _fed: Array
    _places: Array
    _mask: Array
    _after: Array
    _pasts: list[Array]
    _first: bool = True

    def logits(self) -> Array:
        """Run the decoder; return the scores ``[rows, words]`` of what follows."""
        first = self.search.first
        body = self.search.decoder if first is None or not self._first else first
        fed = [self._fed, self._places, self._mask, *self._pasts, *self.around]
        made = self.run(body, dict(zip(body.inputs, fed, strict=True)))
        scores, *self._pasts = (made[name] for name, _ in body.outputs)
        found: Array = scores[:, -1, : self.search.words or None].astype(np.float32)
        return found

    def allowed(self, scores: Array) -> Array:
        """Return *scores* with penalties, and the least number for words that must not follow."""
        return self.search.allowed(scores, self.texts, self.given, first=self._first)

    def append(self, words: Array, rows: Array | None = None) -> None:
        """Have *words* behind the texts, which are those of *rows*."""
        if rows is not None:
            self.texts, self._pasts = self.texts[rows], [past[:, rows] for past in self._pasts]
        self._fed, self._places = words[:, None].astype(np.int32), self._after[:, None]
        self.texts = np.concatenate([self.texts, self._fed], axis=1)
        self._after, self._mask = self._after + 1, np.pad(self._mask, ((0, 0), (0, 1)), constant_values=1)
        self._first = False

    @property
    def full(self) -> bool:
        """Whether texts have got their length."""
        return int(self.texts.shape[1]) >= self.most


def number(array: Any) -> Any:
    """Return the only element of *array*."""
    return np.ravel(array)[0]


def _again(text: list[int], size: int) -> list[int]:
    """Return the words that would end a run of *size* words that *text* has already."""
    known = size - 1
    if size < 1 or len(text) < size:
        return []
    last = text[len(text) - known :]
    return [text[i + known] for i in range(len(text) - known) if text[i : i + known] == last]


class SearchArguments(NamedTuple):
    """Attributes and input names of a search; values that its bodies read of the graph around them come last."""

    attributes: tuple[Any, ...]
    inputs: tuple[str, ...]


def search_arguments(node: OnnxNode, names: Sequence[str]) -> SearchArguments:
    """Return the arguments of a search, whose inputs behind the length are called *names*."""
    if model_type := node.attribute("model_type", 0):
        raise node.unsupported(f"model_type={model_type} is not supported, only 0: a decoder alone")
    roles = ("decoder", *(["init_decoder"] if "init_decoder" in node.attribute_names else []))
    (decoder, *others), captured = node.bodies(*roles)
    pasts = len(decoder.outputs) - 1
    own = list(decoder.inputs.items())[: len(decoder.inputs) - len(captured)]
    if len(own) != _FED + pasts:
        raise node.unsupported(
            f"a decoder of {len(own)} inputs and {pasts} presents is not supported: {_FED} and pasts"
        )
    for name, s in own[_FED:]:
        shape = s.shape or ()
        if s.dtype is None or len(shape) != 5 or not all(isinstance(shape[i], int) for i in (2, 4)):
            raise node.unsupported(f"the decoder's past {name!r} is not declared as [2, batch, heads, tokens, D]")
    reads = {name: x for name, x in zip(names, node.inputs[2:], strict=False) if x}
    attributes = (
        decoder,
        next(iter(others), None),
        node.attribute("eos_token_id", -1),
        node.attribute("pad_token_id", -1),
        node.attribute("no_repeat_ngram_size", 0),
        max(0, node.attribute("vocab_size", -1)),
        tuple(reads),
    )
    return SearchArguments(attributes, (*node.inputs[:2], *reads.values(), *captured))
