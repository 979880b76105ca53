"""ONNX files with large weights: the weights stay in the file, mapped, and only the rest is parsed.

Parsing copies every weight three times. An ONNX file is a protocol buffer, https://protobuf.dev/programming-guides/encoding:
fields of a number, a type and a value. The walk here looks into the graph (field 7 of ``ModelProto``), its initializers
(5) and their ``raw_data`` (9), and leaves the large ones out of what is parsed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clgraph.core.mapped import MappedFile
from clgraph.graph.primitive import Array

LEAST_BYTES = 1 << 12
"""Smaller weights are parsed with the rest."""

_GRAPH, _INITIALIZER, _NAME, _RAW_DATA = 7, 5, 8, 9
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_Field = tuple[int, int, int, int, int]
"""Number, type, first byte of the field, first and one past the last of its value."""


def outline(path: Path) -> tuple[bytes, dict[str, Array]] | None:
    """Return the file without the data of its large initializers, and that data as bytes by name.

    Returns ``None`` where the file cannot be mapped or is no well-formed message; parsing it then says what is wrong.
    """
    try:
        content = MappedFile(path)
    except (OSError, ValueError):
        return None
    found: dict[str, Array] = {}
    try:
        return _message(content, 0, len(content), (_GRAPH, _INITIALIZER), found), found
    except ValueError:
        return None


def _message(data: mmap.mmap, start: int, end: int, inner: tuple[int, ...], found: dict[str, Array]) -> bytes:
    """Return the message in *data* with the fields *inner*, one in the other, without their large data."""
    parts: list[bytes] = []
    fields = list(_fields(data, start, end))
    if not inner:
        return _tensor(data, fields, found)
    for number, kind, first, value, stop in fields:
        if number == inner[0] and kind == _BYTES:
            body = _message(data, value, stop, inner[1:], found)
            parts += [_varint(number << 3 | _BYTES), _varint(len(body)), body]
        else:
            parts.append(data[first:stop])
    return b"".join(parts)


def _tensor(data: mmap.mmap, fields: list[_Field], found: dict[str, Array]) -> bytes:
    name = next((data[v:s] for n, k, _, v, s in fields if n == _NAME and k == _BYTES), b"").decode()
    parts = []
    for number, kind, first, value, stop in fields:
        if number == _RAW_DATA and kind == _BYTES and stop - value >= LEAST_BYTES and name:
            found[name] = np.frombuffer(data, np.uint8, stop - value, value)
        else:
            parts.append(data[first:stop])
    return b"".join(parts)


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[_Field]:
    """Yield the fields of a message; raises ``ValueError`` where it is none."""
    while at < end:
        first = at
        tag, at = _read_varint(data, at, end)
        kind, value = tag & 7, at
        if kind == _VARINT:
            _, at = _read_varint(data, at, end)
        elif kind == _BYTES:
            size, value = _read_varint(data, at, end)
            at = value + size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"field of type {kind}")
        if at > end:
            raise ValueError("cut off")
        yield tag >> 3, kind, first, value, at


def _read_varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    number = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    raise ValueError("no number")


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
