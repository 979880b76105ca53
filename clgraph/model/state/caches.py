"""The memory of caches: one piece for all layers, that grows by doubling, and views of it that are handed out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakSet, ref

import numpy as np

from clgraph.graph.primitive import Array
from clgraph.model.state.pairs import PARTS, Cache, CacheLayout
from clgraph.network.held_memory import HeldMemory
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory

LEAST_PLACES = 256
"""The places of new caches, at least."""


class Caches:
    """The caches of one batch of texts.

    Attributes:
        batch: How many texts.
        filled: How many places have been written in the longest of them.
        places: How many there are (the capacity).
    """

    def __init__(self, layout: CacheLayout, batch: int, memory: HeldMemory) -> None:
        """Hold nothing, and have none of the *memory* yet."""
        self.layout, self.batch, self.filled, self.places = layout, batch, 0, 0
        self._memory, self._placement = memory, ""
        self._engine: Engine | None = None
        self._waiting: dict[str, Array] = {}
        self._held: Memory | Array | None = None
        self._leases: WeakSet[Lease] = WeakSet()

    @property
    def held(self) -> Memory | Array:
        """What a run is given as the state."""
        assert self._held is not None
        return self._held

    @property
    def engine(self) -> Engine | None:
        """What the memory is of; ``None``: the host."""
        return self._engine

    @property
    def nbytes(self) -> int:
        """Bytes of the memory."""
        return self.layout.elements(self.batch, self.places) * self.layout.dtype.itemsize

    @property
    def is_held(self) -> bool:
        """Whether there is memory."""
        return self._held is not None

    @property
    def is_waiting(self) -> bool:
        """Whether what is to be held is not in the memory yet."""
        return bool(self._waiting) or self._held is None

    def places_for(self, count: int) -> int:
        """Return how many places there are once there is room for *count*: a power of two where that is more."""
        return self.places if count <= self.places else max(LEAST_PLACES, 1 << (count - 1).bit_length())

    def reserve(self, count: int, placement: str, engine: Engine | None) -> None:
        """Have :meth:`places_for` *count*, in memory of *engine* (``None``: the host), with what is filled copied once.

        Raises as :meth:`HeldMemory.allocate`; the caches stay as they are then.
        """
        if count > self.places:
            larger = Caches(self.layout, self.batch, self._memory)
            larger._allocate(self.places_for(count), placement, engine)
            if self._held is not None and not self._waiting:
                larger._take(self, self.filled)
            self._placement, self._engine = placement, engine
            self._held, self.places = larger._held, larger.places
            self._leases = WeakSet()
        waiting, self._waiting = self._waiting, {}
        for cache in self.layout.caches if waiting else ():
            array = waiting[cache.input]
            first = self.filled - array.shape[2]
            self._write(cache, array, first)
            if first:  # what is hidden there is multiplied all the same
                self._write(cache, np.zeros((*array.shape[:2], first, array.shape[3]), array.dtype), 0)

    def fork(self, count: int) -> Caches:
        """Return others with the first *count* places of these; raises as :meth:`reserve`."""
        made = Caches(self.layout, self.batch, self._memory)
        if self.places:
            made._allocate(self.places, self._placement, self._engine)
            made._take(self, count)
        return made

    def _take(self, other: Caches, count: int) -> None:
        """Copy the first *count* places of *other*, of the same layout and batch."""
        self.filled = count
        for cache in self.layout.caches if count else ():
            if (mine := self._host_view(cache)) is not None and (theirs := other._host_view(cache)) is not None:
                mine[:, :, :count] = theirs[:, :, :count]
            else:
                self._copy_on_device(cache, other, count)

    def put(self, arrays: Mapping[str, Array], count: int) -> None:
        """Hold the pasts in *arrays*, of the latest of *count* places, by the inputs' names.

        They are copied when memory is reserved.
        """
        self.filled = count
        self._waiting = {c.input: arrays[c.input] for c in self.layout.caches} if count else {}

    def keep(self, count: int) -> None:
        """Hold the first *count* places only."""
        fewer, self.filled = max(0, self.filled - count), min(self.filled, count)
        self._waiting = {name: array[:, :, : array.shape[2] - fewer] for name, array in self._waiting.items()}

    def clear(self, start: int, end: int) -> None:
        """Make places *start* to *end* of all texts zeros."""
        for c in self.layout.caches:
            self._write(c, np.zeros((self.batch, c.heads, end - start, c.depth), self.layout.dtype.numpy), start)

    def presents(self, count: int) -> dict[str, Array]:
        """Return the first *count* places by the outputs' names: views where the host reads the memory, else copies.

        The memory lives as long as what is returned and what is made of it.
        """
        flat = self._flat()
        if flat is None:
            found = {c.output: self._read_rows(c, count - c.shown(count), count) for c in self.layout.caches}
            return found | {s.output: np.stack([found[part] for part in s.outputs]) for s in self.layout.stacks}
        lease = Lease(self, flat, count)
        self._leases.add(lease)
        whole = np.asarray(lease)
        views = [self._view(whole, c, count - c.shown(count), count) for c in self.layout.caches]
        lease.shown = [(c.input, ref(view)) for c, view in zip(self.layout.caches, views, strict=True)]
        found = {c.output: view for c, view in zip(self.layout.caches, views, strict=True)}
        if self.layout.stacks:
            first = {c.output: c for c in self.layout.caches}
            found |= {
                s.output: self._view(whole, first[s.outputs[0]], 0, count, len(PARTS)) for s in self.layout.stacks
            }
        return found

    def read(self, cache: Cache, first: int, end: int) -> Array:
        """Return places *first* to *end* of one cache, perhaps as a view."""
        view = self._host_view(cache)
        return self._read_rows(cache, first, end) if view is None else view[:, :, first:end]

    def holds(self, arrays: Mapping[str, Array], past: int) -> bool:
        """Whether *arrays*, by the inputs' names, are the first *past* places here, or the latest of them."""
        flat = self._flat()
        if flat is None:
            return False
        start, dtype = flat.__array_interface__["data"][0], self.layout.dtype.numpy
        for cache in self.layout.caches:
            array = arrays[cache.input]
            batch, heads, count, depth = array.shape
            if array.dtype != dtype or (batch, heads, depth) != (self.batch, cache.heads, cache.depth):
                return False
            strides, first = self._strides(cache), past - count
            if past > self.filled or first != past - cache.shown(past) or array.strides != strides:
                return False
            if array.__array_interface__["data"][0] != start + self._offset(cache) + first * strides[2]:
                return False
        return True

    def lent(self, beyond: int = -1) -> bool:
        """Whether there are views of more than *beyond* places."""
        return any(lease.count > beyond for lease in self._leases)

    def _allocate(self, places: int, placement: str, engine: Engine | None) -> None:
        count = self.layout.elements(self.batch, places)
        if engine is None:
            self._held = np.zeros(count, self.layout.dtype.numpy)
        else:
            nbytes, what = count * self.layout.dtype.itemsize, f"caches of {places} places"
            self._held = self._memory.allocate(placement, engine, nbytes, what)
        self._placement, self._engine, self.places = placement, engine, places

    def _flat(self) -> Array | None:
        """Return the memory as bytes, where the host can reach it."""
        if isinstance(self._held, Memory):
            return self._held.array
        return None if self._held is None else self._held.view(np.uint8)

    def _host_view(self, cache: Cache) -> Array | None:
        flat = self._flat()
        return None if flat is None else self._view(flat, cache, 0, self.places)

    def _view(self, flat: Array, cache: Cache, first: int, end: int, stacked: int = 0) -> Array:
        """Return places of *cache* in the bytes *flat*: ``[batch][heads][end - first][depth]``, of all *stacked*."""
        strides = self._strides(cache)
        before = (self.batch * strides[0],) if stacked else ()
        shape = (*((stacked,) if stacked else ()), self.batch, cache.heads, end - first, cache.depth)
        offset = self._offset(cache) + first * strides[2]
        return np.ndarray(shape, self.layout.dtype.numpy, flat, offset, (*before, *strides))

    def _strides(self, cache: Cache) -> tuple[int, int, int, int]:
        element = self.layout.dtype.itemsize
        row = cache.depth * element
        head = self.places * row
        return cache.heads * head, head, row, element

    def _offset(self, cache: Cache) -> int:
        """Return the first byte of a cache."""
        return self.batch * self.places * cache.at * self.layout.dtype.itemsize

    def _rows(self, cache: Cache) -> Iterable[tuple[tuple[int, int], int]]:
        """Yield text and head, and the byte offset of their first place."""
        row = self.places * cache.depth
        start = self._offset(cache)
        for number in range(self.batch * cache.heads):
            yield divmod(number, cache.heads), start + number * row * self.layout.dtype.itemsize

    def _copy_on_device(self, cache: Cache, other: Caches, count: int) -> None:
        assert self._engine is not None
        assert isinstance(self._held, Memory)
        assert isinstance(other._held, Memory)
        nbytes = count * cache.depth * self.layout.dtype.itemsize
        for (_, target), (_, source) in zip(self._rows(cache), other._rows(cache), strict=True):
            self._engine.stream.copy(other._held, self._held, target, nbytes, source)
        self._engine.stream.finish()

    def _write(self, cache: Cache, array: Array, first: int) -> None:
        """Copy *array*, of some places, to those from *first* on."""
        count = array.shape[2]
        if (view := self._host_view(cache)) is not None:
            view[:, :, first : first + count] = array
            return
        assert self._engine is not None
        assert isinstance(self._held, Memory)
        skipped = first * cache.depth * self.layout.dtype.itemsize
        kept = []
        for (text, head), offset in self._rows(cache):
            kept.append(np.ascontiguousarray(array[text, head, :count]))
            self._engine.stream.write(self._held, offset + skipped, kept[-1])
        self._engine.stream.finish()

    def _read_rows(self, cache: Cache, first: int, end: int) -> Array:
        assert self._engine is not None
        assert isinstance(self._held, Memory)
        found = np.empty((self.batch, cache.heads, end - first, cache.depth), self.layout.dtype.numpy)
        skipped = first * cache.depth * self.layout.dtype.itemsize
        for (text, head), offset in self._rows(cache):
            self._engine.stream.read(self._held, offset + skipped, found[text, head])
        return found


class Lease:
    """The memory of caches as NumPy sees it: alive as long as any array that was made of it.

    Attributes:
        count: How many places its views show.
        shown: These views, by the inputs that they are fed back to.
    """

    def __init__(self, caches: Caches, flat: Array, count: int) -> None:
        """Stand for *flat*, the memory of *caches*."""
        self.caches, self.count = caches, count
        self.shown: list[tuple[str, ref[Array]]] = []
        self._memory = (caches.held, flat)
        self.__array_interface__: dict[str, Any] = flat.__array_interface__

    def shows(self, arrays: Mapping[str, Array]) -> bool:
        """Whether *arrays*, by the inputs' names, are what :attr:`caches` hold, because they are its own views."""
        memory, _ = self._memory
        return memory is self.caches.held and all(view() is arrays[name] for name, view in self.shown)


def leased(array: Array) -> Lease | None:
    """Return the lease that *array* is a view of, if it is one."""
    base = array.base
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, Lease) else None
