"""ONNX files with large weights: the weights stay where they are, in the mapped or read file, and the rest is parsed.

Parsing copies every weight three times. An ONNX file is a protocol buffer, https://protobuf.dev/programming-guides/encoding:
fields of a number, a type and a value. The walk here looks into the graph, its initializers and the tensors of its
Constant nodes, and leaves their ``raw_data`` out of what is parsed where it is large.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from clgraph.core.mapped import content_of
from clgraph.graph.primitive import Array
from clgraph.handlers import pass_on

LEAST_BYTES = 1 << 12
"""Smaller weights are parsed with the rest."""

_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_OUTPUT, _OP_TYPE, _ATTRIBUTE, _DOMAIN = 2, 4, 5, 7
_TENSOR = 5
_NAME, _RAW_DATA = 8, 9
"""Numbers of fields in a model, a graph, a node, an attribute and a tensor."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Content = bytes | mmap.mmap

_Field = tuple[int, int, int, int, int]
"""Number, type, first byte of the field, first and one past the last of its value."""


def outline(path: Path) -> tuple[bytes, dict[str, Array]] | None:
    """Return the file without the data of its large constants, and that data as bytes by the name of the value.

    Returns ``None`` where the file cannot be mapped or is no well-formed message; parsing it then says what is wrong.
    What is read of a pipe is gone, and a device may have no end.
    """
    try:
        if not path.is_file():
            return None
        content = content_of(path)
    except (OSError, ValueError) as error:
        pass_on(error)
        return None
    found: dict[str, Array] = {}
    try:
        return _model(content, found), found
    except ValueError as error:
        pass_on(error)
        return None


def _model(data: Content, found: dict[str, Array]) -> bytes:
    def edit(number: int, start: int, end: int) -> bytes | None:
        return _rewritten(data, start, end, edit_graph) if number == _GRAPH else None

    def edit_graph(number: int, start: int, end: int) -> bytes | None:
        if number == _INITIALIZER:
            return _tensor(data, start, end, found, "")
        return _constant(data, start, end, found) if number == _NODE and end - start >= LEAST_BYTES else None

    return _rewritten(data, 0, len(data), edit)


def _rewritten(data: Content, start: int, end: int, edit: Callable[[int, int, int], bytes | None]) -> bytes:
    """Return a message with what *edit* makes of fields' number, start and end; ``None`` leaves a field as it is."""
    parts: list[bytes] = []
    for number, kind, first, value, stop in _fields(data, start, end):
        body = edit(number, value, stop) if kind == _BYTES else None
        parts += [data[first:stop]] if body is None else [_varint(number << 3 | _BYTES), _varint(len(body)), body]
    return b"".join(parts)


def _constant(data: Content, start: int, end: int, found: dict[str, Array]) -> bytes | None:
    """Return a node without its tensor's large data, filed under the node's output; ``None`` for other operators."""
    texts: dict[int, bytes] = {}
    for number, kind, _, value, stop in _fields(data, start, end):
        if number in (_OUTPUT, _OP_TYPE, _DOMAIN) and kind == _BYTES:
            texts.setdefault(number, data[value:stop])
    if texts.get(_OP_TYPE) != b"Constant" or texts.get(_DOMAIN, b"") not in (b"", b"ai.onnx"):
        return None
    output = texts.get(_OUTPUT, b"").decode()

    def edit(number: int, start: int, end: int) -> bytes | None:
        return _rewritten(data, start, end, edit_attribute) if number == _ATTRIBUTE else None

    def edit_attribute(number: int, start: int, end: int) -> bytes | None:
        return _tensor(data, start, end, found, output) if number == _TENSOR else None

    return _rewritten(data, start, end, edit) if output else None


def _tensor(data: Content, start: int, end: int, found: dict[str, Array], name: str) -> bytes:
    """Return a tensor without its data where that is large; that is filed under *name*, the tensor's own by default.

    Of several tensors of one name the last counts.
    """
    fields = list(_fields(data, start, end))
    name = name or next((data[v:s] for n, k, _, v, s in fields if n == _NAME and k == _BYTES), b"").decode()
    found.pop(name, None)
    parts = []
    for number, kind, first, value, stop in fields:
        if number == _RAW_DATA and kind == _BYTES and stop - value >= LEAST_BYTES and name:
            found[name] = np.frombuffer(data, np.uint8, stop - value, value)
        else:
            parts.append(data[first:stop])
    return b"".join(parts)


def _fields(data: Content, at: int, end: int) -> Iterator[_Field]:
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


def _read_varint(data: Content, at: int, end: int) -> tuple[int, int]:
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
