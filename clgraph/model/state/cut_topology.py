"""A topology cut for caches: a part for the device, and the arithmetic of lengths and masks for the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Dimension
from clgraph.graph.topology import Topology
from clgraph.model.state.lengths import Lengths, zeros
from clgraph.model.state.pairs import Cache, CacheLayout, StatePair
from clgraph.model.state.presents import PRESENT
from clgraph.model.state.wide import Wide
from clgraph.ops.keeps_keys import KeepsKeys

LENGTHS, PLACES, STATE = "clgraph.lengths", "clgraph.places", "clgraph.state"
"""Inputs of the device's topology: int32 ``[1 + batch]``, int64 ``[batch, tokens]``, and the memory of the caches."""

BIAS = "clgraph.bias:"
"""In front of the name of a value that is added to scores: of one column, and in memory of one for every place."""


@frozen
class Bias:
    """A value of the host's that is added to scores, or says which count, and the device's input for it.

    Attributes:
        latest: Where the model cuts the pasts that are attended to, how many of the latest tokens these have; else 0.
    """

    value: str
    input: str
    latest: int = 0

    def shown(self, count: int) -> int:
        """Return how many of *count* past tokens are attended to."""
        return min(count, self.latest) if self.latest else count


@frozen
class CutTopology:
    """A topology that was cut for caches.

    Attributes:
        device: What reads caches: the model's inputs that do not grow, those of this module, and ``crossing``.
        plain: The same without biases, for when they say that tokens see nothing behind themselves, and no more.
        host: What is computed of lengths alone: reads the inputs that grow, and shapes of others.
        pasts: The caches whose past or present it reads, by its inputs for them.
        crossing: Values of the host that the device reads as they are.
        biases: Those that are added to scores.
        told: Values of the host that say where new tokens stand.
        growing: The model's inputs that have a place for every token there is.
        loose: Those of them whose declared sizes do not say so.
        batch_axes: Of the other inputs, which axis has the batch's size, where one has.
        token_axes: Of the other inputs, which axes have the new tokens' size.
        shapes, types: Of all inputs that are no past, as declared.
        first: The attention that reads what is ``told``, where one does.
        wide: What is as wide as the caches, where layers read these as tensors; else ``None``.
        most: How many tokens there may be; ``None`` for any number. Behind more the model cuts its presents.
    """

    device: Topology
    plain: Topology | None
    host: Lengths
    pasts: Mapping[str, Cache]
    caches: CacheLayout
    pairs: tuple[StatePair, ...]
    crossing: tuple[str, ...]
    biases: tuple[Bias, ...]
    told: tuple[str, ...]
    growing: tuple[str, ...]
    loose: tuple[str, ...]
    batch_axes: Mapping[str, int]
    token_axes: Mapping[str, tuple[int, ...]]
    shapes: Mapping[str, tuple[Dimension, ...]]
    types: Mapping[str, DType]
    first: KeepsKeys | None
    looks_ahead: bool
    most: int | None = None
    wide: Wide | None = None

    def fits(self, feeds: Mapping[str, Array]) -> bool:
        """Whether *feeds* have as many places for tokens as there are, where declared sizes do not say so.

        And whether presents are whole, where the model cuts them.
        """
        if self.most is not None and not self._are_whole(feeds, self.most):
            return False
        if not self.loose:
            return True
        news = [feeds[name].shape[axes[0]] for name, axes in self.token_axes.items() if axes and name in feeds]
        past = feeds[self.caches.caches[0].input].shape
        wanted = (past[0], news[0] + self.past(feeds)) if news and len(past) == 4 else None
        return wanted is None or all(feeds[name].shape == wanted for name in self.loose)

    def past(self, feeds: Mapping[str, Array]) -> int:
        """Return how many tokens there are: of all pasts, or where all are cut, as many as masks have places for."""
        shapes = [(c, feeds[c.input].shape) for c in self.caches.caches]
        known = max((shape[2] for c, shape in shapes if len(shape) == 4), default=0)
        if all(c.latest and shape[2:3] == (c.latest,) for c, shape in shapes):
            new = max((n for name, axes in self.token_axes.items() for n in _sizes(feeds[name], axes)), default=1)
            known = max([known, *(feeds[n].shape[1] - new for n in self.growing if feeds[n].ndim == 2)])
        return int(known)

    def _are_whole(self, feeds: Mapping[str, Array], most: int) -> bool:
        """Whether the presents of *feeds* have at most *most* tokens."""
        news = [n for name, axes in self.token_axes.items() for n in _sizes(feeds[name], axes)]
        new = max(news, default=1)
        return all(past + new <= most for c in self.caches.caches for past in feeds[c.input].shape[2:3])

    def host_values(self, feeds: Mapping[str, Array], batch: int, past: int) -> dict[str, Array]:
        """Return what the host computes for *past* tokens of each text and new ones in *feeds*."""
        return self.host.values(self._arrays(self.host, feeds, batch, past)) if self.host.topology.outputs else {}

    def sized(self, device: Topology, feeds: Mapping[str, Array], batch: int, past: int) -> Topology:
        """Return *device* with the sizes that follow from *feeds* behind a *past*, which fill the caches."""
        return (
            device
            if self.wide is None
            else self.wide.with_sizes(device, self._arrays(self.wide.sizes, feeds, batch, past))
        )

    def _arrays(self, lengths: Lengths, feeds: Mapping[str, Array], batch: int, past: int) -> dict[str, Array]:
        """Return what *lengths* are computed of: of caches, what has their shapes."""
        arrays: dict[str, Array] = {}
        for name in lengths.topology.inputs:
            if name in self.pasts:
                cache, more = self.pasts[name], self.count(feeds) if name.startswith(PRESENT) else 0
                shape = (batch, cache.heads, cache.shown(past) + more, cache.depth)
                arrays[name] = zeros(shape, self.caches.dtype.numpy)
            else:
                arrays[name] = feeds[name]
        return arrays

    def check_ranks(self, feeds: Mapping[str, Array]) -> None:
        """Raise ``InputError`` where an input has another number of axes than the model declares."""
        for name, array in feeds.items():
            shape = self.shapes.get(name)
            if shape is not None and len(shape) != array.ndim:
                declared = ", ".join(map(str, shape))
                raise InputError(f"input {name!r} is {list(array.shape)}; the model requires [{declared}]")

    def count(self, feeds: Mapping[str, Array]) -> int:
        """Return how many new tokens of each text *feeds* have; raises ``InputError`` where inputs differ."""
        sizes = {feeds[n].shape[i]: n for n, axes in self.token_axes.items() for i in axes}
        if len(sizes) > 1:
            told = ", ".join(f"{name!r} {list(feeds[name].shape)}" for name in sizes.values())
            raise InputError(f"the inputs have different numbers of new tokens: {told}")
        if 0 in sizes:
            raise InputError("the inputs have no new token")
        return next(iter(sizes), 1)

    def first_places(self, values: Mapping[str, Array], batch: int, past: int, tokens: int) -> Array:
        """Return the place of each text's first new token."""
        if self.first is None:
            return np.full(batch, past, np.int64)
        return self.first.first_places([values[n] for n in self.told], batch, past, tokens)


def _sizes(array: Array, axes: Sequence[int]) -> Iterable[int]:
    """Yield the sizes of those *axes* that *array* has."""
    return (array.shape[i] for i in axes if i < array.ndim)
