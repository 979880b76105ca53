"""Results of a network: written in place, or copied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.network.borrowed_buffers import BorrowedBuffer
from clgraph.network.buffer_table import BufferTable
from clgraph.network.constant_result import ConstantResult
from clgraph.network.feed import Feed, Held
from clgraph.network.host import Host
from clgraph.network.result_memory import LEAST_BYTES, ResultMemory
from clgraph.network.tensors import constant_array
from clgraph.runtime.memory import Memory


class Result:
    """One result of a program: in a new array, in one of the caller's, or in memory of the device.

    Attributes:
        how: What became of it in the latest run.
        value: What it is in the program; ``constant``: what that always is, ``source``: the input that it passes on.
        borrowed: What stands for it where kernels write it to the caller's array.
        small_view: The memory that it is copied from into a new array, ``None`` where it is large or no memory of the
            host's.
    """

    def __init__(
        self,
        name: str,
        value: Value,
        places: Mapping[str, BufferTable],
        host: Host,
        borrowed: BorrowedBuffer | None,
        memory: ResultMemory,
        source: Feed | None = None,
    ) -> None:
        """Read the memory of *value*; with *borrowed*, kernels may write it to the caller's array.

        Args:
            memory: Of new arrays.
            source: The input that it has just the bytes of, and that passes them on.
        """
        self.name, self.shape, self.dtype = name, value.layout.shape, value.layout.dtype.numpy
        self.how = "not asked for"
        self.value, self._host, self.borrowed, self._memory = value, host, borrowed, memory
        self._nbytes = value.layout.nbytes
        on_host = value.buffer is None or value.constant is not None
        self._places = None if on_host or value.buffer is None else places.get(value.buffer.placement)
        self._view = None if self._places is None else self._places.view(value)
        self.constant = None if value.constant is None else ConstantResult(constant_array(value))
        self.source = source
        small = self.borrowed is None and source is None and self._nbytes < LEAST_BYTES
        self.small_view = (self._view if self.constant is None else self.constant.array) if small else None
        self._target: Held | None = None
        self._lent = False

    @property
    def is_plain(self) -> bool:
        """Whether the host copies it from the device's memory, or kernels write it to a new array."""
        return self._view is not None or self.constant is not None

    def begin(self, target: Held | None, read: Iterable[Held]) -> None:
        """Prepare for a run that leaves the result in *target*, in a new array for ``None``, and reads *read*."""
        self._target = target
        if self.borrowed is None:
            return
        if target is None:
            self._target = self._new()
        array = self._target
        apart = isinstance(array, np.ndarray) and (target is None or not _touches(array, read))
        self._lent = apart and isinstance(array, np.ndarray) and self.borrowed.take(array, new=target is None)
        if not self._lent:
            self.borrowed.give_back()

    def skip(self) -> None:
        """Prepare for a run in which the result is not requested."""
        if self.borrowed is not None:
            self.borrowed.give_back()

    def end(self) -> Held:
        """Fill the target and return it; every command of the run is complete."""
        target = self._target
        if self._lent:
            assert target is not None
            self.how = "written in place"
            return target
        if isinstance(target, Memory):
            self.leave(target).engine.stream.finish()
            return target
        held = None if self.source is None else self.source.given
        view = self._view if held is None else held.reshape(self.shape)
        if view is not None:
            self.how = "copied"
            if target is None and self._nbytes < LEAST_BYTES:
                return view.copy()
            target = self._new() if target is None else target
            target[...] = view
            return target
        target = self._new() if target is None else target
        if self._places is not None:
            self.how = "copied from the device"
            array = target if target.flags.c_contiguous else np.empty(self.shape, self.dtype)
            self._places.read_into(self.value, array)
            if array is not target:
                target[...] = array
        else:
            self.how = "copied"
            if self.constant is not None:
                self.constant.write(target)
            else:
                target[...] = self._host.get(self.value)
        return target

    def _new(self) -> Array:
        return self._memory.empty(self.shape, self.dtype, self._nbytes)

    def view(self) -> Array:
        """Return the memory of the result itself where the host can read it, else a copy of it."""
        if self._view is not None:
            return self._view
        self.begin(None, ())
        found = self.end()
        assert isinstance(found, np.ndarray)
        return found

    def release(self) -> None:
        """Forget the caller's array."""
        self._target, self._lent = None, False

    def _on_host(self) -> Array:
        return self.constant.whole() if self.constant is not None else self._host.get(self.value)

    def leave(self, target: Memory) -> BufferTable:
        """Enqueue the copy of the result to *target*; return where that was done."""
        places = self._places or next(iter(self._host.places.values()))
        self.how = "copied on the device"
        if self._places is None:
            self.how = "copied to the device"
            places.engine.stream.write(target, target.start, np.ascontiguousarray(self._on_host()))
            places.engine.stream.finish()
        else:
            bank, offset = places.at(self.value)
            nbytes = self.value.layout.nbytes
            places.engine.stream.copy(places.banks[bank], target, target.start, nbytes, offset)
        return places


def _touches(array: Array, others: Iterable[Held]) -> bool:
    return any(isinstance(other, np.ndarray) and np.may_share_memory(array, other) for other in others)
