"""From a path, bytes or a ``ModelProto`` to a parsed model; every way that can fail is one ``ModelError``."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from clgraph.errors import ModelError

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | onnx.ModelProto
"""What a model can be read from."""


def read_model(source: Source) -> tuple[onnx.ModelProto, Path | None, str]:
    """Return the parsed model, the folder its external data lies in (``None`` without a file), and what to call it.

    Raises:
        ModelError: *source* is missing, a folder, empty, cut, no ONNX model, or has no graph.
    """
    if isinstance(source, onnx.ModelProto):
        model, folder, label = source, None, "the model"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        model, folder, label = _parse(bytes(source), "the model"), None, "the model"
    else:
        path = Path(source)
        model, folder, label = _parse(_read(path), str(path)), path.resolve().parent, str(path)
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ModelError(f"{label} has no graph: it is cut off, or no ONNX model")
    return model, folder, label


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise ModelError(f"{path} is a folder, not an ONNX file")
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"there is no file {path}") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def _parse(data: bytes, label: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{label} is empty")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ModelError(f"{label} is no ONNX model, or is cut off or damaged: it does not parse") from error
    return model
