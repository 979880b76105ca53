"""Maps as rows of tables: ai.onnx.ml's DictVectorizer and CastMap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.host_types import STRINGS, inside, tensor_type
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_TYPES = {"float": DType.F32, "double": DType.F64, "int64": DType.I64, "string": None}
_CASTS = {"TO_FLOAT": DType.F32, "TO_INT64": DType.I64, "TO_STRING": None}


@primitive
@frozen
class DictVectorizer(OfHostValues):
    """The elements of a map in the order of the *vocabulary* ``[1, words]``; of keys that it lacks 0 or ``""``.

    Attributes:
        dtype: Of the elements; ``None`` for strings.
    """

    vocabulary: tuple[Any, ...]
    dtype: DType | None

    kind: ClassVar[str] = "dict_vectorizer"
    maps: ClassVar[frozenset[int]] = frozenset({0})

    def result_types(self) -> Sequence[str | None]:
        return (STRINGS if self.dtype is None else tensor_type(self.dtype),)

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        return (_row([inputs[0].get(word) for word in self.vocabulary], self.dtype),)


@primitive
@frozen
class CastMap(OfHostValues):
    """The elements of a map in the order of their keys, integers, as another type ``[1, elements]``.

    Attributes:
        dtype: Of the result; ``None`` for strings.
        length: Of a result in which keys are places, and what no key is for is 0 or ``""``; ``None`` for no gaps.
    """

    dtype: DType | None
    length: int | None = None

    kind: ClassVar[str] = "cast_map"
    maps: ClassVar[frozenset[int]] = frozenset({0})

    def result_types(self) -> Sequence[str | None]:
        return (STRINGS if self.dtype is None else tensor_type(self.dtype),)

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        (given,) = inputs
        if self.length is None:
            return (_row([given[key] for key in sorted(given)], self.dtype),)
        if outside := [key for key in given if not 0 <= key < self.length]:
            raise InputError(f"the key {outside[0]} is not a place in {self.length} elements")
        return (_row([given.get(key) for key in range(self.length)], self.dtype),)


def _row(elements: Sequence[Any], dtype: DType | None) -> Array:
    """Return *elements* ``[1, elements]`` of *dtype*, ``None`` among them as 0 or ``""``."""
    if dtype is None:
        return np.array([[_text(e) for e in elements]], object).reshape(1, -1)
    try:
        numbers = [0 if e is None else float(e) if isinstance(e, str) else e for e in elements]
    except ValueError as error:
        raise InputError(f"an element of the map is not a number: {error}") from error
    return np.array([numbers]).astype(dtype.numpy).reshape(1, -1)


def _text(element: Any) -> str:
    if isinstance(element, float):
        return f"{element:f}"
    return "" if element is None else str(element)


@onnx("DictVectorizer", since=(1,), domain="ai.onnx.ml")
def import_dict_vectorizer(node: OnnxNode) -> Primitive:
    words, numbers = node.attribute("string_vocabulary", ()), node.attribute("int64_vocabulary", ())
    held = inside(inside(node.type_of(0) or "").partition(",")[2])
    if held not in _TYPES:
        raise node.unsupported("the type of the map's elements is not known")
    return DictVectorizer(words or numbers, _TYPES[held])


@onnx("CastMap", since=(1,), domain="ai.onnx.ml")
def import_cast_map(node: OnnxNode) -> Primitive:
    to, form = node.attribute("cast_to", "TO_FLOAT"), node.attribute("map_form", "DENSE")
    if to not in _CASTS or form not in ("DENSE", "SPARSE"):
        raise node.unsupported(f"cast_to {to!r} and map_form {form!r} are not defined by ONNX")
    return CastMap(_CASTS[to], node.attribute("max_map", 1) if form == "SPARSE" else None)
