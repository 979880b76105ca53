"""Programs at any milestone as JSON and back: values and their memory, nodes and their choices, arenas, notes.

Saved models hold planned ones with the steps of their plans, to be run as they are by the same sources of clgraph;
dumps hold those between two passes, which the passes that are left go on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from clgraph.core.layout import Layout
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError, ProgramError
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.graph.serial import Json, PrimitiveOf, decode, decode_text, encode, text_of
from clgraph.graph.typed import fits
from clgraph.saved.plans import decode_choice, encode_choice
from clgraph.selector.choose import Choice
from clgraph.selector.query import DeviceInfo

FORMAT = 3
"""Of a program as JSON; one of another number is not read."""

Add = Callable[[Array], Json]
"""Keeps the data of a constant, and returns what stands for it."""
Find = Callable[[Json], Array]
"""Returns the data that something stands for."""

_PLACEMENT = 8
"""Where a node as JSON has its placement."""
_BUFFERS = list[tuple[str, int, int | None, int, int, str | None]]


class _Node(Node):
    """A node whose primitive and fused operations are made when somebody asks for them: to run a plan, nobody does."""

    __slots__ = ("_fused", "_of", "_primitive", "_updates")
    _fused: str | tuple[Fused, ...]
    _of: PrimitiveOf
    _primitive: str | Primitive
    _updates: frozenset[int]

    @property
    def updates(self) -> frozenset[int]:
        return self._updates if isinstance(self._primitive, str) else self._primitive.updates

    @property
    def primitive(self) -> Primitive:
        if isinstance(self._primitive, str):
            made: Primitive = decode_text(self._primitive, self._of, Primitive)
            self._primitive = made
        return self._primitive

    @primitive.setter
    def primitive(self, primitive: Primitive) -> None:
        self._primitive = primitive

    @property
    def fused(self) -> tuple[Fused, ...]:
        if isinstance(self._fused, str):
            made: tuple[Fused, ...] = decode_text(self._fused, self._of, tuple[Fused, ...])
            self._fused = made
        return self._fused

    @fused.setter
    def fused(self, fused: tuple[Fused, ...]) -> None:
        self._fused = fused


def encode_program(program: Program, add: Add, *, steps: bool = False, reasons: bool = True) -> Json:
    """Return *program*; what running it does not need is text in it.

    Args:
        add: Takes the data of a constant and returns what stands for it.
        steps: Write the steps of plans, and leave out what only passes look at: the program is to be run as it is.
        reasons: Write why implementations were chosen; without, only what members of a family take over.

    Raises:
        ProgramError: Steps are asked for, and it is not planned.
        UnsupportedError: A primitive holds something that cannot be written.
    """
    if steps and program.milestone < Milestone.PLANNED:
        raise ProgramError(f"only a PLANNED program can be saved; this one is {program.milestone.name}")
    values = {value: number for number, value in enumerate(program.values)}
    held = dict.fromkeys(v.buffer for v in values if v.buffer is not None)
    held |= dict.fromkeys(b for node in program for b in node.scratch)
    buffers = {buffer: number for number, buffer in enumerate(held)}
    found = {
        "format": FORMAT,
        "milestone": program.milestone.name,
        "values": [_encode_value(value, buffers, add) for value in values],
        "buffers": [[b.name, b.nbytes, b.offset, b.first, b.last, b.placement] for b in buffers],
        "nodes": [_encode_node(node, values, buffers, steps, reasons) for node in program],
        "inputs": [values[v] for v in program.inputs],
        "outputs": [[name, values[v]] for name, v in program.outputs],
        "arenas": {placement: list(astuple(arena)) for placement, arena in program.arenas.items()},
        "batch_slices": program.batch_slices,
        "updates": [[number, sorted(node.updates)] for number, node in enumerate(program) if node.updates],
        "notes": dict(program.notes),
    }
    return found if steps or not reasons else {**found, **_encode_for_passes(values, buffers, add)}


def _encode_for_passes(values: Mapping[Value, int], buffers: Mapping[Buffer, int], add: Add) -> dict[str, Json]:
    integers = [(number, v.integers) for v, number in values.items() if v.integers is not None]
    return {
        "conflicts": [[number, buffers[other]] for b, number in buffers.items() for other in b.conflicts],
        "integers": [
            [number, add(i.data), add(i.scale), None if i.zero is None else add(i.zero), i.axis]
            for number, i in integers
        ],
    }


def placements(data: Json) -> tuple[str, ...]:
    """Return the names of the devices that a program as JSON is placed on; raises ``ModelError`` where it is none."""
    with well_formed("a saved program"):
        _check_format(data)
        return tuple(dict.fromkeys(str(node[_PLACEMENT]) for node in data["nodes"] if node[_PLACEMENT] is not None))


def decode_program(data: Json, array: Find, devices: Mapping[str, DeviceInfo], primitive_of: PrimitiveOf) -> Program:
    """Return the program that :func:`encode_program` wrote, bound to *devices*; *array* returns a constant's data.

    Raises:
        ModelError: *data* is no such program, or is one of another format.
    """
    with well_formed("a saved program"):
        _check_format(data)
        if not fits(data["buffers"], _BUFFERS):
            raise ModelError(f"a saved program is damaged: its buffers are not of the form {_BUFFERS}")
        buffers = [
            Buffer(name, size, at, first, last, placement=home) for name, size, at, first, last, home in data["buffers"]
        ]
        values = [_decode_value(v, buffers, array, primitive_of) for v in data["values"]]
        nodes = [_decode_node(n, values, buffers, devices, primitive_of) for n in data["nodes"]]
        for number, slots in data.get("updates", ()):
            nodes[number]._updates = frozenset(map(int, slots))
        for number, other in data.get("conflicts", ()):
            buffers[number].add_conflict(buffers[other])
        for number, whole, scale, zero, axis in data.get("integers", ()):
            from clgraph.graph.integers import Integers

            zeros = None if zero is None else array(zero)
            values[number].integers = Integers(array(whole), array(scale), zeros, axis)
        program = Program(
            [values[i] for i in data["inputs"]], [(name, values[i]) for name, i in data["outputs"]], nodes
        )
        program.arenas = {placement: Arena(*sizes) for placement, sizes in data["arenas"].items()}
        program.batch_slices = int(data["batch_slices"])
        program.notes = {name: str(note) for name, note in data["notes"].items()}
        program.milestone = Milestone[data["milestone"]]
    return program


def _check_format(data: Json) -> None:
    if (found := data.get("format", 1)) != FORMAT:
        raise ModelError(
            f"a program of format {found} cannot be read, this clgraph reads {FORMAT}: save or dump the model again"
        )


def _encode_value(value: Value, buffers: Mapping[Buffer, int], add: Add) -> Json:
    buffer = None if value.buffer is None else buffers[value.buffer]
    constant = None if value.constant is None else add(value.constant)
    return [value.name, encode(value.layout), constant, buffer, value.offset]


def _decode_value(data: Json, buffers: list[Buffer], array: Find, primitive_of: PrimitiveOf) -> Value:
    name, layout, constant, buffer, offset = data
    found = decode(layout, primitive_of)
    if not isinstance(found, Layout) or not isinstance(name, str) or not isinstance(offset, int):
        raise ModelError(f"a saved program is damaged: {name!r} has the layout {layout!r}")
    value = Value(name, found)
    if constant is not None:
        value.constant = array(constant)
        if not _holds(value.constant, found):
            raise ModelError(f"a saved program is damaged: the data of {name!r} does not fit {found}")
    value.buffer, value.offset = None if buffer is None else buffers[buffer], offset
    return value


def _holds(array: Array, layout: Layout) -> bool:
    """Return whether *array* can be the data of *layout*: its elements in order, or its memory as it is."""
    return array.dtype == layout.dtype.numpy and array.size in (layout.count, layout.span)


def _encode_node(
    node: Node, values: Mapping[Value, int], buffers: Mapping[Buffer, int], steps: bool, reasons: bool
) -> Json:
    choice = node.choice if isinstance(node.choice, Choice) else None
    if steps and choice is None:
        raise ProgramError(f"node {node.name!r} has no implementation")
    return [
        node.name,
        text_of(encode(node.primitive)),
        [values[v] for v in node.inputs],
        [values[v] for v in node.outputs],
        node.arity,
        text_of(encode(node.fused)),
        list(node.origin),
        node.annotation,
        node.placement,
        node.partitioned_by,
        [buffers[b] for b in node.scratch],
        None if choice is None else encode_choice(node, choice, steps=steps, reasons=reasons),
    ]


def _decode_node(
    data: Json,
    values: list[Value],
    buffers: list[Buffer],
    devices: Mapping[str, DeviceInfo],
    primitive_of: PrimitiveOf,
) -> _Node:
    name, primitive, inputs, outputs, arity, fused, origin, annotation, placement, partitioned_by, scratch, chosen = (
        data
    )
    if not all(isinstance(text, str) for text in (name, primitive, fused, *origin, annotation or "", placement or "")):
        raise ModelError(f"a saved program is damaged: a field of node {name!r} is not text")
    node: Any = _Node.__new__(_Node)
    node._primitive, node._fused, node._of, node._updates = primitive, fused, primitive_of, frozenset()
    node.name, node.arity, node.origin = name, arity, tuple(origin)
    node.inputs, node.outputs = tuple(values[i] for i in inputs), tuple(values[i] for i in outputs)
    node.annotation, node.placement, node.partitioned_by = annotation, placement, partitioned_by
    node.scratch = tuple(buffers[i] for i in scratch)
    node.choice = None if chosen is None else decode_choice(node, devices[placement], chosen, primitive_of)
    made: _Node = node
    return made
