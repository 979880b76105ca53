"""Copies of constants on devices: one a constant and placement, shared by the networks of a model and of its clones."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary, ref

import numpy as np

from clgraph.network.near_constants import NearConstants

if TYPE_CHECKING:
    from clgraph.graph.node import Value
    from clgraph.graph.primitive import Array
    from clgraph.runtime.engine import Engine
    from clgraph.runtime.memory import Memory

UNIT = 64
"""Tensors start at multiples of this many bytes."""
SLACK = 64
"""Bytes behind each constant that a vector load may touch."""
SHARED = 2
"""A network takes the constants that it reads out of at most so many banks that others have packed."""

Copy = tuple["Memory", int]
"""Where a constant was copied to: memory, and the byte that it starts at."""


class Constants:
    """Copies of constants on devices, found by identity of the array; keeps neither arrays nor memory alive.

    ``near`` has the weights in mapped files brought near that devices read which work on the host's memory.

    An array must not change once a network reads it: the networks that come later may use the copy.
    """

    def __init__(self) -> None:
        self.near = NearConstants()
        self._copies: dict[tuple[str, int], tuple[ReferenceType[Array], ReferenceType[Memory], int]] = {}
        self._tables: WeakValueDictionary[tuple[str, tuple[int, ...]], Memory] = WeakValueDictionary()
        self._users: WeakKeyDictionary[Memory, WeakSet[object]] = WeakKeyDictionary()
        self._lock = threading.Lock()
        self._room = 64

    def copy(self, placement: str, engine: Engine, value: Value) -> Copy:
        """Return where constant *value* lies on *placement*, copied to memory of its own if need be.

        Raises:
            DeviceMemoryError: The device has no memory left.
        """
        array = _data(value)
        with self._lock:
            found = self._find(placement, array)
            if found is None:
                found = engine.upload(np.ascontiguousarray(array), f"constant {value.name!r}"), 0
                self._note(placement, array, found)
            return found

    def pack(
        self, placement: str, engine: Engine, values: Sequence[Value], size: int, most: int | None
    ) -> dict[Value, Copy]:
        """Return where the constants *values* lie on *placement*, those that nobody has copied yet in banks of *size*.

        Args:
            most: Banks that all may lie in, ``None`` for any number: where it takes more, all are copied, to as few as
                possible.

        Raises:
            DeviceMemoryError: The device has no memory left.
        """
        with self._lock:
            found = {v: copy for v in values if (copy := self._find(placement, _data(v))) is not None}
            used = _fullest(found)
            if len(used) > SHARED:
                used = used[:SHARED]
                found = {v: copy for v, copy in found.items() if copy[0] in used}
            banks = _cut((v for v in values if v not in found), size)
            if most is not None and found and len(used) + len(banks) > most:
                found, banks = {}, _cut(values, size)
            for total, held in banks:
                memory = engine.allocate(total, "constants")
                _fill(engine, memory, held)
                for value, start in held:
                    found[value] = memory, start
                    self._note(placement, _data(value), (memory, start))
            return found

    def use(self, user: object, memories: Iterable[Memory]) -> None:
        """Note that *user* holds *memories*."""
        with self._lock:
            for memory in memories:
                users = self._users.get(memory)
                if users is None:
                    users = self._users[memory] = WeakSet()
                users.add(user)

    def alone(self, memory: Memory) -> bool:
        """Whether there is no more than one user of *memory*."""
        with self._lock:
            return len(self._users.get(memory, ())) <= 1

    def table(self, placement: str, engine: Engine, values: tuple[int, ...]) -> Memory:
        """Return memory that holds *values* as 32-bit ints; equal tables share it."""
        with self._lock:
            memory = self._tables.get((placement, values))
            if memory is None:
                memory = engine.upload(np.array(values, np.int32), "a table of sizes")
                self._tables[placement, values] = memory
            return memory

    def _find(self, placement: str, array: Array) -> Copy | None:
        known = self._copies.get((placement, id(array)))
        # An id is given again when its array is gone.
        if known is None or known[0]() is not array or (memory := known[1]()) is None:
            return None
        return memory, known[2]

    def _note(self, placement: str, array: Array, copy: Copy) -> None:
        if len(self._copies) >= self._room:
            live = {k: c for k, c in self._copies.items() if c[0]() is not None and c[1]() is not None}
            self._copies, self._room = live, 2 * len(live) + 64
        self._copies[placement, id(array)] = ref(array), ref(copy[0]), copy[1]


def _fullest(found: Mapping[Value, Copy]) -> list[Memory]:
    """Return what constants lie in, first what holds most bytes of them."""
    nbytes: dict[Memory, int] = {}
    for value, (memory, _) in found.items():
        nbytes[memory] = nbytes.get(memory, 0) + _data(value).nbytes
    return sorted(nbytes, key=lambda memory: -nbytes[memory])


def _cut(values: Iterable[Value], size: int) -> list[tuple[int, list[tuple[Value, int]]]]:
    """Return banks of at most *size* bytes, unless one value alone takes more: bytes, and each value with its start."""
    banks: list[tuple[int, list[tuple[Value, int]]]] = []
    for value in values:
        need = -(-(value.layout.nbytes + SLACK) // UNIT) * UNIT
        if not banks or banks[-1][0] + need > size:
            banks.append((0, []))
        used, held = banks[-1]
        held.append((value, used))
        banks[-1] = (used + need, held)
    return banks


def _fill(engine: Engine, memory: Memory, held: Iterable[tuple[Value, int]]) -> None:
    for value, start in held:
        data = np.ascontiguousarray(_data(value))
        if memory.array is not None:
            memory.array[start : start + data.nbytes] = data.reshape(-1).view(np.uint8)
        else:
            engine.stream.write(memory, start, data)
    engine.stream.finish()


def _data(value: Value) -> Array:
    assert value.constant is not None
    return value.constant
