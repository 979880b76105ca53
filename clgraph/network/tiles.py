"""The table of tile steps that an executor kernel reads: records, descriptors, post-operation lists."""

from __future__ import annotations

import struct
from dataclasses import field

import numpy as np

from clgraph.core.frozen import mutable
from clgraph.graph.node import Node
from clgraph.network.buffer_table import BufferTable, beyond_32_bits
from clgraph.network.tile_kernels import TileKernels, TileRows
from clgraph.runtime.executor import RECORD
from clgraph.selector.library import Library
from clgraph.selector.plan import Tile

_RECORD = struct.Struct(RECORD)


@mutable
class TileTable:
    """The tile steps of one subgraph and library, in order.

    Attributes:
        steps: Empty once the table is on its device and its network keeps no nodes.
    """

    library: Library
    steps: list[tuple[Node, Tile]] = field(default_factory=list)
    _names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    def add(self, node: Node, tile: Tile) -> int:
        """Append a step and return its number."""
        self.steps.append((node, tile))
        return len(self.steps) - 1

    def lighten(self) -> None:
        """Forget the steps, but for the names of their nodes and functions: tuples of text cost a collector nothing."""
        self._names = tuple([node.name for node, _ in self.steps]), tuple([tile.function for _, tile in self.steps])
        self.steps = []

    def what(self, step: int) -> str:
        """Return the node and the tile function of a step, in words."""
        if self.steps:
            node, tile = self.steps[step]
            return f"node {node.name!r} ({tile.function})"
        nodes, functions = self._names
        return f"node {nodes[step]!r} ({functions[step]})"

    def rows(self, places: BufferTable) -> TileRows:
        """Return the steps as their kernels take them."""
        users: dict[int, list[int]] = {bank: [] for bank in places.borrowed.values()}
        if users:
            for i, (node, _) in enumerate(self.steps):
                for bank in {places.borrowed[v] for v in (*node.inputs, *node.outputs) if v in places.borrowed}:
                    users[bank].append(i)
        tickets = [tile.tickets for _, tile in self.steps]
        scratch = max([tile.scratch for _, tile in self.steps], default=0)
        return TileRows(self.library.name, self.library.text, tickets, scratch, users, self.what)

    def to_bytes(self, places: BufferTable) -> bytes:
        """Return the table with every pointer resolved."""
        start = _RECORD.size * len(self.steps)
        numbers = {function: number for number, function in enumerate(self.library.functions)}
        records, blobs = bytearray(), bytearray()
        of, pointers = None, None
        for node, tile in self.steps:
            if pointers is None or node is not of:
                of, pointers = node, places.pointers(node)
            try:
                descriptor = start + len(blobs)
                blobs += tile.descriptor.to_bytes(pointers)
                post = start + len(blobs)
                for step in tile.post:
                    blobs += step.to_bytes(pointers)
                function = numbers[tile.function]
                records += _RECORD.pack(descriptor, post, function, tile.tickets, len(tile.post), 0)
            except (OverflowError, struct.error) as error:
                raise beyond_32_bits(node, error) from error
        return bytes(records + blobs)


class TileExecutor(TileKernels):
    """A table on a device, and the kernel that runs ranges of it.

    Attributes:
        table: What it runs.
    """

    def __init__(self, table: TileTable, places: BufferTable) -> None:
        """Copy the table; allocate what its kernels need. Raises ``DeviceMemoryError`` as :class:`TileKernels`."""
        super().__init__(table.rows(places), np.frombuffer(table.to_bytes(places), np.uint8), places)
        self.table = table
