"""The likeliest texts of several that grow side by side: ONNX Runtime's BeamSearch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen, mutable
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.interpret import RunBody
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.microsoft.decoder_search import DecoderSearch, number, search_arguments

_NEVER = np.float32(-1e9)
"""The score of the beams that a text does not begin with."""


@primitive
@frozen
class BeamSearch(DecoderSearch):
    """Texts ``[batch, returned, length]`` of the greatest scores, best first, and these scores ``[batch, returned]``.

    Each text grows in as many beams as ``num_beams`` says. A beam's score is the sum of its words' log-probabilities,
    with penalties and masks; a text's that has ended, this divided by the power ``length_penalty`` of its length, words
    in front and all. Of twice as many best continuations of the beams, those that end go to the finished ones if they
    are among the first half, the others are the next beams. A text is done when as many have finished and no beam can
    be better than the worst of these, as far as its score and length now tell.

    Attributes:
        early: A text is done as soon as as many have finished.
    """

    early: bool = False

    kind: ClassVar[str] = "beam_search"

    def result_types(self) -> Sequence[str | None]:
        return ["tensor(int32)", "tensor(float)"]

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        search = self.begin(inputs, run, "num_beams")
        given = search.given
        beams, returned = (int(number(given[name])) for name in ("num_beams", "num_return_sequences"))
        if not 1 <= returned <= beams:
            raise ShapeError(f"num_return_sequences is {returned}, not 1 to {beams}, the number of beams")
        batch, penalty = len(search.texts) // beams, np.float32(number(given.get("length_penalty", 1)))
        finished = [_Finished(beams, penalty, self.early) for _ in range(batch)]
        sums = np.full((batch, beams), _NEVER, np.float32)
        sums[:, 0] = 0
        while not search.full and not all(text.done for text in finished):
            scores = search.allowed(_log_softmax(search.logits())) + sums.reshape(-1, 1)
            sums, words, rows = self._continued(scores, search.texts, finished, beams)
            search.append(words.ravel(), rows.ravel())
        found = np.full((batch, returned, search.most), self.padding, np.int32)
        values = np.zeros((batch, returned), np.float32)
        for i, text in enumerate(finished):
            for beam in () if text.done else range(beams):
                text.add(search.texts[i * beams + beam], sums[i, beam])
            for j, (value, words) in enumerate(text.best[:returned]):
                found[i, j, : len(words)], values[i, j] = words, value
        return found, values

    def _continued(
        self, scores: Array, texts: Array, finished: Sequence[_Finished], beams: int
    ) -> tuple[Array, Array, Array]:
        """Return sums, words and rows of the next beams ``[batch, beams]``; add to the *finished* what ends."""
        count, batch = scores.shape[1], len(finished)
        sums, words, rows = (np.zeros((batch, beams), t) for t in (np.float32, np.int32, np.int64))
        flat = scores.reshape(batch, -1)
        best = np.argsort(-flat, axis=1, kind="stable")[:, : 2 * beams]
        for i, text in enumerate(finished):
            if text.done:
                words[i] = self.padding
                continue
            going = 0
            for rank, place in enumerate(best[i].tolist()):
                beam, word = divmod(place, count)
                row = i * beams + beam
                if word != self.end:
                    sums[i, going], words[i, going], rows[i, going], going = flat[i, place], word, row, going + 1
                elif rank < beams:
                    text.add(texts[row], flat[i, place])
                if going == beams:
                    break
            text.close(flat[i, best[i, 0]], texts.shape[1])
        return sums, words, rows


@mutable
class _Finished:
    """The best texts that have ended, with their scores, best first.

    Attributes:
        most: How many are kept.
    """

    most: int
    penalty: np.float32
    early: bool
    best: list[tuple[np.float32, Array]] = field(default_factory=list)
    done: bool = False

    def add(self, text: Array, total: np.float32) -> None:
        """Keep *text*, whose log-probabilities add up to *total*, where it is among the best."""
        value = self._value(total, len(text))
        if len(self.best) < self.most or value > self.best[-1][0]:
            self.best = sorted([*self.best, (value, text)], key=lambda pair: -pair[0])[: self.most]

    def close(self, total: np.float32, length: int) -> None:
        """Be done where enough have ended and the best beam, of this *total* and *length*, is not better."""
        enough = len(self.best) >= self.most
        self.done = enough and (self.early or bool(self.best[-1][0] >= self._value(total, length)))

    def _value(self, total: np.float32, length: int) -> np.float32:
        return np.float32(total / np.float32(length) ** self.penalty)


def _log_softmax(logits: Array) -> Array:
    less = logits - logits.max(1, keepdims=True)
    found: Array = less - np.log(np.exp(less).sum(1, keepdims=True))
    return found


_NAMES = (
    *("min_length", "num_beams", "num_return_sequences", "length_penalty", "repetition_penalty", "vocab_mask"),
    *("prefix_vocab_mask", "attention_mask"),
)


@onnx("BeamSearch", since=(1,), domain=MICROSOFT)
def import_beam_search(node: OnnxNode) -> Sequence[str]:
    if node.output_count > 2:
        raise node.unsupported("the output scores, of every step, is not supported")
    if odd := [
        name for i, name in ((10, "decoder_input_ids"), (11, "logits_processor")) if any(node.inputs[i : i + 1])
    ]:
        raise node.unsupported(f"the input {odd[0]} is not supported")
    arguments = search_arguments(node, _NAMES)
    search = replace(BeamSearch(*arguments.attributes), early=bool(node.attribute("early_stopping", 0)))
    return node.emit(search, *arguments.inputs, outputs=2)
