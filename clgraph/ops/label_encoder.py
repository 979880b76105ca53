"""Values put in the place of others: ai.onnx.ml's LabelEncoder and CategoryMapper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ModelError
from clgraph.graph.host_types import STRINGS, tensor_type
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

_NAN = "nan"
"""Stands for NaN among keys, which is not equal to itself; keys that are numbers are never texts."""


@primitive
@frozen
class LabelEncoder(OfHostValues, Remembering):
    """``y[i]`` is the value of the key that ``x[i]`` is, *default* where it is none.

    Attributes:
        dtype: Of the values; ``None`` for strings.
    """

    keys: tuple[Any, ...]
    values: tuple[Any, ...]
    default: str | float | int
    dtype: DType | None = None

    kind: ClassVar[str] = "label_encoder"

    def result_types(self) -> Sequence[str | None]:
        return (STRINGS if self.dtype is None else tensor_type(self.dtype),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        table, default = _table(self), self.default
        found = [table.get(key if key == key else _NAN, default) for key in x.ravel().tolist()]
        y = np.empty(len(found), object if self.dtype is None else self.dtype.numpy)
        y[:] = found
        return (y.reshape(x.shape),)


@remembered
def _table(of: LabelEncoder) -> Mapping[Any, Any]:
    """Return the values by their keys, the first of a key that is there twice."""
    pairs = zip((key if key == key else _NAN for key in of.keys), of.values, strict=True)
    return dict(reversed(list(pairs)))


@onnx("LabelEncoder", since=(2, 4), domain="ai.onnx.ml")
def import_label_encoder(node: OnnxNode) -> Primitive:
    keys, values = _read(node, "keys"), _read(node, "values")
    if len(keys) != len(values):
        raise ModelError(f"{len(keys)} keys have {len(values)} values")
    if node.since < 4:  # where NaN is equal to nothing
        keys, values = keys[keys == keys], values[keys == keys]
    defaults = {
        "U": ("default_string", "_Unused", None),
        "O": ("default_string", "_Unused", None),
        "f": ("default_float", -0.0, DType.F32),
        "i": ("default_int64", -1, DType.I64),
    }
    if values.dtype.kind not in defaults or keys.dtype.kind not in defaults:
        raise ModelError(f"the map is of {keys.dtype} to {values.dtype}; expected strings, floats or integers")
    name, default, dtype = defaults[values.dtype.kind]
    given = node.attribute("default_tensor", None)
    if given is not None:
        if given.size != 1 or defaults.get(given.dtype.kind, ("",))[0] != name:
            raise ModelError(
                f"default_tensor is {given.dtype} {list(given.shape)}; expected one value of the map's type"
            )
        default = given.ravel()[0] if given.dtype == object else given.ravel()[0].item()
    if isinstance(node.attribute("values_tensor", None), np.ndarray) and dtype is not None:
        dtype = DType.of(values.dtype)
    return LabelEncoder(tuple(keys.tolist()), tuple(values.tolist()), node.attribute(name, default), dtype)


@onnx("LabelEncoder", since=(1,), domain="ai.onnx.ml")
def import_label_encoder_1(node: OnnxNode) -> Primitive:
    words = node.attribute("classes_strings", ())
    return _either_way(node, words, tuple(range(len(words))))


@onnx("CategoryMapper", since=(1,), domain="ai.onnx.ml")
def import_category_mapper(node: OnnxNode) -> Primitive:
    return _either_way(node, node.attribute("cats_strings", ()), node.attribute("cats_int64s", ()))


def _either_way(node: OnnxNode, words: tuple[str, ...], numbers: tuple[int, ...]) -> Primitive:
    """Return the encoder from words to numbers or from numbers to words, by the type of the input."""
    if len(words) != len(numbers):
        raise ModelError(f"{len(words)} strings have {len(numbers)} numbers")
    if (given := node.type_of(0)) is None:
        raise node.unsupported("the type of its input is unknown, which determines the direction of the mapping")
    if given == STRINGS:
        return LabelEncoder(words, numbers, node.attribute("default_int64", -1), DType.I64)
    return LabelEncoder(numbers, words, node.attribute("default_string", "_Unused"))


def _read(node: OnnxNode, which: str) -> Array:
    """Return the keys or the values, of whatever type they are given in."""
    if (tensor := node.attribute(f"{which}_tensor", None)) is not None:
        return np.asarray(tensor).ravel()
    types = {"strings": object, "int64s": np.int64, "floats": np.float32}
    given = {n: node.attribute(f"{which}_{n}", None) for n in types}
    found = [np.array(values, types[n]) for n, values in given.items() if values is not None]
    if len(found) != 1:
        raise ModelError(f"expected one of {which}_tensor, {', '.join(f'{which}_{n}' for n in types)}")
    return found[0]
