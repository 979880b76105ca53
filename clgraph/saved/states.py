"""A program at any stage as JSON, with its constants as files beside: what a dump holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path

import numpy as np

from clgraph.core.files import output
from clgraph.graph.buffer import Buffer
from clgraph.graph.integers import Integers
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.serial import Json, encode
from clgraph.passes.memory.sharing import WouldShare
from clgraph.selector.choose import Choice


@dataclass
class StateWriter:
    """Turns programs into JSON, and keeps each constant once, as ``constants/<digest>.npy`` below *folder*."""

    folder: Path
    _written: dict[int, tuple[str, Array]] = field(default_factory=dict)

    def __call__(self, program: Program) -> Json:
        """Return *program* at whatever stage it is."""
        values = {value: number for number, value in enumerate(program.values)}
        held = dict.fromkeys(v.buffer for v in values if v.buffer is not None)
        held |= dict.fromkeys(b for node in program for b in node.scratch)
        buffers = {buffer: number for number, buffer in enumerate(held)}
        return {
            "stage": program.stage.name,
            "parts": program.batch_slices,
            "values": [
                [
                    v.name,
                    encode(v.layout),
                    None if v.constant is None else self._keep(v.constant),
                    None if v.buffer is None else buffers[v.buffer],
                    v.offset,
                    None if v.integers is None else self._integers(v.integers),
                ]
                for v in values
            ],
            "buffers": [
                [b.name, b.nbytes, b.offset, b.first, b.last, b.placement, [buffers[c] for c in b.conflicts]]
                for b in buffers
            ],
            "nodes": [_node(node, values, buffers) for node in program],
            "inputs": [values[v] for v in program.inputs],
            "outputs": [[name, values[v]] for name, v in program.outputs],
            "arenas": {placement: list(astuple(arena)) for placement, arena in program.arenas.items()},
            "notes": dict(program.notes),
        }

    def _integers(self, integers: Integers) -> Json:
        zero = None if integers.zero is None else self._keep(integers.zero)
        return [self._keep(integers.data), self._keep(integers.scale), zero, integers.axis]

    def _keep(self, array: Array) -> str:
        known = self._written.get(id(array))
        if known is None:
            data = np.asarray(array, order="C")  # not ascontiguousarray, which makes a scalar a vector
            digest = hashlib.sha256(f"{data.dtype.str}{data.shape}".encode() + data.tobytes()).hexdigest()[:24]
            path = self.folder / "constants" / f"{digest}.npy"
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                with output(path) as file:
                    np.save(file, data, allow_pickle=False)
            # The array is kept, so that its id stays its own.
            known = self._written[id(array)] = (digest, array)
        return known[0]


def _node(node: Node, values: Mapping[Value, int], buffers: Mapping[Buffer, int]) -> Json:
    choice = node.choice if isinstance(node.choice, Choice) else None
    return [
        node.name,
        encode(node.primitive),
        [values[v] for v in node.inputs],
        [values[v] for v in node.outputs],
        node.arity,
        encode(node.fused),
        list(node.origin),
        node.annotation,
        node.placement,
        node.partitioned_by,
        [buffers[b] for b in node.scratch],
        None if choice is None else [choice.name, encode(choice.seconds), choice.because, _would_share(choice)],
    ]


def _would_share(choice: Choice) -> bool:
    return choice.implementation is WouldShare
