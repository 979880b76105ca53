"""Values put in the place of others: ai.onnx.ml's LabelEncoder and CategoryMapper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType, is_floating
from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ModelError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.host_types import STRINGS, tensor_type
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.reorder import Reorder
from clgraph.ops.where import Where

_NAN = "nan"
"""Stands for NaN among keys, which is not equal to itself; keys that are numbers are never texts."""

_FEW = 32
"""Elements up to which a dictionary is faster than NumPy's functions."""

_SPREAD = 16
"""Numbers for each key of a table with a place for all of them, at most."""

_MOST_WHOLE = 1 << 24
"""Below, floats that are integers have both neighbours among floats."""

_FARTHEST = 1 << 62
"""Up to here differences of integers are exact."""


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
        sorted_keys = _sorted(self) if x.size >= _FEW and x.dtype.kind in "fiu" else None
        if sorted_keys is not None:
            return (sorted_keys.values_of(x),)
        keys = x.ravel().tolist()
        found = map(_table(self).__getitem__, (_NAN if k != k else k for k in keys) if x.dtype.kind == "f" else keys)
        if self.dtype is not None:
            return (np.fromiter(found, self.dtype.numpy, len(keys)).reshape(x.shape),)
        y = np.empty(len(keys), object)
        y[:] = [*found]
        return (y.reshape(x.shape),)


@primitive
@frozen
class WholeLabels(Composite):
    """``y[i] = values[x[i] - least]``; the first of what is less or no integer, the last of what is more.

    Inputs: x, values ``[numbers]``. Of floats, *least* and the number of the last are exact.
    """

    least: int

    kind: ClassVar[str] = "whole_labels"

    def compose(self, c: Composition) -> Sequence[str]:
        x, values = c.inputs
        (count,) = c.layout(values).shape
        given, of = c.layout(x).dtype, DType.I64
        if is_floating(given.numpy):
            of = given if given == DType.F64 else DType.F32
            y = x if of == given else c.add(Reorder(of), x)
            least = c.constant(np.array(self.least, of.numpy))
            y = c.add(Where(), c.add(Eltwise("equal"), y, c.add(Activation("floor"), y)), y, least)
        else:
            y = x if of == given else c.add(Reorder(of), x)
            least = c.constant(np.array(self.least))
        most = c.constant(np.array(self.least + count - 1, of.numpy))
        y = c.add(Eltwise("sub"), c.add(Eltwise("min"), c.add(Eltwise("max"), y, least), most), least)
        return (c.add(Gather(), values, y if of == DType.I64 else c.add(Reorder(DType.I64), y)),)


class _Table(dict[Any, Any]):
    """Values by their keys; what is none has the *default*."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]], default: Any) -> None:
        super().__init__(pairs)
        self._default = default

    def __missing__(self, key: Any) -> Any:
        return self._default


@remembered
def _table(of: LabelEncoder) -> _Table:
    """Return the values by their keys, the first of a key that is there twice."""
    pairs = zip((key if key == key else _NAN for key in of.keys), of.values, strict=True)
    return _Table(reversed(list(pairs)), of.default)


@frozen
class _Sorted:
    """Numbers as keys, and a value for each, then the default.

    Attributes:
        keys: In order, NaN at the end; none where *places* has them.
        places: Of the value of each integer from *least* on, where all keys are integers; that of the default is last.
    """

    values: Array
    keys: Array | None
    places: Array | None
    least: int = 0

    def values_of(self, x: Array) -> Array:
        """Return the value of each number."""
        missing = len(self.values) - 1
        if self.places is not None:
            last = len(self.places) - 1
            if x.dtype.kind == "f":
                met = (x >= self.least) & (x < self.least + last) & (x == np.floor(x))
                at = np.where(met, x.astype(np.float64) - self.least, last).astype(np.int64)
            else:
                # Numbers below the least become large ones.
                at = np.minimum((x.astype(np.int64) - self.least).view(np.uint64), last).view(np.int64)
            return np.asarray(self.values[self.places[at]])
        assert self.keys is not None
        x = x.astype(self.keys.dtype)
        at = np.minimum(self.keys.searchsorted(x), missing - 1)
        met = self.keys[at]
        return np.asarray(self.values[np.where((met == x) | ((met != met) & (x != x)), at, missing)])


@remembered
def _sorted(of: LabelEncoder) -> _Sorted | None:
    """Return the keys in order where they are numbers, ``None`` where they are strings or there are none."""
    keys = np.array(of.keys)
    if not keys.size or keys.dtype.kind not in "fi":
        return None
    keys, first = np.unique(keys, return_index=True)
    values = np.empty(len(keys) + 1, object if of.dtype is None else of.dtype.numpy)
    values[:-1], values[-1] = [of.values[i] for i in first], of.default
    whole = keys.dtype.kind == "i" or bool((np.abs(keys) < _MOST_WHOLE).all() and (keys == np.floor(keys)).all())
    if not whole or int(keys[-1]) - int(keys[0]) > _SPREAD * len(keys):
        return _Sorted(values, keys, None)
    at = keys.astype(np.int64) - int(keys[0])
    places = np.full(at[-1] + 2, len(keys))
    places[at] = np.arange(len(keys))
    return _Sorted(values, None, places, int(keys[0]))


@onnx("LabelEncoder", since=(2, 4), domain="ai.onnx.ml")
def import_label_encoder(node: OnnxNode) -> Primitive | Sequence[str]:
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
    default = node.attribute(name, default)
    given = node.attribute("default_tensor", None)
    if given is not None:  # goes before the others, which spox writes beside it with what they are without it
        if given.size != 1 or defaults.get(given.dtype.kind, ("",))[0] != name:
            raise ModelError(
                f"default_tensor is {given.dtype} {list(given.shape)}; expected one value of the map's type"
            )
        default = given.ravel()[0] if given.dtype == object else given.ravel()[0].item()
    if isinstance(node.attribute("values_tensor", None), np.ndarray) and dtype is not None:
        dtype = DType.of(values.dtype)
    encoder = LabelEncoder(tuple(keys.tolist()), tuple(values.tolist()), default, dtype)
    if (found := whole_labels(encoder)) is None:
        return encoder
    of, table = found
    return node.emit(of, node.inputs[0], node.literal(table))


def whole_labels(of: LabelEncoder) -> tuple[WholeLabels, Array] | None:
    """Return what devices compute of numbers for near integers, and its table; ``None`` of other labels."""
    found = None if of.dtype is None else _sorted(of)
    if found is None or found.places is None:
        return None
    least, most = found.least - 1, found.least + len(found.places) - 1
    if not -_FARTHEST <= least <= most <= _FARTHEST:
        return None
    return WholeLabels(least), found.values[np.append(len(found.values) - 1, found.places)]


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
