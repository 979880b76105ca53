"""From a path, bytes or a ``ModelProto`` to a parsed model; every way that can fail is one ``FileError``."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError

from clgraph.errors import FileError
from clgraph.frontend.bodies import bodies_of
from clgraph.frontend.mapping import outline
from clgraph.frontend.protobuf import onnx
from clgraph.frontend.weights import LFS_POINTER
from clgraph.graph.primitive import Array

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto
"""What a model can be read from."""

MOST_BYTES = (1 << 31) - 1
"""Of a message that protobuf reads."""
READ_BYTES = 1 << 20
"""Of a pipe at a time."""


def map_model(source: Source) -> tuple[onnx.ModelProto, Path | None, str, dict[str, Array]]:
    """Return what :func:`read_model` does, but of a file's large weights only their bytes, by name."""
    mapped: dict[str, Array] = {}
    if not isinstance(source, (onnx.ModelProto, bytes, bytearray, memoryview)):
        path = _path(source)
        if (found := outline(path)) is not None:
            data, mapped = found
            return *_checked(_parse(data, str(path)), path.resolve().parent, str(path)), mapped
    return *read_model(source), mapped


def read_model(source: Source) -> tuple[onnx.ModelProto, Path | None, str]:
    """Return the parsed model, the folder its external data lies in (``None`` without a file), and what to call it.

    Raises:
        FileError: *source* is missing, a folder, empty, cut, no ONNX model, or has no graph.
    """
    if isinstance(source, onnx.ModelProto):
        model, folder, label = source, None, "the model"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model, folder, label = _parse(bytes(source), "the model"), None, "the model"
    else:
        path = _path(source)
        model, folder, label = _parse(_read(path), str(path)), path.resolve().parent, str(path)
    return _checked(model, folder, label)


def _checked(model: onnx.ModelProto, folder: Path | None, label: str) -> tuple[onnx.ModelProto, Path | None, str]:
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise FileError(f"{label} has no graph: it is cut off, or no ONNX model")
    if (odd := next((t for t in _texts(model) if not isinstance(t, str)), None)) is not None:
        raise FileError(f"{label} is damaged: it holds a name that is not UTF-8 text, {odd!r}")
    return model, folder, label


def _texts(model: onnx.ModelProto) -> list[object]:
    """Return every name in *model*; protobuf hands out bytes for text that it cannot decode."""
    found: list[object] = [entry.domain for entry in model.opset_import]
    for entry in model.metadata_props:
        found += (entry.key, entry.value)
    _add_graph_texts(model.graph, found)
    for function in model.functions:
        found += (function.name, function.domain, function.overload, *function.input, *function.output)
        _add_node_texts(function.node, found)
    return found


def _add_graph_texts(graph: onnx.GraphProto, found: list[object]) -> None:
    for value in (*graph.input, *graph.output):
        found.append(value.name)
        found += [dim.dim_param for dim in value.type.tensor_type.shape.dim]
    for tensor in graph.initializer:
        found.append(tensor.name)
        for entry in tensor.external_data:
            found += (entry.key, entry.value)
    _add_node_texts(graph.node, found)


def _add_node_texts(nodes: Iterable[onnx.NodeProto], found: list[object]) -> None:
    for node in nodes:
        found += (node.name, node.op_type, node.domain, node.overload, *node.input[:], *node.output[:])
        for entry in node.metadata_props[:]:
            found += (entry.key, entry.value)
        for attribute in node.attribute[:]:
            found += (attribute.name, attribute.ref_attr_name)
            for body in bodies_of(attribute):
                _add_graph_texts(body, found)


def _path(source: str | os.PathLike[str]) -> Path:
    try:
        return Path(source)
    except TypeError as error:
        wanted = "a path, the bytes of a file, a ModelProto or a Topology"
        raise FileError(f"a model is {wanted}, not {type(source).__name__}") from error


def _read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise FileError(f"{path} is a device, not an ONNX file")
        return _all_of_pipe(path) if stat.S_ISFIFO(mode) else path.read_bytes()
    except IsADirectoryError as error:
        raise FileError(f"{path} is a folder, not an ONNX file") from error
    except FileNotFoundError as error:
        raise FileError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _all_of_pipe(path: Path) -> bytes:
    """Return what somebody writes into a pipe, which may never end, and is no model when there is too much of it."""
    found = bytearray()
    with path.open("rb") as pipe:
        while block := pipe.read(READ_BYTES):
            found += block
            if len(found) > MOST_BYTES:
                raise FileError(f"{path} is a pipe that gives more than {MOST_BYTES} bytes, the most of an ONNX model")
    return bytes(found)


_NOT_ONNX = (
    (b"clgraph", "a saved model, which was compiled before (in Python, clgraph.load reads it)"),
    (LFS_POINTER, "what stands for one in a repository of Git LFS: `git lfs pull` fetches it"),
    (b"{", "JSON, which is a model only where --dump-data wrote it (in Python, clgraph.load_dump reads that)"),
)
"""How other files begin, and what they are."""


def _parse(data: bytes, label: str) -> onnx.ModelProto:
    if not data:
        raise FileError(f"{label} is empty")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        for start, what in _NOT_ONNX:
            if data.startswith(start):
                raise FileError(f"{label} is not an ONNX model but {what}") from error
        raise FileError(f"{label} is not an ONNX model, or is cut off or damaged: it does not parse") from error
    return model
