"""Addresses of every tensor of a planned program: bank and offset, and the constants to upload once."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from clgraph.errors import ProgramError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.borrowing import LEAST_BYTES, readable_in_place, stays, writable_in_place
from clgraph.network.workspace import Constants, Workspace
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.selector.descriptor import Ref
from clgraph.selector.library import BANKS

UNIT = 64
"""Tensors start at multiples of this many bytes."""
SLACK = 64
"""Bytes behind each constant that a vector load may touch."""
BANK_SHIFT = 56
"""A pointer in a descriptor is bank << 56 | byte offset."""


@contextmanager
def within_32_bits(node: Node) -> Iterator[None]:
    """Raise ``UnsupportedError`` where a size, stride or count of *node* does not fit the ints that kernels take."""
    try:
        yield
    except (OverflowError, struct.error) as error:
        raise UnsupportedError(
            f"node {node.name!r}: kernels count in 32 bits, which a size or step exceeds: {error}"
        ) from error


@dataclass
class BufferTable:
    """The banks of one placement: the arena, cut at the device's largest allocation, then constants.

    Attributes:
        banks: What a bank number means.
        fixed: (bank, offset) of constants.
        borrowed: Inputs that are read, and results that are written, where the caller has them, with the bank that
            stands for the array.
    """

    engine: Engine
    banks: list[Memory]
    arena_bank: int
    fixed: dict[Value, tuple[int, int]] = field(default_factory=dict)
    borrowed: dict[Value, int] = field(default_factory=dict)
    _left: list[Array] = field(default_factory=list)
    _shared: list[Memory] = field(default_factory=list)
    _tables: dict[tuple[int, ...], Memory] = field(default_factory=dict)
    _scratch: dict[str, Memory] = field(default_factory=dict)

    @staticmethod
    def of(
        program: Program,
        placement: str,
        engine: Engine,
        *,
        lends: bool = True,
        like: BufferTable | None = None,
        workspace: Workspace | None = None,
    ) -> BufferTable:
        """Allocate the memory of *placement* and copy the constants that its nodes read.

        Args:
            lends: Let results be written to the caller's arrays; else all lie in the arena.
            like: BufferTable of the same program, whose constants are used instead of copies.
            workspace: Where to share memory with other programs.

        Raises:
            DeviceMemoryError: The device cannot hold it.
        """
        arena = program.arenas.get(placement)
        total = 0 if arena is None else arena.nbytes
        size = engine.info.max_alloc // UNIT * UNIT
        parts = [min(size, total - start) for start in range(0, max(total, 1), size)]
        workspace = workspace or Workspace()
        places = BufferTable(engine, workspace.arenas(placement, engine, parts), size)
        if like is None:
            nodes = [n for n in program if n.placement == placement]
            constants = dict.fromkeys(v for n in nodes for v in n.inputs if v.constant is not None)
            if "host_memory" in engine.info.features:
                places._leave([v for v in constants if stays(v)])
            elif engine.info.kind != "cpu":
                places._copy([v for v in constants if v.layout.nbytes >= LEAST_BYTES], placement, workspace.constants)
            places._pack([v for v in constants if v not in places.fixed], size, "constants")
            places._shared = places.banks[len(parts) :]
        else:
            places.fixed = dict(like.fixed)
            places.banks += like._shared
            places._shared, places._left, places._tables = like._shared, like._left, like._tables
        for value in readable_in_place(program, placement, engine.info)[: BANKS - len(places.banks)]:
            places.borrowed[value] = len(places.banks)
            places.banks.append(engine.allocate(value.layout.nbytes, f"input {value.name!r}"))
        for value in writable_in_place(program, placement, engine.info)[: BANKS - len(places.banks)] if lends else ():
            view = places.view(value)
            assert view is not None
            places.borrowed[value] = len(places.banks)
            places.banks.append(engine.lend(view, writable=True))
        return places

    def at(self, value: Value) -> tuple[int, int]:
        """Return the bank of *value* and the byte offset of its memory in it."""
        if value in self.fixed:
            return self.fixed[value]
        if value in self.borrowed:
            return self.borrowed[value], 0
        if value.buffer is None or value.buffer.offset is None:
            raise ProgramError(f"{value.name} has no place in memory")
        return self._in_arena(value.buffer.offset + value.offset)

    def resolve(self, node: Node, ref: Ref) -> int:
        """Return the pointer of a descriptor for *ref*, as seen from *node*; -1 for ``null``."""
        if ref.role == "null":
            return -1
        bank, offset = self.role(node, ref.role)
        return bank << BANK_SHIFT | (offset + ref.offset)

    def role(self, node: Node, role: str) -> tuple[int, int]:
        """Return bank and byte offset of the tensor that a plan of *node* calls ``in0``, ``out0`` or ``scratch0``."""
        kind, index = role.rstrip("0123456789"), int(role.lstrip("inoutscrah"))
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
        if values not in self._tables:
            self._tables[values] = self.engine.upload(np.array(values, np.int32), "a table of sizes")
        return self._tables[values]

    def workers_scratch(self, library: str, nbytes: int) -> Memory:
        """Return at least *nbytes* of memory for the workers of a table of *library*.

        The tables of one library share it: no two of their steps run at the same time.
        """
        held = self._scratch.get(library)
        if held is None or held.nbytes < nbytes:
            held = self._scratch[library] = self.engine.allocate(nbytes, "the workers' scratch")
        return held

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

    def _leave(self, values: list[Value]) -> None:
        """Let kernels read constants where they are: in one bank that starts at the first of them.

        On a device that works on the host's memory, what lies behind a buffer has addresses as well.
        """
        found = {v: v.constant for v in values if v.constant is not None}
        if not found:
            return
        first = min(found.values(), key=lambda array: array.ctypes.data)
        for value, array in found.items():
            self.fixed[value] = (len(self.banks), array.ctypes.data - first.ctypes.data)
        self.banks.append(self.engine.lend(first))
        self._left = list(found.values())

    def _copy(self, values: Iterable[Value], placement: str, constants: Constants) -> None:
        """Let large constants have memory of their own, which other programs may have copied them to already."""
        for value in values:
            if value.constant is not None:
                self.fixed[value] = (len(self.banks), 0)
                self.banks.append(constants.copy(placement, self.engine, value.constant, f"constant {value.name!r}"))

    def _in_arena(self, offset: int) -> tuple[int, int]:
        return offset // self.arena_bank, offset % self.arena_bank

    def _pack(self, values: Iterable[Value], size: int, what: str) -> None:
        """Lay *values* out in banks of their own, and copy those that have data."""
        banks: list[tuple[int, list[Value]]] = []
        for value in values:
            need = -(-(value.layout.nbytes + SLACK) // UNIT) * UNIT
            if not banks or banks[-1][0] + need > size:
                banks.append((0, []))
            used, held = banks[-1]
            self.fixed[value] = (len(self.banks) + len(banks) - 1, used)
            banks[-1] = (used + need, [*held, value])
        for nbytes, held in banks:
            memory = self.engine.allocate(nbytes, what)
            self.banks.append(memory)
            for value in held:
                if value.constant is None:
                    continue
                if memory.array is not None:
                    start = self.fixed[value][1]
                    data = np.ascontiguousarray(value.constant).reshape(-1).view(np.uint8)
                    memory.array[start : start + data.nbytes] = data
                else:
                    self.engine.stream.write(memory, self.fixed[value][1], np.ascontiguousarray(value.constant))
            self.engine.stream.finish()
