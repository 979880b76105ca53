"""Addresses of every tensor of a planned program: bank and offset, and the constants to upload once."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from itertools import islice

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.errors import ProgramError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.borrowing import readable_in_place, suits_callers, updated, views_of, writable_in_place
from clgraph.network.constants import UNIT
from clgraph.network.laid_constants import LaidConstants
from clgraph.network.workspace import Workspace
from clgraph.runtime.engine import BoundKernel, Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.descriptor import NULL, Places
from clgraph.selector.executor_kernel import BANKS

BANK_SHIFT = 56
"""A pointer in a descriptor is bank << 56 | byte offset."""


@contextmanager
def within_32_bits(node: Node) -> Iterator[None]:
    """Raise ``UnsupportedError`` where a size, stride or count of *node* does not fit the ints that kernels take."""
    try:
        yield
    except (OverflowError, struct.error) as error:
        raise beyond_32_bits(node, error) from error


def beyond_32_bits(node: Node, error: Exception) -> UnsupportedError:
    """Return what to raise where packing the numbers of *node* ended with *error*."""
    return UnsupportedError(f"node {node.name!r}: kernels count in 32 bits, which a size or step exceeds: {error}")


@mutable(weak=True)
class BufferTable:
    """The banks of one placement: the arena, cut at the device's largest allocation, then constants.

    Attributes:
        workspace: Memory shared with other programs.
        banks: What a bank number means.
        fixed: (bank, offset) of constants; ``laid``: what they lie in.
        borrowed: Inputs that are read or updated where the caller has them, with their views, and results that are
            written where they are returned, with what shares their memory; and the bank that stands for it.
        writes_callers: Such results that may lie in arrays of the caller's, not only in new ones.
        kernels: By such a bank the kernels of their own that it is an argument of, each with the argument's number.
    """

    placement: str
    engine: Engine
    workspace: Workspace
    banks: list[Memory]
    arena_bank: int
    fixed: dict[Value, tuple[int, int]] = field(default_factory=dict)
    borrowed: dict[Value, int] = field(default_factory=dict)
    writes_callers: set[Value] = field(default_factory=set)
    kernels: dict[int, list[tuple[BoundKernel, int]]] = field(default_factory=dict)
    laid: list[LaidConstants] = field(default_factory=list)

    @staticmethod
    def of(
        program: Program,
        placement: str,
        engine: Engine,
        *,
        lends: bool = True,
        workspace: Workspace | None = None,
    ) -> BufferTable:
        """Allocate the memory of *placement* and copy the constants that its nodes read.

        Args:
            lends: Let results be written to the caller's arrays; else all lie in the arena.
            workspace: Where to share memory with other programs.

        Raises:
            DeviceMemoryError: The device cannot hold it.
        """
        arena = program.arenas.get(placement)
        total = 0 if arena is None else arena.nbytes
        size = engine.info.max_alloc // UNIT * UNIT
        parts = [min(size, total - start) for start in range(0, max(total, 1), size)]
        workspace = workspace or Workspace()
        places = BufferTable(placement, engine, workspace, workspace.arenas(placement, engine, parts), size)
        nodes = [n for n in program if n.placement == placement]
        places._place(list(dict.fromkeys([v for n in nodes for v in n.inputs if v.constant is not None])))
        places._borrow(program, lends)
        return places

    def _place(self, constants: list[Value]) -> None:
        """Lay the *constants* out, where the program that was bound before has them as far as it reads the same."""
        if not constants:
            return
        known = self.workspace.laid(self.placement)
        if (laid_before := known.find(constants, len(self.banks))) is not None:
            laid, found = laid_before
            self._take(laid, found)
            constants = [v for v in constants if v not in found]
        if constants:
            shared = self.workspace.constants
            laid = LaidConstants.of(constants, self.placement, self.engine, shared, len(self.banks), self.arena_bank)
            if not self.laid:
                known.add(laid)
            self._take(laid, dict(zip(constants, laid.places, strict=True)))

    def _take(self, laid: LaidConstants, places: dict[Value, tuple[int, int]]) -> None:
        self.laid.append(laid)
        self.banks += laid.banks
        self.fixed |= places
        self.workspace.constants.use(self, laid.copies)

    def _borrow(self, program: Program, lends: bool) -> None:
        """Let as many inputs and results as banks are left be used where the caller has them."""
        info = self.engine.info
        for value in updated(program, self.placement):
            self.borrowed[value] = len(self.banks)
            self.banks.append(self.engine.allocate(value.layout.nbytes, f"the input {value.name!r}"))
        inputs = readable_in_place(program, self.placement, info)[: max(0, BANKS - len(self.banks))]
        stand_ins = self.workspace.stand_ins(self.placement, self.engine, [v.layout.nbytes for v in inputs])
        for value, memory in zip(inputs, stand_ins, strict=True):
            self.borrowed |= dict.fromkeys(views_of(value), len(self.banks))
            self.banks.append(memory)
        results = writable_in_place(program, self.placement, info) if lends else {}
        for value, parts in islice(results.items(), max(0, BANKS - len(self.banks))):
            view = self.view(value)
            assert view is not None
            if suits_callers(value, parts):
                self.writes_callers.add(value)
            self.borrowed |= dict.fromkeys(parts, len(self.banks))
            self.banks.append(self.engine.lend(view, writable=True))

    @property
    def nbytes(self) -> int:
        """Bytes of constants that were copied for it and that no other program uses."""
        alone = self.workspace.constants.alone
        return sum(m.nbytes for laid in self.laid for m in laid.copies if alone(m))

    def lighten(self) -> None:
        """Forget where constants lie: the kernels that read them are bound."""
        self.fixed = {}

    def at(self, value: Value) -> tuple[int, int]:
        """Return the bank of *value* and the byte offset of its memory in it."""
        if (place := self.fixed.get(value)) is not None:
            return place
        if value in self.borrowed:
            return self.borrowed[value], value.offset
        buffer = value.buffer
        if buffer is None or buffer.offset is None:
            raise ProgramError(f"{value.name} has no place in memory")
        offset = buffer.offset + value.offset
        return (0, offset) if offset < self.arena_bank else self._in_arena(offset)

    def pointers(self, node: Node) -> Places:
        """Return where the tensors are that a plan of *node* names."""
        found, arena, fixed, borrowed = _Pointers(), self.arena_bank, self.fixed, self.borrowed
        found.table, found.node, found[NULL.role] = self, node, -1
        for role, value in zip(_ROLES.get(len(node.inputs), ()), node.inputs + node.outputs, strict=False):
            if (place := fixed.get(value)) is not None:
                found[role] = place[0] << BANK_SHIFT | place[1]
                continue
            start = None if (buffer := value.buffer) is None else buffer.offset
            if start is not None and start + value.offset < arena and value not in borrowed:
                found[role] = start + value.offset
        return found

    def role(self, node: Node, role: str) -> tuple[int, int]:
        """Return bank and byte offset of the tensor that a plan of *node* calls ``in0``, ``out0`` or ``scratch0``."""
        kind, index = _parsed(role)
        if kind == "in":
            value = node.inputs[index]
            return self.fixed.get(value) or self.at(value)
        if kind == "out":
            return self.at(node.outputs[index])
        if kind != "scratch":
            raise ProgramError(f"{node.name}: its plan names {role!r}, which is not a tensor")
        offset = node.scratch[index].offset
        if offset is None:
            raise ProgramError(f"{node.name}: {role} has no place in memory")
        return self._in_arena(offset)

    def table(self, values: tuple[int, ...]) -> Memory:
        """Return memory that holds *values* as 32-bit ints; equal tables share it."""
        return self.workspace.constants.table(self.placement, self.engine, values)

    def read(self, value: Value) -> Array:
        """Return the flat memory of *value*, after every earlier command is done."""
        memory = np.empty(value.layout.span, value.layout.dtype.numpy)
        self.read_into(value, memory)
        return memory

    def read_into(self, value: Value, memory: Array) -> None:
        """Fill C-contiguous *memory* from *value*, after every earlier command is done."""
        bank, offset = self.at(value)
        self.engine.stream.read(self.banks[bank], offset, memory)

    def view(self, value: Value) -> Array | None:
        """Return the memory of a dense plain *value* as the host's array, where the device works on the host's memory.

        It is to be touched only while nothing is in flight.
        """
        bank, offset = self.at(value)
        array, layout = self.banks[bank].array, value.layout
        if array is None:
            return None
        return array[offset : offset + layout.nbytes].view(layout.dtype.numpy).reshape(layout.shape)

    def write(self, value: Value, memory: Array) -> None:
        """Enqueue a copy of flat *memory*, which must live until the stream is finished."""
        bank, offset = self.at(value)
        self.engine.stream.write(self.banks[bank], offset, memory)

    @property
    def arena_banks(self) -> list[Memory]:
        """The banks of the arena, in the order of its bytes."""
        others = {id(memory) for memory in (*self.constant_banks, *(self.banks[b] for b in self.borrowed.values()))}
        return [bank for bank in self.banks if id(bank) not in others]

    @property
    def constant_banks(self) -> list[Memory]:
        """The banks that constants lie in."""
        return [bank for laid in self.laid for bank in laid.banks]

    def fill(self, offset: int, nbytes: int, byte: int) -> None:
        """Enqueue setting *nbytes* of the arena from *offset* on to *byte*."""
        while nbytes > 0:
            bank, start = self._in_arena(offset)
            part = min(nbytes, self.banks[bank].nbytes - start)
            self.engine.stream.fill(self.banks[bank], byte, start, part)
            offset, nbytes = offset + part, nbytes - part

    def _in_arena(self, offset: int) -> tuple[int, int]:
        return (0, offset) if offset < self.arena_bank else divmod(offset, self.arena_bank)


_MOST = 16
_ROLES = {n: (*(f"in{i}" for i in range(n)), *(f"out{i}" for i in range(_MOST))) for n in range(_MOST)}
"""What plans call the tensors of a node, its inputs in front, by how many these are."""


class _Pointers(dict[str, int]):
    """The tensors of a node by role: those that lie at hand, and others once a descriptor names them."""

    __slots__ = ("node", "table")
    table: BufferTable
    node: Node

    def __missing__(self, role: str) -> int:
        bank, offset = self.table.role(self.node, role)
        found = self[role] = bank << BANK_SHIFT | offset
        return found


@cache
def _parsed(role: str) -> tuple[str, int]:
    return role.rstrip("0123456789"), int(role.lstrip("inoutscrah"))
