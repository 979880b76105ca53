"""Calls and answers in HTTP: JSON, with tensors in it or as bytes behind it (the binary tensor data extension)."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NoReturn

from clgraph.core.frozen import frozen
from clgraph.errors import InputError, TooLargeError
from clgraph.graph.primitive import Array
from clgraph.serving.calls import Answer, Call, check_once, check_parameters, seconds_of
from clgraph.serving.tensors import checked_shape, datatype, from_list, from_raw, to_list, to_raw

HEADER_LENGTH = "inference-header-content-length"
"""The header with the bytes of JSON in front of the tensors."""


@frozen
class RestCall:
    """A call, and how its results are wanted.

    Attributes:
        binary: By name of a result, whether it comes as bytes; the others as *binary_by_default* says.
    """

    call: Call
    binary: Mapping[str, bool]
    binary_by_default: bool


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return *body* without the compression that its ``Content-Encoding`` names.

    Raises:
        InputError: It is cut, damaged, or compressed in another way.
        TooLargeError: It has more than *most* bytes, unpacked.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise InputError(f"the body is encoded as {encoding!r}; supported are gzip, deflate and identity")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header, of gzip or of zlib
    try:
        found = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise InputError(f"the body is no {encoding}: {error}") from error
    if len(found) > most:
        raise too_large(most)
    if not unpacker.eof:
        raise InputError(f"the body is {encoding} that was cut")
    if unpacker.unused_data:
        raise InputError(f"{len(unpacker.unused_data)} bytes are left of the body behind its {encoding}")
    return found


def too_large(most: int) -> TooLargeError:
    """Return the error of a request of more than *most* bytes."""
    return TooLargeError(f"the request has more than {most} bytes, which is the most that is taken")


def read_json(text: bytes | memoryview) -> dict[str, Any]:
    """Return a request's JSON, an empty object where there is no text; raises ``InputError`` where it is none."""
    try:
        found = json.loads(bytes(text), parse_constant=_no_number) if len(text) else {}
    except RecursionError as error:
        raise InputError("the JSON of the request is nested too deep") from error
    except ValueError as error:
        raise InputError(f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"the JSON of the request must be an object, not {type(found).__name__}")
    return found


def read_call(body: bytes, header: str | None, model: str, version: str) -> RestCall:
    """Return the call that a body holds.

    Args:
        header: Text of the header :data:`HEADER_LENGTH`; without it, all of the body is JSON.

    Raises:
        InputError: Something about it means nothing; the message says what.
        UnsupportedError: It asks for what is not served.
    """
    length = len(body)
    if header is not None:
        if not (header.isascii() and header.isdecimal() and len(header) < 20 and int(header) <= len(body)):
            raise InputError(f"the header {HEADER_LENGTH!r} is {header!r}; the body has {len(body)} bytes")
        length = int(header)
    document = read_json(memoryview(body)[:length])
    parameters = _parameters(document, "the request")
    feeds, binary = {}, memoryview(body)[length:]
    tensors = _objects(document, "inputs")
    check_once([each["name"] for each in tensors])
    for tensor in tensors:
        array, used = _read_tensor(tensor, binary)
        feeds[tensor["name"]], binary = array, binary[used:]
    if len(binary):
        raise InputError(f"{len(binary)} bytes are left behind the inputs, which no binary_data_size counts")
    outputs = _objects(document, "outputs", required=False)
    wanted = {each["name"]: _parameters(each, f"output {each['name']!r}") for each in outputs}
    call_id = document.get("id", "")
    if not isinstance(call_id, str):
        raise InputError(f"the id must be a text, not {call_id!r}")
    call = Call(model, version, call_id, feeds, tuple(wanted), seconds_of(parameters))
    kinds = {name: _truth(about["binary_data"], name) for name, about in wanted.items() if "binary_data" in about}
    return RestCall(call, kinds, _truth(parameters.get("binary_data_output", False), "the request"))


def write_answer(asked: RestCall, answer: Answer) -> tuple[bytes, int | None]:
    """Return the body of an answer, and the bytes of JSON in front of its tensors; ``None`` where it is JSON alone.

    Raises:
        InputError: A number has no JSON.
    """
    outputs, behind = [], []
    for name, array in answer.outputs.items():
        about: dict[str, Any] = {"name": name, "datatype": datatype(array), "shape": list(array.shape)}
        if asked.binary.get(name, asked.binary_by_default):
            behind.append(to_raw(array))
            about["parameters"] = {"binary_data_size": len(behind[-1])}
        else:
            about["data"] = to_list(array)
        outputs.append(about)
    document: dict[str, Any] = {"model_name": answer.model, "model_version": answer.version, "outputs": outputs}
    if answer.id:
        document["id"] = answer.id
    try:
        text = json.dumps(document, allow_nan=False).encode()
    except ValueError as error:
        raise InputError(
            "a result holds NaN or infinity, which JSON has no number for: ask for it as bytes (binary_data)"
        ) from error
    return (b"".join([text, *behind]), len(text)) if behind else (text, None)


def _read_tensor(tensor: dict[str, Any], binary: memoryview) -> tuple[Array, int]:
    """Return an input, and how many bytes of *binary* it took."""
    what = f"input {tensor['name']!r}"
    if missing := [key for key in ("datatype", "shape") if key not in tensor]:
        raise InputError(f"{what} has no {missing[0]!r}")
    shape, name = checked_shape(tensor["shape"], what), tensor["datatype"]
    size = _parameters(tensor, what).get("binary_data_size")
    if (size is None) == ("data" not in tensor):
        raise InputError(f"{what} is to have either 'data' or the parameter 'binary_data_size'")
    if size is None:
        return from_list(tensor["data"], name, shape, what), 0
    if type(size) is not int or not 0 <= size <= len(binary):
        raise InputError(f"{what} has the binary_data_size {size!r}; {len(binary)} bytes are left of the body")
    return from_raw(binary[:size], name, shape, what), size


def _objects(document: dict[str, Any], key: str, *, required: bool = True) -> list[dict[str, Any]]:
    """Return a list of objects with names."""
    found = document.get(key, None if required else [])
    if not isinstance(found, list):
        raise InputError(f"the request is to have a list of {key!r}")
    for each in found:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            raise InputError(f"each of {key!r} must be an object with a 'name'")
    return found


def _parameters(document: dict[str, Any], what: str) -> dict[str, Any]:
    found = document.get("parameters", {})
    if not isinstance(found, dict):
        raise InputError(f"the parameters of {what} must be an object, not {type(found).__name__}")
    check_parameters(found, what)
    return found


def _truth(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"whether {what} comes as bytes must be true or false, not {value!r}")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
