"""The likeliest words behind texts, one by one: ONNX Runtime's GreedySearch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.interpret import RunBody
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.microsoft.decoder_search import DecoderSearch, search_arguments


@primitive
@frozen
class GreedySearch(DecoderSearch):
    """Words ``[batch, length]``: texts, and behind them at each step the word whose score is greatest.

    What ends a text becomes padding, and so does everything behind it, which ONNX Runtime leaves as it is in memory
    where all texts have ended.
    """

    kind: ClassVar[str] = "greedy_search"

    def result_types(self) -> Sequence[str | None]:
        return ["tensor(int32)"]

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        search = self.begin(inputs, run)
        ended = np.zeros(len(search.texts), np.bool_)
        while not search.full and not ended.all():
            best = search.allowed(search.logits()).argmax(1)
            ended |= best == self.end
            search.append(np.where(ended, self.padding, best))
        found = np.full((len(ended), search.most), self.padding, np.int32)
        found[:, : search.texts.shape[1]] = search.texts
        return (found,)


_NAMES = ("min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")


@onnx("GreedySearch", since=(1,), domain=MICROSOFT)
def import_greedy_search(node: OnnxNode) -> Sequence[str]:
    arguments = search_arguments(node, _NAMES)
    return node.emit(GreedySearch(*arguments.attributes), *arguments.inputs)
