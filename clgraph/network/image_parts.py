"""What a quick run of the image of a network is made of: launches, and what goes in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.network.result_memory import LEAST_BYTES, ResultMemory

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.network.borrowed_buffers import BorrowedBuffer
    from clgraph.network.tile_kernels import TileKernels
    from clgraph.runtime.engine import BoundKernel
    from clgraph.runtime.stream import Step


class ImagedLaunches:
    """The launches of a run.

    Attributes:
        steps: Each launches one kernel.
        joined: The tables whose steps wait for each other.
    """

    def __init__(self, steps: list[Step], joined: list[TileKernels], kernels: list[BoundKernel]) -> None:
        """Take them; *kernels*, with their memory, are kept because steps do not keep them."""
        self.steps, self.joined, self._kernels = steps, joined, kernels

    def check(self) -> None:
        """Raise as :meth:`TileKernels.check_waits`."""
        for tiles in self.joined:
            tiles.check_waits()


class ImagedFeed:
    """One input, as :class:`clgraph.network.feed.Feed` is to a quick run.

    Attributes:
        view: The memory that it is copied to, ``None`` where it is not.
    """

    passes, given, kept, how = False, None, None, "not read"

    def __init__(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        view: Array | None,
        borrowed: BorrowedBuffer | None,
    ) -> None:
        """Copy it to *view*, let kernels read it by *borrowed*, or neither where nobody reads it."""
        self.name, self.dtype, self.shape, self.view, self._borrowed = name, dtype, shape, view, borrowed

    def write(self, held: Array, *, passing: bool = False) -> None:
        """Make *held*, which lives until the run is over, what the kernels read."""
        if self._borrowed is not None:
            self._borrowed.take(held)


class ImagedResult:
    """One result, as :class:`clgraph.network.result.Result` is to a quick run."""

    how = "not asked for"

    def __init__(self, name: str, whole: Array, borrowed: BorrowedBuffer | None, memory: ResultMemory) -> None:
        """Copy it from *whole*, or let kernels write it to new arrays of *memory* by *borrowed*."""
        self.name, self.whole, self.borrowed, self._memory = name, whole, borrowed, memory
        self._target: Array | None = None
        self._lent = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.whole.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.whole.shape

    @property
    def small_view(self) -> Array | None:
        """The memory that it is copied from into a new array, ``None`` where it is large."""
        return self.whole if self.borrowed is None and self.whole.nbytes < LEAST_BYTES else None

    def begin(self, target: None, read: Iterable[Array]) -> None:
        """Prepare for a run that leaves the result in a new array."""
        if self.borrowed is not None:
            self._target = self._new()
            self._lent = self.borrowed.take(self._target, new=True)
            if not self._lent:
                self.borrowed.give_back()

    def end(self) -> Array:
        """Return the new array; every command of the run is over."""
        target = self._target
        if self._lent and target is not None:
            return target
        target = self._new() if target is None else target
        target[...] = self.whole
        return target

    def release(self) -> None:
        """Forget the array."""
        self._target, self._lent = None, False

    def _new(self) -> Array:
        return self._memory.empty(self.whole.shape, self.whole.dtype, self.whole.nbytes)
