"""Calls and answers in gRPC's messages: tensors as bytes beside them, or as typed contents in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.serving.calls import Answer, Call, check_once, check_parameters, seconds_of
from clgraph.serving.messages import MESSAGES
from clgraph.serving.tensors import BYTES, TYPES, checked_shape, datatype, from_list, from_raw, to_raw

_CONTENTS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(("INT8", "INT16", "INT32"), "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    BYTES: "bytes_contents",
}
"""The field that the elements of a type are in; those of FP16 and BF16 are bytes always."""


def read_call(request: Any) -> Call:
    """Return the call that a ``ModelInferRequest`` holds.

    Raises:
        InputError: Something about it means nothing; the message says what.
        UnsupportedError: It asks for what is not served.
    """
    parameters = _parameters(request.parameters)
    check_parameters(parameters, "the request")
    raw, tensors = request.raw_input_contents, request.inputs
    if raw and len(raw) != len(tensors):
        raise InputError(f"the request has {len(tensors)} inputs and {len(raw)} raw_input_contents")
    check_once([tensor.name for tensor in tensors])
    feeds = {t.name: _read_tensor(t, raw[i] if raw else None) for i, t in enumerate(tensors)}
    for output in request.outputs:
        check_parameters(_parameters(output.parameters), f"output {output.name!r}")
    outputs = tuple(dict.fromkeys(output.name for output in request.outputs))
    return Call(request.model_name, request.model_version, request.id, feeds, outputs, seconds_of(parameters))


def write_answer(answer: Answer, *, raw: bool) -> Any:
    """Return the ``ModelInferResponse`` of an answer.

    Args:
        raw: Tensors as bytes; without it too, where one of their types has no contents of its own.
    """
    found = MESSAGES["ModelInferResponse"](model_name=answer.model, model_version=answer.version, id=answer.id)
    names = {name: datatype(array) for name, array in answer.outputs.items()}
    raw = raw or any(kind not in _CONTENTS for kind in names.values())
    for name, array in answer.outputs.items():
        tensor = found.outputs.add(name=name, datatype=names[name], shape=array.shape)
        if raw:
            found.raw_output_contents.append(to_raw(array))
        else:
            elements = [text.encode() for text in array.flat] if names[name] == BYTES else array.ravel().tolist()
            getattr(tensor.contents, _CONTENTS[names[name]]).extend(elements)
    return found


def _read_tensor(tensor: Any, raw: bytes | None) -> Array:
    what = f"input {tensor.name!r}"
    shape, kind = checked_shape(tuple(tensor.shape), what), tensor.datatype
    check_parameters(_parameters(tensor.parameters), what)
    set_fields = [field.name for field, _ in tensor.contents.ListFields()]
    if raw is not None:
        if set_fields:
            raise InputError(f"{what} has both contents and raw_input_contents")
        return from_raw(raw, kind, shape, what)
    field = _CONTENTS.get(kind)
    if field is None and kind in TYPES:
        raise InputError(f"{what} is {kind}, which comes in raw_input_contents alone")
    if field is None:
        return from_list([], kind, shape, what)  # which says what types there are
    if others := [name for name in set_fields if name != field]:
        raise InputError(f"{what} is {kind}, which must be in {field}, not in {others[0]}")
    elements = getattr(tensor.contents, field)
    if kind in (BYTES, "BOOL"):
        return from_list(list(elements), kind, shape, what)
    return from_list(np.array(elements, _wide(kind)), kind, shape, what)


def _wide(kind: str) -> np.dtype[Any]:
    """Return the element type of the contents that numbers of type *kind* are in."""
    narrow = {"INT8": np.int32, "INT16": np.int32, "UINT8": np.uint32, "UINT16": np.uint32}
    return np.dtype(narrow.get(kind, TYPES[kind].numpy))


def _parameters(given: Mapping[str, Any]) -> dict[str, object]:
    """Return parameters by name, each the one value that it has."""
    found = {}
    for name, parameter in given.items():
        chosen = parameter.WhichOneof("parameter_choice")
        found[name] = None if chosen is None else getattr(parameter, chosen)
    return found
