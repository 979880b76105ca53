"""Tensors of the Open Inference Protocol: its names of element types, and arrays from and to its bytes and lists."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.errors import InputError, UnsupportedError
from clgraph.graph.host_types import STRINGS, numpy_type
from clgraph.graph.primitive import Array
from clgraph.model.feeds import literal

BYTES = "BYTES"
"""The name of strings; each is a text of UTF-8 here."""

TYPES = {
    "BOOL": DType.BOOL,
    **{f"{sign}INT{bits}": DType[f"{sign or 'I'}{bits}"] for sign in ("U", "") for bits in (8, 16, 32, 64)},
    "FP16": DType.F16,
    "FP32": DType.F32,
    "FP64": DType.F64,
    "BF16": DType.BF16,
}
"""Element types by the protocol's names, but for strings."""

_NAMES = {dtype: name for name, dtype in TYPES.items()}
_LENGTH = struct.Struct("<I")


def datatype_of(spelled: str | None, what: str) -> str:
    """Return the protocol's name of the element type of a tensor as ONNX spells its type.

    Raises:
        UnsupportedError: The protocol has none; the message calls the tensor *what*.
    """
    if spelled == STRINGS:
        return BYTES
    if spelled is not None and spelled.startswith("tensor(") and (name := _NAMES.get(DType.of(numpy_type(spelled)))):
        return name
    raise UnsupportedError(f"{what} is {spelled or 'of an undeclared type'}, which the protocol has no name for")


def datatype(array: Array) -> str:
    """Return the protocol's name of an array's element type; raises ``UnsupportedError`` where it has none."""
    if array.dtype == object:
        return BYTES
    name = _NAMES.get(DType.of(array.dtype.newbyteorder("=")))
    if name is None:
        raise UnsupportedError(f"a result is {array.dtype}, which the protocol has no name for")
    return name


_MOST_AXES = 64
"""Of an array of NumPy's."""


def checked_shape(shape: Any, what: str) -> tuple[int, ...]:
    """Return a request's shape; raises ``InputError`` where it is not a list of sizes."""
    if not isinstance(shape, Sequence) or isinstance(shape, str | bytes):
        raise InputError(f"the shape of {what} must be a list of sizes, not {type(shape).__name__}")
    if wrong := [d for d in shape if type(d) is not int or d < 0]:
        raise InputError(f"the shape of {what} holds {wrong[0]!r}, which is not a size")
    if len(shape) > _MOST_AXES:
        raise InputError(f"the shape of {what} has {len(shape)} axes; {_MOST_AXES} are the most")
    return tuple(shape)


def from_raw(raw: bytes | memoryview, name: str, shape: tuple[int, ...], what: str) -> Array:
    """Return the array whose elements lie in *raw*, row by row, least byte first; on that memory where it can be.

    Strings are each a length of four bytes and so many bytes of UTF-8.

    Raises:
        InputError: It has another number of bytes than the shape asks for, or *name* is no element type.
    """
    if name == BYTES:
        return _texts(list(_pieces(raw, what)), shape, what)
    dtype = _element_type(name, what)
    if len(raw) != (wanted := prod(shape) * dtype.itemsize):
        raise InputError(f"{what} is {name} {list(shape)}, which takes {wanted} bytes: {len(raw)} were given")
    if name == "BOOL":
        return np.asarray(np.frombuffer(raw, np.uint8).reshape(shape) != 0)  # other bytes than 0 and 1 are none
    return np.require(np.frombuffer(raw, dtype).reshape(shape), requirements="A")


def to_raw(array: Array) -> bytes:
    """Return the elements of *array* as :func:`from_raw` reads them."""
    if array.dtype != object:
        return np.ascontiguousarray(array).tobytes()
    texts = [str(text).encode() for text in array.flat]
    return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))


def from_list(data: Any, name: str, shape: tuple[int, ...], what: str) -> Array:
    """Return the array of numbers or texts in a list or an array, flat or nested as the shape is.

    Raises:
        InputError: The list has another number of elements, or one that the element type cannot hold.
    """
    if not isinstance(data, Sequence | np.ndarray) or isinstance(data, str | bytes):
        raise InputError(f"the data of {what} must be a list, not {type(data).__name__}")
    if name == BYTES:
        return _texts(list(_flat(data)), shape, what)
    dtype = _element_type(name, what)
    try:
        array = np.asarray(data) if len(data) else np.empty(0, dtype)
    except ValueError as error:
        raise InputError(f"the lists of {what} differ in length or depth") from error
    if name == "UINT64" and array.dtype.kind == "f":
        # NumPy makes floats of whole numbers when some are above 63 bits and others are not.
        array = np.asarray(data, object)
    if array.size != prod(shape):
        raise InputError(
            f"{what} is {name} {list(shape)}: {prod(shape)} elements are expected, {array.size} were given"
        )
    if array.size and (array.dtype.kind == "b") != (name == "BOOL"):
        raise InputError(f"{what} is {name}; the data holds {'others than ' if name == 'BOOL' else ''}true and false")
    array = literal(array, dtype, what)
    if array.dtype != dtype:
        raise InputError(f"{what} is {name}; the data holds what is not a number")
    return array.reshape(shape)


def to_list(array: Array) -> list[Any]:
    """Return the elements of *array* as a flat list of Python's numbers, truths or texts."""
    flat = array.ravel()
    found: list[Any] = (flat.astype(np.float32) if array.dtype.name == "bfloat16" else flat).tolist()
    return found


def _element_type(name: str, what: str) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in TYPES:
        raise InputError(f"the datatype of {what} is {name!r}; there are {', '.join((*TYPES, BYTES))}")
    return TYPES[name].numpy


def _pieces(raw: bytes | memoryview, what: str) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        begin = at + _LENGTH.size
        end = begin + _LENGTH.unpack_from(raw, at)[0] if begin <= len(raw) else begin
        if end > len(raw):
            raise InputError(f"{what} ends inside of a string, at byte {len(raw)} where {end} are expected")
        yield bytes(raw[begin:end])
        at = end


def _flat(data: Any) -> Iterator[Any]:
    for item in data:
        if isinstance(item, list | tuple):
            yield from _flat(item)
        else:
            yield item


def _texts(pieces: list[Any], shape: tuple[int, ...], what: str) -> Array:
    if len(pieces) != prod(shape):
        raise InputError(
            f"{what} is {BYTES} {list(shape)}: {prod(shape)} strings are expected, {len(pieces)} were given"
        )
    found = np.empty(len(pieces), object)
    for i, piece in enumerate(pieces):
        if not isinstance(piece, str | bytes):
            raise InputError(f"{what} is {BYTES}; the data holds {type(piece).__name__}, where strings are expected")
        try:
            found[i] = (piece.encode() if isinstance(piece, str) else piece).decode()
        except UnicodeError as error:
            raise InputError(f"string {i} of {what} is not UTF-8: {error}") from error
    return found.reshape(shape)
