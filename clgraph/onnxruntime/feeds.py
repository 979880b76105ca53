"""Feeds as ONNX Runtime takes them: what it casts, and what it refuses in the words that programs look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.host_types import STRINGS
from clgraph.graph.signature import Signature
from clgraph.onnxruntime.sparse import SparseTensor
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError, RefusedError
from clgraph.onnxruntime.typing_of import numpy_type, onnx_type, type_of
from clgraph.onnxruntime.values import OrtValue


class Feeds:
    """What the feeds of a session have to be; made once, because small models are run in some tens of microseconds."""

    def __init__(self, inputs: Sequence[Signature], overridable: Sequence[Signature] = ()) -> None:
        """Take the signatures of what has to be fed, and of what may be."""
        self._signatures = {s.name: (s, numpy_type(s), _sizes(s)) for s in (*inputs, *overridable)}
        self._optional = dict.fromkeys(s.name for s in inputs if onnx_type(s).startswith("optional"))
        self._required = [s.name for s in inputs if s.name not in self._optional]
        self._scalars = [name for name, (s, *_) in self._signatures.items() if s.shape == ()]

    def check_names(self, feeds: Mapping[str, Any]) -> None:
        """Refuse feeds without all inputs.

        Raises:
            InputError: An input is missing (a ``ValueError``, as ONNX Runtime's).
            MismatchError: *feeds* is not a dictionary.
        """
        if not isinstance(feeds, Mapping):
            raise MismatchError(f"feeds are a dictionary by name, not {type(feeds).__name__}")
        if missing := [name for name in self._required if name not in feeds]:
            raise InputError(f"Required inputs ({missing}) are missing from input feed ({list(feeds)}).")

    def ranked(self, taken: Mapping[str, Any]) -> frozenset[str]:
        """Return the inputs that are declared as scalars, and for which *taken* has arrays with axes."""
        return frozenset(name for name in self._scalars if getattr(taken.get(name), "ndim", 0))

    def taken(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return *feeds* as :meth:`clgraph.Model.run` takes them.

        Raises as :meth:`check_names`, and:
            InvalidArgument: A name is unknown, or a feed has another element type, number of axes or size.
            RefusedError: A feed is nothing that an array can be made of, or neither an array nor a list, and does not
                fit (a ``RuntimeError``, as ONNX Runtime's).
            Fail: A feed is ``None``, and the input is not optional.
            MismatchError: A name is not a text.
        """
        self.check_names(feeds)
        found: dict[str, Any] = {**self._optional}
        for name, given in feeds.items():
            if name not in self._signatures:
                if not isinstance(name, str):
                    raise MismatchError(f"names of inputs are texts, not {name!r}")
                raise InvalidArgument(f"Invalid input name: {name}")
            signature, wanted, sizes = self._signatures[name]
            if type(given) is np.ndarray and given.dtype == wanted:
                shape = given.shape
                if shape == signature.shape or (sizes is not None and len(shape) == sizes[0] and sizes[1](shape)):
                    found[name] = given
                    continue
            value = given.value if isinstance(given, OrtValue) else given
            if (isinstance(value, SparseTensor) and value is not given) or signature.sparse:
                found[name] = _sparse(value, signature)
            elif value is not None:
                found[name] = _fed(value, signature, wanted)
            elif name not in self._optional:
                raise Fail(f"input {name!r} is None: a value of type {onnx_type(signature)} is expected")
        return found


def _sizes(signature: Signature) -> tuple[int, Callable[[Sequence[int]], bool]] | None:
    """Return the number of axes, and what says whether fixed sizes are as declared; ``None`` of what is no tensor."""
    if signature.shape is None or signature.host_type or signature.sparse or not signature.shape:
        return None
    fixed = [(axis, size) for axis, size in enumerate(signature.shape) if isinstance(size, int)]
    if not fixed:
        return len(signature.shape), lambda _: True
    axes, sizes = [axis for axis, _ in fixed], tuple(size for _, size in fixed)
    picked = itemgetter(*axes)
    return len(signature.shape), lambda shape: picked(shape) == (sizes if len(sizes) > 1 else sizes[0])


def _fed(given: Any, signature: Signature, wanted: np.dtype[Any] | None) -> Any:
    """Return *given* as the input takes it."""
    if wanted is None and onnx_type(signature) != STRINGS:
        return given
    if isinstance(given, Mapping):
        raise _of_another_type(signature, "map")
    try:
        return _texts(given, signature) if wanted is None else _taken(given, signature, wanted)
    except InvalidArgument as error:  # what is neither array nor list, ONNX Runtime refuses before it looks at sizes
        if isinstance(given, np.ndarray | list):
            raise
        raise RefusedError(f"Unable to handle object of type {type(given)} as input: {error.message}") from error


def _taken(given: Any, signature: Signature, wanted: np.dtype[Any]) -> Any:
    array = given if type(given) is np.ndarray else _array(given, wanted, signature.name)
    odd = array.dtype.kind in "cmMV" or array.dtype == np.longdouble
    if odd and type_of(array.dtype) != onnx_type(signature):
        raise RefusedError(f"input {signature.name!r}: Numpy_type {array.dtype} can't be converted to MLDataType.")
    if wanted not in (array.dtype, array.dtype.newbyteorder("=")):
        raise _unexpected(array, signature)
    return array if signature.shape is None else _fitted(array, signature.name, signature.shape)


def _sparse(given: Any, signature: Signature) -> Any:
    """Return a sparse tensor as a dense array; raises ``InvalidArgument`` for a dense one, or where one is wanted."""
    sparse = isinstance(given, SparseTensor)
    if sparse != signature.sparse:
        wanted, found = ("a sparse tensor", "a tensor") if signature.sparse else ("a tensor", "a sparse tensor")
        raise InvalidArgument(f"input with name: {signature.name!r} expected to be {wanted} but received {found}")
    if given.data_type() != onnx_type(signature):
        raise _of_another_type(signature, given.data_type())
    shape = signature.shape
    return given.toarray() if shape is None else _fitted(given.toarray(), signature.name, shape)


def _texts(given: Any, signature: Signature) -> Any:
    """Return texts as ONNX Runtime reads them: any object is its text."""
    array = given if isinstance(given, np.ndarray) else np.asarray(given, object)
    if array.dtype.kind == "V" and array.dtype.names is None:
        array = np.ascontiguousarray(array).view(f"S{array.itemsize}")
    if array.dtype.kind not in "OSTU":
        raise _unexpected(array, signature)
    if array.dtype.kind == "O":
        array = np.fromiter(map(str, array.flat), object, array.size).reshape(array.shape)
    return array if signature.shape is None else _fitted(array, signature.name, signature.shape)


def _unexpected(array: np.ndarray[Any, Any], signature: Signature) -> InvalidArgument:
    return _of_another_type(signature, type_of(array.dtype))


def _of_another_type(signature: Signature, actual: str) -> InvalidArgument:
    wanted = f"Unexpected input data type. Actual: ({actual}) , expected: ({onnx_type(signature)})"
    return InvalidArgument(f"{wanted}, for input: {signature.name}")


def _array(given: Any, wanted: np.dtype[Any], name: str) -> np.ndarray[Any, Any]:
    """Return lists and numbers in the input's type, rounded or cut off as ONNX Runtime's lists are."""
    if isinstance(given, str | bytes):
        raise RefusedError(f"input {name!r} is a text; expected an array of {wanted}")
    try:
        if isinstance(given, list | tuple | bool | int | float):
            return np.asarray(given, wanted)
        if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
            return np.from_dlpack(given)
        array = np.asarray(given)
    except (TypeError, ValueError, OverflowError, RuntimeError, BufferError) as error:
        raise RefusedError(
            f"input {name!r} is a {type(given).__name__}, not to be made an array of: {error}"
        ) from error
    if array.dtype == object:
        raise RefusedError(f"Unable to handle object of type {type(given)} as input {name!r}")
    return array


def _fitted(array: np.ndarray[Any, Any], name: str, shape: Sequence[int | str | None]) -> np.ndarray[Any, Any]:
    """Return *array*, which has the declared *shape*; where that is a scalar's, ONNX Runtime asks for none."""
    if len(array.shape) != len(shape) and shape:
        raise InvalidArgument(f"Invalid rank for input: {name} Got: {array.ndim} Expected: {len(shape)}")
    wrong = [
        f" index: {axis} Got: {got} Expected: {wanted}"
        for axis, (got, wanted) in enumerate(zip(array.shape, shape, strict=bool(shape)))
        if isinstance(wanted, int) and got != wanted
    ]
    if wrong:
        lines = "\n".join(wrong)
        raise InvalidArgument(f"Got invalid dimensions for input: {name} for the following indices\n{lines}")
    return array
