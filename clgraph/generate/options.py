"""How tokens are chosen, and when a text is over."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from math import isfinite
from numbers import Integral, Real
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import OptionError


@frozen(kw_only=True)
class Options:
    """How the next token is chosen out of the logits, and when a text is over.

    The greatest logit is taken where *temperature* is 0. Else logits are divided by it, those that *top_k* and then
    *top_p* leave become probabilities, and one is drawn.

    Attributes:
        max_tokens: How many tokens to make at most; ``None``: as many as the model's longest text leaves.
        temperature: Above 1 flattens the probabilities, below sharpens them.
        top_k: Only so many of the greatest logits count; 0 for all.
        top_p: Only the likeliest tokens count that together have this probability; 1 for all.
        repetition_penalty: Logits of tokens that the prompt or the text has are divided by it where they are positive,
            else multiplied (Keskar and others, CTRL, 2019). 1 changes nothing.
        seed: The same one draws the same tokens; ``None`` draws others every time.
        stop: The text ends in front of the first of these that occurs.
        stop_tokens: Ids that end the text besides those that the model's folder names.
        ignore_end: Go on behind the tokens that the folder names as the end.

    Raises:
        OptionError: A value is outside of its range.
    """

    max_tokens: int | None = None
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_tokens: frozenset[int] = frozenset()
    ignore_end: bool = False

    def __post_init__(self) -> None:
        """Check types and ranges."""
        for name, fits, wanted in (
            ("max_tokens", self.max_tokens is None or _is_whole(self.max_tokens, 1), "1 or more"),
            ("temperature", _is_number(self.temperature) and self.temperature >= 0, "0 or more"),
            ("top_k", _is_whole(self.top_k), "0 or more"),
            ("top_p", _is_number(self.top_p) and 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("repetition_penalty", _is_number(self.repetition_penalty) and self.repetition_penalty > 0, "above 0"),
            ("seed", self.seed is None or _is_whole(self.seed), "0 or more"),
            ("stop", _are_texts(self.stop), "a tuple of texts, none of them empty"),
            ("stop_tokens", _are_ids(self.stop_tokens), "a set of ids"),
        ):
            if not fits:
                raise OptionError(f"{name}={getattr(self, name)!r} is not {wanted}")

    @property
    def greedy(self) -> bool:
        """Whether the greatest logit is taken."""
        return self.temperature == 0


def _is_whole(given: Any, least: int = 0) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool) and int(given) >= least


def _is_number(given: Any) -> bool:
    return isinstance(given, Real) and not isinstance(given, bool) and isfinite(given)


def _are_texts(given: Any) -> bool:
    return isinstance(given, tuple | list) and all(isinstance(text, str) and text for text in given)


def _are_ids(given: Any) -> bool:
    return isinstance(given, AbstractSet) and all(_is_whole(token) for token in given)
