"""Values of primitives and layouts as JSON and back: no code in the file, and nothing that is not listed here."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError, UnsupportedError
from clgraph.graph.node import Fused
from clgraph.graph.primitive import Primitive
from clgraph.graph.typed import check_fields, fits

Json = Any
"""What ``json`` writes. Of :func:`encode`: None, bool, int, float, str; lists begin with a letter for their type."""

PrimitiveOf = Callable[[str], type[Primitive]]
"""Finds the class of a kind of primitive."""


def text_of(data: Json) -> str:
    """Return JSON as text: within a file, what is read later or never, and is no burden as objects."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def encode(value: object) -> Json:
    """Return *value* as JSON.

    None, bool, int, float (infinities and NaN too), str, tuples, frozen sets, element types, formats, layouts,
    primitives and fused operations are held.

    Raises:
        UnsupportedError: It is, or holds, something else.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else ["f", repr(value)]
    if isinstance(value, tuple):
        return ["t", *map(encode, value)]
    if isinstance(value, frozenset):
        return ["s", *sorted(map(encode, value), key=repr)]
    if isinstance(value, DType):
        return ["d", value.name]
    if isinstance(value, Format):
        return ["o", list(value.order), [list(b) for b in value.blocks]]
    if isinstance(value, Layout):
        return ["l", value.dtype.name, list(value.shape), *_format(value), list(value.pitches)]
    if isinstance(value, Primitive):
        return ["p", value.kind, *((f.name, encode(getattr(value, f.name))) for f in fields(value))]  # type: ignore[arg-type]  # every subclass is a dataclass
    if isinstance(value, Fused):
        return ["u", encode(value.primitive), list(value.operands), value.slot, value.where]
    raise UnsupportedError(
        f"{value!r} ({type(value).__name__}) cannot be saved: it is not a number, text, tuple or layout"
    )


def decode(data: Json, primitive_of: PrimitiveOf) -> Any:
    """Return the value that :func:`encode` made *data* of.

    Raises:
        ModelError: *data* is nothing that ``encode`` makes.
        UnsupportedError: A primitive is not known.
    """
    if data is None or isinstance(data, bool | int | float | str):
        return data
    with well_formed("a saved value", data):
        return _DECODERS[data[0]](data, primitive_of)


def decode_primitive(data: Json, primitive_of: PrimitiveOf) -> Primitive:
    """Return the primitive that :func:`encode` made *data* of; raises ``ModelError`` where that was none."""
    found = decode(data, primitive_of)
    if not isinstance(found, Primitive):
        raise ModelError(f"a saved value is damaged: {found!r:.60} is not a primitive")
    return found


def decode_text(text: str, primitive_of: PrimitiveOf, hint: Any) -> Any:
    """Return the value of type *hint* that :func:`text_of` an encoded one is.

    Raises:
        ModelError: It is none.
    """
    with well_formed("a saved value", text):
        found = decode(json.loads(text), primitive_of)
        if not fits(found, hint):
            raise ModelError(f"a saved value is {found!r:.60}, and should be {hint}")
    return found


def _format(layout: Layout) -> tuple[Json, Json]:
    plain = layout.format.is_plain
    spelled = None if plain else [list(layout.format.order), [list(b) for b in layout.format.blocks]]
    return spelled, [list(h) for h in layout.halo]


def _layout(data: Json, _: PrimitiveOf) -> Layout:
    _, dtype, shape, spelled, halo, pitches = data
    format = Format.plain(len(shape)) if spelled is None else _read_format(*spelled)
    halos = tuple((before, after) for before, after in halo)
    if not {*map(type, chain(shape, pitches, *halos))} <= {int}:
        raise TypeError("sizes, halo and pitches are whole numbers")
    return Layout(DType[dtype], tuple(shape), format, halos, tuple(pitches))


def _read_format(order: list[int], blocks: list[list[int]]) -> Format:
    return Format(tuple(order), tuple((axis, size) for axis, size in blocks))


def _primitive(data: Json, primitive_of: PrimitiveOf) -> Primitive:
    _, kind, *attributes = data
    return make_primitive(primitive_of(kind), {name: decode(value, primitive_of) for name, value in attributes})


def make_primitive(kind: type[Primitive], values: Mapping[str, object]) -> Primitive:
    """Return a primitive with the attributes *values*; raises ``ModelError`` where one has not the declared type."""
    check_fields(kind, values)
    return kind(**values)


def _fused(data: Json, primitive_of: PrimitiveOf) -> Fused:
    _, primitive, operands, slot, where = data
    values = {"primitive": decode(primitive, primitive_of), "operands": tuple(operands), "slot": slot, "where": where}
    check_fields(Fused, values)
    return Fused(**values)


_DECODERS: dict[str, Callable[[Json, PrimitiveOf], Any]] = {
    "f": lambda data, _: float(data[1]),
    "t": lambda data, of: tuple(decode(item, of) for item in data[1:]),
    "s": lambda data, of: frozenset(decode(item, of) for item in data[1:]),
    "d": lambda data, _: DType[data[1]],
    "o": lambda data, _: _read_format(data[1], data[2]),
    "l": _layout,
    "p": _primitive,
    "u": _fused,
}
