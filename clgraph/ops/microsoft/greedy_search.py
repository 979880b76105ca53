"""The likeliest words behind texts, one by one, of a decoder that is a body: ONNX Runtime's GreedySearch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.interpret import ControlFlow, RunBody
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.topology import Topology

_FED = 3
"""Inputs of a decoder in front of its pasts: words, places and mask."""

_NAMES = ("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")
"""What the inputs behind words and length are called in ``given``."""


@primitive
@frozen
class GreedySearch(ControlFlow):
    """Words ``[batch, length]``: texts, and behind them at each step the word whose score is greatest.

    Inputs: words ``[batch, tokens]``, padded on the left, and the length; then as *given* says the length below which
    no text ends, a penalty that scores of words in the text are divided by (multiplied where they are negative), masks
    ``[words]`` of those that may come at all and ``[batch, words]`` at the first step, a mask of the texts
    ``[batch, tokens]``; what the bodies read from around.

    A body takes words ``[batch, n]``, their places, a mask of all tokens and pasts ``[2, batch, heads, tokens, D]``; it
    makes scores ``[batch, n, words]`` and presents. Places count the tokens of a text that are no padding. What
    ends a text becomes padding, and so does everything behind it, which ONNX Runtime leaves as it is in memory where
    all texts have ended.

    Attributes:
        decoder: Makes every word.
        first: Makes the first word; ``None``: as the others are.
        end, padding: Words that end a text, and that stand in front of it and behind it.
        ngram: Words that do not follow one another in the same order twice; 0: any may.
        words: How many words there are; 0: as many as scores.
        given: Names of the inputs from the third on, in their order.
    """

    decoder: Topology
    first: Topology | None
    end: int
    padding: int
    ngram: int = 0
    words: int = 0
    given: tuple[str, ...] = ()

    kind: ClassVar[str] = "greedy_search"

    def bodies(self) -> Mapping[str, Topology]:
        return {"decoder": self.decoder} | ({} if self.first is None else {"init_decoder": self.first})

    def result_types(self) -> Sequence[str | None]:
        return ["tensor(int32)"]

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        texts, length, *rest = inputs
        given, around = dict(zip(self.given, rest, strict=False)), rest[len(self.given) :]
        if texts.ndim != 2 or 0 in texts.shape:
            raise ShapeError(f"words {list(texts.shape)} are not [batch, tokens]")
        (batch, tokens), most = texts.shape, _number(length)
        if tokens >= most:
            raise ShapeError(f"texts of {tokens} words have no room for more: max_length is {most}")
        told = texts != self.padding
        mask = given.get("attention_mask", told).astype(np.int32)
        places, after = np.where(told, np.cumsum(told, axis=1) - 1, 0).astype(np.int32), told.sum(1, dtype=np.int32)
        found = np.full((batch, most), self.padding, np.int32)
        found[:, :tokens] = fed = texts
        state, ended = self._empty(batch), np.zeros(batch, np.bool_)
        for at in range(tokens, most):
            body = self.first if self.first is not None and at == tokens else self.decoder
            feeds = dict(zip(body.inputs, [fed, places, mask, *state, *around], strict=True))
            made = run(body, feeds)
            scores, *state = (made[name] for name, _ in body.outputs)
            best = self._allowed(scores, found[:, :at], given, first=at == tokens).argmax(1)
            ended |= best == self.end
            found[:, at] = np.where(ended, self.padding, best)
            if ended.all():
                break
            fed, places = found[:, at : at + 1].copy(), after[:, None]
            after, mask = after + 1, np.pad(mask, ((0, 0), (0, 1)), constant_values=1)
        return (found,)

    def _empty(self, batch: int) -> list[Array]:
        """Return pasts of no tokens."""
        found = []
        for name in tuple(self.decoder.inputs)[_FED : _FED + len(self.decoder.outputs) - 1]:
            signature = self.decoder.inputs[name]
            assert signature.dtype is not None
            sizes = [d if isinstance(d, int) else 0 for d in signature.shape or ()]
            found.append(np.zeros((2, batch, sizes[2], 0, sizes[4]), signature.dtype.numpy))
        return found

    def _allowed(self, logits: Array, texts: Array, given: Mapping[str, Array], *, first: bool) -> Array:
        """Return the scores ``[batch, words]`` of the last token, the least number for words that must not follow."""
        scores = logits[:, -1, : self.words or None].astype(np.float32)
        low = np.finfo(np.float32).min
        if (penalty := np.float32(_number(given.get("repetition_penalty", 1)))) != 1:
            used = np.zeros(scores.shape, np.bool_)
            np.put_along_axis(used, texts.astype(np.int64), True, axis=1)
            scores = np.where(used, np.where(scores < 0, scores * penalty, scores / penalty), scores)
        for row, text in zip(scores, texts.tolist(), strict=True):
            row[_again(text, self.ngram)] = low
        if "vocab_mask" in given:
            scores[:, given["vocab_mask"] == 0] = low
        if first and "prefix_vocab_mask" in given:
            scores[given["prefix_vocab_mask"] == 0] = low
        if texts.shape[1] < _number(given.get("min_length", 0)) and self.end >= 0:
            scores[:, self.end] = low
        return scores


def _number(array: Any) -> Any:
    """Return the only element of *array*."""
    return np.ravel(array)[0]


def _again(text: list[int], size: int) -> list[int]:
    """Return the words that would end a run of *size* words that *text* has already."""
    known = size - 1
    if size < 1 or len(text) < size:
        return []
    last = text[len(text) - known :]
    return [text[i + known] for i in range(len(text) - known) if text[i : i + known] == last]


@onnx("GreedySearch", since=(1,), domain=MICROSOFT)
def import_greedy_search(node: OnnxNode) -> Sequence[str]:
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
    reads = {name: x for name, x in zip(_NAMES, node.inputs[2:], strict=False) if x}
    search = GreedySearch(
        decoder,
        next(iter(others), None),
        node.attribute("eos_token_id", -1),
        node.attribute("pad_token_id", -1),
        node.attribute("no_repeat_ngram_size", 0),
        max(0, node.attribute("vocab_size", -1)),
        tuple(reads),
    )
    return node.emit(search, *node.inputs[:2], *reads.values(), *captured)
