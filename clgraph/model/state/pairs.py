"""Pairs of inputs and outputs that are fed back, and caches: what is kept, and where in memory it lies."""

from __future__ import annotations

from math import prod

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen

PARTS = ("keys", "values")
"""What the parts are called behind the name of the whole."""


@frozen
class StatePair:
    """An input that takes what an output was at the run before.

    Attributes:
        grows: Whether it is a cache, which has more places after each run; else it has one shape.
        reader: The layer that tells, or who named the pair.
    """

    input: str
    output: str
    grows: bool
    reader: str

    def __str__(self) -> str:
        return f"{self.output} -> {self.input}: {'a cache' if self.grows else 'carried'}, {self.reader}"


@frozen
class Cache:
    """A cache ``[batch][heads][places][depth]`` in the memory of all.

    Attributes:
        input, output: Its past and its present.
        at: Elements of all texts' caches in front of it, for each place and text.
        latest: How many of the latest tokens its past and present have at most, where the model cuts them; else 0.
    """

    input: str
    output: str
    heads: int
    depth: int
    at: int
    latest: int = 0

    def shown(self, count: int) -> int:
        """Return how many of *count* tokens its past or present has."""
        return min(count, self.latest) if self.latest else count

    @property
    def each(self) -> int:
        """Elements of a place of one text."""
        return self.heads * self.depth


@frozen
class Stack:
    """An input, and the output that is fed back to it, of the keys and the values of one attention."""

    input: str
    output: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """What the parts of the input are called where they are apart."""
        return tuple(f"{self.input} ({part})" for part in PARTS)

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the parts of the output are called there."""
        return tuple(f"{self.output} ({part})" for part in PARTS)


@frozen
class CacheLayout:
    """All caches of a model, one behind the other.

    Attributes:
        dtype: Their element type.
        stacks: Inputs and outputs of the model that keys and values are stacked in; their caches are neighbours.
    """

    caches: tuple[Cache, ...]
    dtype: DType
    stacks: tuple[Stack, ...] = ()

    def elements(self, batch: int, places: int) -> int:
        """Return the elements of the memory of caches of *places* for *batch* texts."""
        return prod((batch, places, sum(c.each for c in self.caches)))
