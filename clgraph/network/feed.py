"""Inputs of a network: read in place, or copied."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.network.borrowed_buffers import BorrowedBuffer
from clgraph.network.buffer_table import BufferTable
from clgraph.network.host import Host
from clgraph.network.kept_memory import KeptMemory, is_updated
from clgraph.runtime.memory import Memory

Held = Array | Memory
"""A NumPy array, or memory of the device, dense and of the value's element type."""


class Feed:
    """One input of a program.

    Attributes:
        how: What became of it in the latest run.
        value: What it is in the program; ``unread``: nothing is made of it.
        borrowed: What stands for it where it is read in place.
        view: The memory that it is copied to, ``None`` where it is not, or not by the host.
        passes: Nothing is made of it but results that have just its bytes.
        given: What these are copied from in this run; ``None`` where they are copied from the program's memory.
    """

    def __init__(
        self,
        value: Value,
        places: Mapping[str, BufferTable],
        host: Host,
        borrowed: BorrowedBuffer | None,
        kept: KeptMemory | None = None,
        *,
        read: bool = True,
        passes: bool = False,
    ) -> None:
        """Read into the memory of *value*, or where the caller has it by *borrowed*; *kept* is updated there.

        Args:
            read: Whether anything is made of it.
            passes: As the attribute.
        """
        self.kept, self.passes = kept, passes
        self.given: Array | None = None
        self.name, self.shape, self.dtype = value.name, value.layout.shape, value.layout.dtype.numpy
        self.how = "not read"
        self.value, self._host, self.borrowed = value, host, borrowed
        self.unread = value.buffer is None or not read
        self._updated = is_updated(value)
        self._places = None if value.buffer is None else places.get(value.buffer.placement)
        view = None if self.unread or self._places is None else self._places.view(value)
        self.view = None if borrowed is not None else view

    @property
    def is_plain(self) -> bool:
        """Whether nothing but an array is fed, which is copied by the host or read in place."""
        return not self._updated and (self.unread or self.view is not None or self.borrowed is not None)

    @property
    def is_on_host(self) -> bool:
        """Whether the host reads an array where it lies, or nobody does."""
        return not self._updated and self._places is None

    def checked(self, given: object) -> Held:
        """Return *given* C-contiguous; raises ``InputError`` where it is not what the program reads."""
        if self.kept is not None and not isinstance(given, Memory):
            raise InputError(f"input {self.name!r} is updated: it requires memory of the device, which stays")
        if self.kept is not None and isinstance(given, Memory) and given.start:
            raise InputError(
                f"input {self.name!r} is updated: it requires all of a buffer, not what is behind byte {given.start}"
            )
        if isinstance(given, Memory):
            return given
        if not isinstance(given, np.ndarray):
            raise InputError(f"input {self.name!r} is a {type(given).__name__}, not a NumPy array")
        if self._updated and given.ndim == 1 and given.dtype == self.dtype and given.flags.c_contiguous:
            return given
        if given.shape != self.shape or given.dtype != self.dtype:
            found = f"{given.dtype} {list(given.shape)}"
            raise InputError(f"input {self.name!r} requires {self.dtype} {list(self.shape)}, not {found}")
        return given if given.flags.c_contiguous else np.ascontiguousarray(given)

    def write(self, held: Held, *, passing: bool = False) -> None:
        """Make *held*, which lives until the run is over, what the program reads.

        Args:
            passing: Every result is left in a new array, so that one that has just these bytes is copied from *held*.
        """
        self.given = None
        if self.unread:
            return
        if self.kept is not None and isinstance(held, Memory):
            self.how = "updated where it lies"
            self.kept.use(held)
        elif isinstance(held, Memory):
            self._copy_on_device(held)
        elif passing and self.passes:
            self.how, self.given = "passed on", held
        elif self.borrowed is not None:
            self.how = "read in place" if self.borrowed.take(held) else "copied: its address is not a multiple of 4"
        elif self.view is not None:
            self.how = "copied"
            self.view[...] = held
        elif self._places is not None:
            self.how = "copied to the device"
            self._places.write(self.value, held)
        else:
            self.how = "read in place"
            self._host.put(self.value, held)

    def _copy_on_device(self, held: Memory) -> None:
        if self.borrowed is not None:
            self.borrowed.give_back()
        if self._places is None:
            array = np.empty(self.shape, self.dtype)
            held_by = next(iter(self._host.places.values()))
            held_by.engine.stream.read(held, held.start, array)
            self.how = "copied from the device"
            self._host.put(self.value, array)
            return
        self.how = "copied on the device"
        bank, offset = self._places.at(self.value)
        nbytes = self.value.layout.nbytes
        self._places.engine.stream.copy(held, self._places.banks[bank], offset, nbytes, held.start)


def wrong_names(wanted: list[str], given: list[str]) -> str:
    """Return the message of an error about feeds that are missing or unknown."""
    missing, unknown = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    parts = [f"input {missing[0]!r} is missing"] if missing else []
    parts += [f"no input is called {unknown[0]!r}"] if unknown else []
    return f"{'; '.join(parts)}: the inputs are {', '.join(map(repr, wanted)) or 'none'}"
