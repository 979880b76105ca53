"""Choosing a token out of logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clgraph.errors import GenerationError
from clgraph.generate.options import Options
from clgraph.graph.primitive import Array


class Sampler:
    """Chooses the tokens of one text."""

    def __init__(self, options: Options, number: int = 0) -> None:
        """Choose as *options* say; texts of one seed draw apart by their *number*."""
        self._options = options
        self._random = np.random.default_rng(None if options.seed is None else [options.seed, number])

    def choose(self, logits: Array, seen: Sequence[int]) -> int:
        """Return the next token.

        Args:
            logits: ``[vocabulary]``, float32.
            seen: The tokens in front of it.

        Raises:
            GenerationError: Logits are NaN or infinite, or none is above minus infinity.
        """
        best = int(logits.argmax())  # a NaN, if there is one
        if not np.isfinite(logits[best]):
            what = "NaN" if np.isnan(logits).any() else "no finite greatest value"
            raise GenerationError(
                f"the logits of token {len(seen)} have {what}: the model's numbers overflowed, or its weights are no "
                "numbers; `clgraph compare` finds the node, and float16 models can be run with --precision f32 (in "
                "Python, precision='f32')"
            )
        options = self._options
        if options.repetition_penalty != 1:
            logits = _penalised(logits, seen, options.repetition_penalty)
            best = int(logits.argmax())
        return best if options.greedy else self._drawn(logits)

    def _drawn(self, logits: Array) -> int:
        """Return a token drawn by probability, the likeliest first in the order of drawing where some are left out."""
        options = self._options
        tokens = np.arange(len(logits))
        if 0 < options.top_k < len(logits):
            tokens = np.argpartition(logits, -options.top_k)[-options.top_k :]
        if options.top_p < 1 or len(tokens) < len(logits):
            tokens = tokens[np.argsort(-logits[tokens], kind="stable")]
        scores = logits[tokens].astype(np.float64) / options.temperature
        weights = np.exp(scores - scores.max())
        sums = np.cumsum(weights / weights.sum())
        count = int(np.searchsorted(sums, options.top_p)) + 1 if options.top_p < 1 else len(sums)
        sums = sums[:count]
        return int(tokens[min(int(np.searchsorted(sums, self._random.random() * sums[-1], side="right")), count - 1)])


def _penalised(logits: Array, seen: Sequence[int], penalty: float) -> Array:
    """Return *logits* with those of *seen* tokens made smaller."""
    logits, places = logits.copy(), np.unique(np.asarray(seen, np.int64))
    there = logits[places]
    logits[places] = np.where(there > 0, there / penalty, there * penalty)
    return logits
