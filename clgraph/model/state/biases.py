"""What is added to scores: made as wide as the caches, in memory that a run is given, so that no width compiles."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import largest
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Array
from clgraph.model.state.lengths import zeros
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory


def declared_shape(bias: Array) -> Shape:
    """Return the shape that programs are compiled for: ``[batch, heads, tokens, 1]``, each perhaps 1."""
    return (*(1,) * (4 - bias.ndim), *bias.shape[:-1], 1)


def declared(bias: Array) -> Array:
    """Return an array of the shape that programs are compiled for, which takes no memory."""
    return zeros(declared_shape(bias), np.dtype(np.float32))


def widened(bias: Array, total: int, places: int) -> Array:
    """Return a bias or a mask ``[..., tokens, total]``, each size perhaps 1, as ``[batch, heads, tokens, places]``.

    What is behind the *total* of tokens is hidden, and what is in front of the latest where it has fewer columns.
    """
    wide = np.full((*declared_shape(bias)[:-1], places), -np.inf, np.float32)
    with np.errstate(over="ignore"):
        wide[..., _columns(bias, total)] = np.where(bias, 0, -np.inf) if bias.dtype == np.bool_ else bias
    return wide


def _columns(bias: Array, total: int) -> slice:
    """Return the columns that *bias* has of *total* ones: the latest, or all where it has one for all."""
    return slice(total - bias.shape[-1] if bias.shape[-1] > 1 else 0, total)


def hides_before(bias: Array, latest: int) -> bool:
    """Whether a bias or mask ``[..., tokens, keys]``, whose last key is the last token, hides all but *latest* + 1."""
    rows, keys = bias.shape[-2] if bias.ndim > 1 else 1, bias.shape[-1]
    before = np.arange(keys) < np.arange(rows)[:, None] + keys - rows - latest
    hidden = ~bias if bias.dtype == np.bool_ else bias <= -largest(bias.dtype) / 2
    return bool(hidden[..., before].all())


def hides_nothing(bias: Array) -> bool:
    """Whether a bias or mask hides no token from any other."""
    return bool(bias.all() if bias.dtype == np.bool_ else not bias.any())


def hides_ahead(bias: Array, past: int, *, alone: bool = False) -> bool:
    """Whether a bias or mask ``[..., tokens, all tokens]`` hides what is behind each token; *alone*: and no more."""
    rows, keys = bias.shape[-2] if bias.ndim > 1 else 1, bias.shape[-1]
    if rows != keys - past:
        return False
    if rows == 1:  # nothing is behind it
        return not alone or hides_nothing(bias)
    ahead = np.arange(keys) > np.arange(rows)[:, None] + past
    hidden = ~bias if bias.dtype == np.bool_ else bias <= -largest(bias.dtype) / 2
    shown = hidden == ahead if bias.dtype == np.bool_ else np.where(ahead, hidden, bias == 0)
    return bool(shown.all() if alone else hidden[..., ahead].all())


class BiasMemory:
    """Memory for one bias; what a run has been given is over when the next is written."""

    def __init__(self) -> None:
        """Have no memory yet."""
        self._engine: Engine | None = None
        self._memory: Memory | None = None

    def hold(self, wide: Array, engine: Engine | None) -> Memory | Array:
        """Return what a run is given for *wide*: memory of *engine*, or elements in a row where that is ``None``.

        Raises ``DeviceMemoryError`` where the device has no memory left.
        """
        flat = wide.reshape(-1)
        if engine is None:
            return flat
        if self._memory is None or engine is not self._engine or self._memory.nbytes < flat.nbytes:
            size = 1 << (flat.nbytes - 1).bit_length()
            self._engine, self._memory = engine, engine.allocate(size, "a bias of scores")
        if self._memory.array is not None:
            self._memory.array[: flat.nbytes] = flat.view(np.uint8)
        else:
            engine.stream.write(self._memory, 0, flat)
            engine.stream.finish()
        return self._memory
