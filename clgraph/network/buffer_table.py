"""Addresses of every tensor of a planned program: bank and offset, and the constants to upload once."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cache

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.errors import ProgramError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.borrowing import LEAST_BYTES, readable_at, readable_in_place, updated, writable_in_place
from clgraph.network.constants import UNIT
from clgraph.network.workspace import Workspace
from clgraph.runtime.engine import BoundKernel, Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.descriptor import NULL, Ref, Resolve
from clgraph.selector.library import BANKS

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
        fixed: (bank, offset) of constants.
        borrowed: Inputs that are read or updated, and results that are written, where the caller has them, with the
            bank that stands for the memory.
        kernels: By such a bank the kernels of their own that it is an argument of, each with the argument's number.
    """

    placement: str
    engine: Engine
    workspace: Workspace
    banks: list[Memory]
    arena_bank: int
    fixed: dict[Value, tuple[int, int]] = field(default_factory=dict)
    borrowed: dict[Value, int] = field(default_factory=dict)
    kernels: dict[int, list[tuple[BoundKernel, int]]] = field(default_factory=dict)
    _left: list[Array] = field(default_factory=list)
    _copies: list[Memory] = field(default_factory=list)

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
        places._place(list(dict.fromkeys(v for n in nodes for v in n.inputs if v.constant is not None)))
        places._borrow(program, lends)
        return places

    def _place(self, constants: list[Value]) -> None:
        if "host_memory" in self.engine.info.features:
            self._leave({v: address for v in constants if (address := readable_at(v)) is not None})
        elif self.engine.info.kind != "cpu":
            self._copy([v for v in constants if v.layout.nbytes >= LEAST_BYTES])
        self._pack([v for v in constants if v not in self.fixed])
        self.workspace.constants.use(self, self._copies)

    def _borrow(self, program: Program, lends: bool) -> None:
        """Let as many inputs and results as banks are left be used where the caller has them."""
        info = self.engine.info
        for value in updated(program, self.placement):
            self.borrowed[value] = len(self.banks)
            self.banks.append(self.engine.allocate(value.layout.nbytes, f"the input {value.name!r}"))
        inputs = readable_in_place(program, self.placement, info)[: max(0, BANKS - len(self.banks))]
        stand_ins = self.workspace.stand_ins(self.placement, self.engine, [v.layout.nbytes for v in inputs])
        for value, memory in zip(inputs, stand_ins, strict=True):
            self.borrowed[value] = len(self.banks)
            self.banks.append(memory)
        results = writable_in_place(program, self.placement, info) if lends else []
        for value in results[: max(0, BANKS - len(self.banks))]:
            view = self.view(value)
            assert view is not None
            self.borrowed[value] = len(self.banks)
            self.banks.append(self.engine.lend(view, writable=True))

    @property
    def nbytes(self) -> int:
        """Bytes of constants that were copied for it and that no other program uses."""
        return sum(m.nbytes for m in self._copies if self.workspace.constants.alone(m))

    def lighten(self) -> None:
        """Forget where constants lie: the kernels that read them are bound."""
        self.fixed = {}

    def at(self, value: Value) -> tuple[int, int]:
        """Return the bank of *value* and the byte offset of its memory in it."""
        if (place := self.fixed.get(value)) is not None:
            return place
        if value in self.borrowed:
            return self.borrowed[value], 0
        if value.buffer is None or value.buffer.offset is None:
            raise ProgramError(f"{value.name} has no place in memory")
        return self._in_arena(value.buffer.offset + value.offset)

    def pointers(self, node: Node) -> Resolve:
        """Return what makes the pointer of a descriptor of a reference, as seen from *node*: -1 for ``null``."""
        known = {NULL.role: -1}

        def resolve(ref: Ref) -> int:
            begin = known.get(ref.role)
            if begin is None:
                bank, offset = self.role(node, ref.role)
                begin = known[ref.role] = bank << BANK_SHIFT | offset
            return begin + ref.offset

        return resolve

    def role(self, node: Node, role: str) -> tuple[int, int]:
        """Return bank and byte offset of the tensor that a plan of *node* calls ``in0``, ``out0`` or ``scratch0``."""
        kind, index = _parsed(role)
        if kind == "scratch":
            offset = node.scratch[index].offset
            if offset is None:
                raise ProgramError(f"{node.name}: {role} has no place in memory")
            return self._in_arena(offset)
        if kind not in ("in", "out"):
            raise ProgramError(f"{node.name}: its plan names {role!r}, which is no tensor")
        return self.at((node.inputs if kind == "in" else node.outputs)[index])

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

    def fill(self, offset: int, nbytes: int, byte: int) -> None:
        """Enqueue setting *nbytes* of the arena from *offset* on to *byte*."""
        while nbytes > 0:
            bank, start = self._in_arena(offset)
            part = min(nbytes, self.banks[bank].nbytes - start)
            self.engine.stream.fill(self.banks[bank], byte, start, part)
            offset, nbytes = offset + part, nbytes - part

    def _leave(self, found: Mapping[Value, int]) -> None:
        """Let kernels read constants at the addresses *found*: in one bank that starts at the first of them.

        On a device that works on the host's memory, what lies behind a buffer has addresses as well.
        """
        if not found:
            return
        first = min(found, key=found.__getitem__)
        for value, address in found.items():
            self.fixed[value] = (len(self.banks), address - found[first])
        self._left = [v.constant for v in found if v.constant is not None]
        assert first.constant is not None
        self.banks.append(self.engine.lend(first.constant))

    def _copy(self, values: list[Value]) -> None:
        """Let large constants have memory of their own, which other programs may have copied them to already."""
        for value in values:
            memory, start = self.workspace.constants.copy(self.placement, self.engine, value)
            self.fixed[value] = (len(self.banks), start)
            self.banks.append(memory)
            self._copies.append(memory)

    def _pack(self, values: list[Value]) -> None:
        """Let constants share banks, which other programs may have packed already."""
        # Kernels of their own take any banks as arguments.
        most = BANKS - len(self.banks) if self.engine.info.kind == "cpu" else None
        found = self.workspace.constants.pack(self.placement, self.engine, values, self.arena_bank, most)
        numbers: dict[Memory, int] = {}
        for value, (memory, start) in found.items():
            if memory not in numbers:
                numbers[memory] = len(self.banks)
                self.banks.append(memory)
                self._copies.append(memory)
            self.fixed[value] = (numbers[memory], start)

    def _in_arena(self, offset: int) -> tuple[int, int]:
        return (0, offset) if offset < self.arena_bank else divmod(offset, self.arena_bank)


@cache
def _parsed(role: str) -> tuple[str, int]:
    return role.rstrip("0123456789"), int(role.lstrip("inoutscrah"))
