"""Attentions that take past keys and values and give present ones: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from clgraph.graph.composite import Composite
from clgraph.graph.primitive import Array

PAST = ("past_key", "past_value")
"""What the inputs for past keys and values are called."""


def without_past(names: Sequence[str], *, bias: bool = True) -> tuple[str, ...]:
    """Return the *names* of inputs without those of past keys and values, and without *bias* if that is false."""
    left_out = PAST if bias else (*PAST, "bias")
    return tuple(name for name in names if name not in left_out)


class KeepsKeys(Composite):
    """Base of such attentions; its second and third results are the present keys and values.

    Where these are fed back, the same attention may work on caches that stay in memory (:class:`CachedAttention`).
    """

    __slots__ = ()
    keeps_keys: ClassVar[bool] = True

    @abstractmethod
    def slots(self) -> Sequence[str]:
        """Return what each input is called: ``past_key``, ``past_value``, and others as the operator has them.

        ``bias`` is added to the scores ``[..., tokens, all tokens]`` or, of bools, says which count; ``told`` are
        inputs that say how many tokens there are.
        """

    @abstractmethod
    def over_caches(
        self, keys_at: int, values_at: int, *, plain: bool = False
    ) -> tuple[Composite, Sequence[str]] | None:
        """Return the attention over caches at these places, and what its inputs are called; ``None``: there is none.

        It is *plain* where the bias says that tokens see nothing behind themselves, and no more: it is left out then.

        Names are those of :meth:`slots`, of which pasts and what is told are left out, with ``lengths`` and ``state``
        as :class:`CachedAttention` has them, and ``places`` int64 ``[batch, tokens]``, the place of each new token.
        """

    @abstractmethod
    def alone(self) -> Self:
        """Return the same attention of new tokens to one another, without inputs for past keys and values."""

    def first_places(self, told: Sequence[Array], batch: int, past: int, tokens: int) -> Array:
        """Return the place of the first of the new *tokens* of each text.

        Args:
            told: The inputs called ``told``, in their order.
            past: Tokens of the past keys.
        """
        return np.full(batch, past, np.int64)

    @property
    def looks_ahead(self) -> bool:
        """Whether a token sees those behind it, as far as no bias hides them."""
        return True
