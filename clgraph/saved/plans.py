"""Serialisation of choices and plans to JSON and back: with steps, ready to bind, or without, to continue with passes.

Of the choices of a family's representative there are the names: its members have steps of their own.
"""

from __future__ import annotations

import functools
import json
import struct
import weakref
from collections import defaultdict
from typing import Any, ClassVar

from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.graph.node import Node
from clgraph.graph.serial import Json, PrimitiveOf, decode, encode, text_of
from clgraph.passes.chosen import InPlace
from clgraph.selector.choose import Choice, HostReference
from clgraph.selector.descriptor import NULL, Descriptor, Places, PostStep, Ref
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Argument, Carry, Launch, Plan, Step, Table, Tile
from clgraph.selector.query import DeviceInfo, Query

_POINTER = struct.Struct("<q")
_PROVISIONAL = "in_place?"
"""What a choice is called in a file that has the name of ``InPlace``, and may become it."""
_NAME, _WITHOUT_STEPS = 3, 6
"""Entries of a choice as JSON that has only its name, and of one that has no steps."""


class Packed(Descriptor):
    """The bytes of a descriptor, and which of them are pointers: what a table of tiles needs of it.

    Each tile function has a subclass, so that the class says what the descriptor's own class says.
    """

    __slots__ = ("_data", "_pointers")

    def __init__(self, data: bytes, pointers: tuple[tuple[int, Ref], ...]) -> None:
        """Take the struct, and what stands at which offset of it."""
        self._data, self._pointers = data, pointers

    @property
    def nbytes(self) -> int:
        """Bytes of the struct."""
        return len(self._data)

    def to_bytes(self, places: Places) -> bytes:
        """Return the struct's bytes with every pointer resolved."""
        data = bytearray(self._data)
        for offset, ref in self._pointers:
            _POINTER.pack_into(data, offset, places[ref.role] + ref.offset)
        return bytes(data)

    def to_json(self) -> tuple[Json, Json]:
        """Return the bytes and the pointers."""
        return self._data.hex(), [[offset, ref.role, ref.offset] for offset, ref in self._pointers]


@functools.cache
def _packed(function: str, library: str, any_alignment: bool) -> type[Packed]:
    names = {"function": function, "library": library, "any_alignment": any_alignment, "__slots__": ()}
    return type("Packed", (Packed,), names)


class Recorded(Choice):
    """A choice read from a file, usually with its steps; implementation and query are resolved on demand.

    It is the last word on its node, which it does not keep alive: it cannot become the choice for another query.
    """

    __slots__ = ("_device", "_name", "_node", "_of", "_query")
    _device: DeviceInfo
    _name: str
    _node: weakref.ref[Node]
    _of: PrimitiveOf
    _query: str | Query[Any]

    FIELDS: ClassVar[tuple[str, ...]] = ("seconds", "because", "refusals", "slower")

    def __init__(self, node: Node, device: DeviceInfo, data: Json, primitive_of: PrimitiveOf) -> None:
        """Read what :func:`encode_choice` wrote about *node*, which runs on *device*."""
        plan = None
        if len(data) == _NAME:
            name, seconds, query = data
            because, refusals, slower = "", {}, {}
        else:
            name, seconds, because, refusals, slower, query, steps, scratch = data
            plan = Plan(tuple(_decode_step(step) for step in steps), tuple(scratch))
        found = _reasons(node, seconds, because, refusals, slower)
        for field, value in zip(self.FIELDS, found, strict=True):
            object.__setattr__(self, field, value)
        own = (weakref.ref(node), device, str(name), query, primitive_of, plan)
        for field, value in zip(("_node", "_device", "_name", "_query", "_of", "_plan"), own, strict=True):
            object.__setattr__(self, field, value)

    @property
    def name(self) -> str:
        """Name of the implementation."""
        return self._name

    @property
    def in_place(self) -> bool:
        """Whether nothing runs; the name says so."""
        return self._name == InPlace.name

    @property
    def implementation(self) -> type[Implementation[Any]]:
        """The implementation of that name; ``KeyError`` where it is gone."""
        return _implementation(self._name, self._device)

    @property
    def query(self) -> Query[Any]:
        """The problem that it was chosen for, of a node that somebody holds: read once, as every member asks for it."""
        if not isinstance(self._query, Query):
            node = self._node()
            assert node is not None
            object.__setattr__(self, "_query", _read_query(self._query, node, self._device, self._of))
        assert isinstance(self._query, Query)
        return self._query


def encode_choice(node: Node, choice: Choice, *, steps: bool, reasons: bool = True) -> Json:
    """Return *choice* of *node*, with its steps or without, or what it is called without its *reasons*."""
    q = choice.query
    primitive = None if q.primitive == node.primitive else q.primitive
    query = [encode(x) for x in (primitive, q.inputs, q.outputs, q.arity, q.fused, q.constant)]
    name = _PROVISIONAL if choice.name == InPlace.name and not choice.in_place else choice.name
    if not reasons:
        return [name, encode(choice.seconds), text_of(query)]
    slower, refusals = {name: encode(cost) for name, cost in choice.slower.items()}, dict(choice.refusals)
    found = [name, encode(choice.seconds), choice.because, refusals, slower, text_of(query)]
    if not steps:
        return found
    plan = choice.plan()
    return [*found, [_encode_step(step) for step in plan.steps], list(plan.scratch)]


def decode_choice(node: Node, device: DeviceInfo, data: Json, primitive_of: PrimitiveOf) -> Choice:
    """Return what :func:`encode_choice` wrote about *node*, which runs on *device*; without steps, one for passes."""
    if len(data) != _WITHOUT_STEPS:
        return Recorded(node, device, data, primitive_of)
    name, seconds, because, refusals, slower, query = data
    implementation, q = _implementation(name, device), _read_query(query, node, device, primitive_of)
    return Choice(q, implementation, *_reasons(node, seconds, because, refusals, slower))


def _implementation(name: str, device: DeviceInfo) -> type[Implementation[Any]]:
    if name == _PROVISIONAL:
        # Of programs that are not planned yet: to run one out of a file nobody needs it, nor the operators it knows.
        from clgraph.passes.memory.sharing import WouldShare

        return WouldShare
    return {InPlace.name: InPlace, HostReference.name: HostReference}.get(name) or IMPLEMENTATIONS.at(name, device.kind)


def _read_query(text: str, node: Node, device: DeviceInfo, primitive_of: PrimitiveOf) -> Query[Any]:
    with well_formed("a saved query"):
        primitive, inputs, outputs, arity, fused, constant = (decode(x, primitive_of) for x in json.loads(text))
        return Query(primitive or node.primitive, inputs, outputs, device, arity, fused, constant)


def _reasons(
    node: Node, seconds: Json, because: Json, refusals: Json, slower: Json
) -> tuple[float, str, dict[str, str], dict[str, float]]:
    if not all(isinstance(why, str) for why in refusals.values()):
        raise ModelError(f"a saved choice is damaged: a refusal of {node.name!r} is not text")
    costs = {other: _number(cost) for other, cost in slower.items()}
    return _number(seconds), str(because), dict(refusals), costs


def _encode_step(step: Step) -> Json:
    if isinstance(step, Carry):
        return ["carry"]
    if isinstance(step, Launch):
        args = [_encode_argument(a) for a in step.args]
        group = None if step.group is None else list(step.group)
        return ["launch", step.source, step.entry, [list(m) for m in step.jit.macros], list(step.grid), group, args]
    d = step.descriptor
    data, pointers = d.to_json() if isinstance(d, Packed) else _pack(d)
    post = [[p.code, encode(p.a), encode(p.b), p.operand.role, p.operand.offset, list(p.pitches)] for p in step.post]
    kind = [type(d).function, type(d).library, type(d).any_alignment]
    return ["tile", step.function, kind, data, pointers, step.tickets, step.scratch, post]


def _pack(d: Descriptor) -> tuple[Json, Json]:
    at, pointers = 0, []
    for name, _, code in d.c_fields:
        value = getattr(d, name)
        if isinstance(value, Ref):
            pointers.append([at, value.role, value.offset])
        at += struct.calcsize(code)
    return d.to_bytes(defaultdict(int)).hex(), pointers


def _encode_argument(argument: Argument) -> Json:
    return ["table", *argument.values] if isinstance(argument, Table) else encode(argument)


def _decode_step(data: Json) -> Step:
    if data[0] == "carry":
        return Carry()
    if data[0] == "launch":
        _, source, entry, macros, grid, group, args = data
        jit = Jit(tuple((name, value) for name, value in macros))
        shape = None if group is None else tuple(group)
        return Launch(source, entry, jit, tuple(grid), shape, tuple(_decode_argument(a) for a in args))
    _, function, kind, packed, pointers, tickets, scratch, post = data
    refs = tuple((offset, Ref(role, start)) for offset, role, start in pointers)
    descriptor = _packed(*kind)(bytes.fromhex(packed), refs)
    return Tile(function, descriptor, tickets, scratch, tuple(_decode_post(p) for p in post))


def _decode_post(data: Json) -> PostStep:
    code, a, b, role, offset, pitches = data
    operand = NULL if role == NULL.role else Ref(role, offset)
    return PostStep(code, _number(a), _number(b), operand, tuple(pitches))


def _decode_argument(data: Json) -> Argument:
    if isinstance(data, list) and data[0] == "table":
        return Table(tuple(data[1:]))
    return data if isinstance(data, str | int) else _number(data)


def _number(data: Json) -> float:
    return float(data[1] if isinstance(data, list) else data)
