"""Planned programs as JSON and back: values and their memory, nodes and their choices, arenas, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import Any

from clgraph.core.layout import Layout
from clgraph.errors import ModelError, ProgramError
from clgraph.graph.buffer import Arena, Buffer
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program, Stage
from clgraph.graph.serial import Json, PrimitiveOf, decode, decode_text, encode, text_of, well_formed
from clgraph.graph.typed import fits
from clgraph.saved.plans import Recorded, encode_choice
from clgraph.selector.choose import Choice
from clgraph.selector.query import DeviceInfo

_BUFFERS = list[tuple[str, int, int | None, int, int, str | None]]


class _Node(Node):
    """A node whose primitive and fused operations are made when somebody asks for them: to run a plan, nobody does."""

    __slots__ = ("_fused", "_of", "_primitive")
    _fused: str | tuple[Fused, ...]
    _of: PrimitiveOf
    _primitive: str | Primitive

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


def encode_program(program: Program, add: Callable[[Array], Json]) -> Json:
    """Return a planned program; what running it does not need is text in it.

    *add* takes the data of a constant and returns what stands for it.

    Raises:
        ProgramError: It is not planned.
        UnsupportedError: A primitive holds something that cannot be written.
    """
    if program.stage < Stage.PLANNED:
        raise ProgramError(f"only a PLANNED program can be saved; this one is {program.stage.name}")
    values = {value: number for number, value in enumerate(program.values)}
    held = dict.fromkeys(v.buffer for v in values if v.buffer is not None)
    held |= dict.fromkeys(b for node in program for b in node.scratch)
    buffers = {buffer: number for number, buffer in enumerate(held)}
    return {
        "values": [_encode_value(value, buffers, add) for value in values],
        "buffers": [[b.name, b.nbytes, b.offset, b.first, b.last, b.placement] for b in buffers],
        "nodes": [_encode_node(node, values, buffers) for node in program],
        "inputs": [values[v] for v in program.inputs],
        "outputs": [[name, values[v]] for name, v in program.outputs],
        "arenas": {placement: list(astuple(arena)) for placement, arena in program.arenas.items()},
        "parts": program.batch_slices,
        "notes": dict(program.notes),
    }


def decode_program(
    data: Json, array: Callable[[Json], Array], devices: Mapping[str, DeviceInfo], primitive_of: PrimitiveOf
) -> Program:
    """Return the program that :func:`encode_program` wrote, bound to *devices*; *array* returns a constant's data.

    Raises:
        ModelError: *data* is no such program.
    """
    with well_formed("a saved program"):
        if not fits(data["buffers"], _BUFFERS):
            raise ModelError(f"a saved program is damaged: its buffers are not of the form {_BUFFERS}")
        buffers = [
            Buffer(name, size, at, first, last, {}, where) for name, size, at, first, last, where in data["buffers"]
        ]
        values = [_decode_value(v, buffers, array, primitive_of) for v in data["values"]]
        nodes = [_decode_node(n, values, buffers, devices, primitive_of) for n in data["nodes"]]
        program = Program(
            [values[i] for i in data["inputs"]], [(name, values[i]) for name, i in data["outputs"]], nodes
        )
        program.arenas = {placement: Arena(*sizes) for placement, sizes in data["arenas"].items()}
        program.batch_slices, program.notes = (
            int(data["parts"]),
            {name: str(note) for name, note in data["notes"].items()},
        )
    program.stage = Stage.PLANNED
    return program


def _encode_value(value: Value, buffers: Mapping[Buffer, int], add: Callable[[Array], Json]) -> Json:
    buffer = None if value.buffer is None else buffers[value.buffer]
    constant = None if value.constant is None else add(value.constant)
    return [value.name, encode(value.layout), constant, buffer, value.offset]


def _decode_value(
    data: Json, buffers: list[Buffer], array: Callable[[Json], Array], primitive_of: PrimitiveOf
) -> Value:
    name, layout, constant, buffer, offset = data
    found = decode(layout, primitive_of)
    if not isinstance(found, Layout) or not isinstance(name, str) or not isinstance(offset, int):
        raise ModelError(f"a saved program is damaged: {name!r} has the layout {layout!r}")
    value = Value(name, found, None, None if constant is None else array(constant))
    value.buffer, value.offset = None if buffer is None else buffers[buffer], offset
    return value


def _encode_node(node: Node, values: Mapping[Value, int], buffers: Mapping[Buffer, int]) -> Json:
    if not isinstance(node.choice, Choice):
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
        encode_choice(node, node.choice),
    ]


def _decode_node(
    data: Json,
    values: list[Value],
    buffers: list[Buffer],
    devices: Mapping[str, DeviceInfo],
    primitive_of: PrimitiveOf,
) -> Node:
    name, primitive, inputs, outputs, arity, fused, origin, annotation, placement, partitioned_by, scratch, chosen = (
        data
    )
    if not all(isinstance(text, str) for text in (name, primitive, fused, *origin, annotation or "")):
        raise ModelError(f"a saved program is damaged: of node {name!r} something is no text")
    node: Any = _Node.__new__(_Node)
    node._primitive, node._fused, node._of = primitive, fused, primitive_of
    node.name, node.arity, node.origin = name, arity, tuple(origin)
    node.inputs, node.outputs = tuple(values[i] for i in inputs), tuple(values[i] for i in outputs)
    node.annotation, node.placement, node.partitioned_by = annotation, placement, partitioned_by
    node.scratch = tuple(buffers[i] for i in scratch)
    node.choice = Recorded(node, devices[placement], chosen, primitive_of)
    made: Node = node
    return made
