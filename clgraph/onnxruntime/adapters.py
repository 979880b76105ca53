"""LoRA adapters: files of values for a model's overridable initialisers, which runs name in their options.

A file is a table of FlatBuffers, as ONNX Runtime's ``adapter_schema.fbs`` has it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError, OptionError
from clgraph.onnxruntime.statuses import MismatchError, RefusedError
from clgraph.onnxruntime.typing_of import as_dtype, element_type
from clgraph.onnxruntime.values import OrtValue

_MARK, _FORMAT = b"TORT", 1
"""What stands behind the first offset of a file, and the version of the format."""

_NAME, _DIMS, _TYPE, _DATA = range(4)
"""Fields of a parameter."""

_FORMAT_VERSION, _ADAPTER_VERSION, _MODEL_VERSION, _PARAMETERS = range(4)
"""Fields of an adapter."""


@frozen
class Adapter:
    """What a file holds: versions that its author gave, and arrays by the names of initialisers."""

    format_version: int
    adapter_version: int
    model_version: int
    arrays: Mapping[str, np.ndarray[Any, Any]]


class LoraAdapter:
    """Values that :meth:`RunOptions.add_active_adapter` makes a run use.

    Attributes:
        arrays: Them by the names of initialisers; none before a file is loaded.
    """

    def __init__(self) -> None:
        """Hold nothing."""
        self.arrays: Mapping[str, np.ndarray[Any, Any]] = {}

    def Load(self, path: str) -> None:  # noqa: N802  # as ONNX Runtime has it
        """Read a file; raises ``RefusedError`` (a ``RuntimeError``) where it is none, or no adapter."""
        if not isinstance(path, str):
            raise MismatchError(f"the path of an adapter is a text, not {path!r}")
        self.arrays = read(path).arrays


class AdapterFormat:
    """An adapter as it is read, or put together to be written."""

    def __init__(self, adapter: Adapter | None = None) -> None:
        """Hold *adapter*, by default one without parameters."""
        self._adapter = adapter or Adapter(_FORMAT, 0, 0, {})

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """Return what a file holds; raises ``RefusedError`` where it is not an adapter."""
        return AdapterFormat(read(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write a file that ONNX Runtime reads, too."""
        Path(file_path).write_bytes(_written(self._adapter))

    def get_format_version(self) -> int:
        """Return the version of the file's format."""
        return self._adapter.format_version

    def get_adapter_version(self) -> int:
        """Return the author's version of the adapter."""
        return self._adapter.adapter_version

    def get_model_version(self) -> int:
        """Return the author's version of the model."""
        return self._adapter.model_version

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the author's version of the adapter."""
        a = self._adapter
        self._adapter = Adapter(a.format_version, adapter_version, a.model_version, a.arrays)

    def set_model_version(self, model_version: int) -> None:
        """Set the author's version of the model."""
        a = self._adapter
        self._adapter = Adapter(a.format_version, a.adapter_version, model_version, a.arrays)

    def get_parameters(self) -> dict[str, OrtValue]:
        """Return the values by the names of initialisers."""
        return {name: OrtValue.ortvalue_from_numpy(array) for name, array in self._adapter.arrays.items()}

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Set the values by the names of initialisers."""
        a, arrays = self._adapter, {name: np.array(value.numpy()) for name, value in params.items()}
        self._adapter = Adapter(a.format_version, a.adapter_version, a.model_version, arrays)

    format_version = property(get_format_version)
    adapter_version = property(get_adapter_version, set_adapter_version)
    model_version = property(get_model_version, set_model_version)
    parameters = property(get_parameters, set_parameters)


def read(path: str | os.PathLike[str]) -> Adapter:
    """Return the adapter in a file.

    Raises:
        OptionError: The package flatbuffers is missing.
        RefusedError: The file cannot be read, or is not an adapter.
    """
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise RefusedError(f"the adapter {os.fspath(path)!r} cannot be read: {error}") from error
    if content[4:8] != _MARK:
        raise RefusedError(f"{os.fspath(path)!r} is not an adapter: {_MARK.decode()} does not stand at its fifth byte")
    table = _flatbuffers("table").Table
    try:
        root = table(content, struct.unpack_from("<I", content)[0])
        form, own, model = (_int(root, field) for field in (_FORMAT_VERSION, _ADAPTER_VERSION, _MODEL_VERSION))
        start, count = _vector(root, _PARAMETERS)
        found = [_parameter(table(content, root.Indirect(start + 4 * i))) for i in range(count)]
    except (struct.error, IndexError, TypeError, ValueError, InputError) as error:
        raise RefusedError(f"the adapter {os.fspath(path)!r} is damaged: {error}") from error
    return Adapter(form, own, model, dict(found))


def _flatbuffers(module: str) -> Any:
    """Return a module of flatbuffers; raises ``OptionError`` where that is not installed."""
    try:
        import flatbuffers.builder
        import flatbuffers.table
    except ImportError as error:
        raise OptionError("flatbuffers is not installed: pip install 'clgraph-opencl[adapters]'") from error
    return getattr(flatbuffers, module)


def _at(table: Any, field: int) -> int:
    """Return where a field of *table* is, 0 where it has its default."""
    offset: int = table.Offset(4 + 2 * field)
    return offset and offset + table.Pos


def _int(table: Any, field: int) -> int:
    at = _at(table, field)
    return int(struct.unpack_from("<i", table.Bytes, at)[0]) if at else 0


def _vector(table: Any, field: int) -> tuple[int, int]:
    """Return where the elements of a vector begin, and how many there are, for which the file has a byte at least."""
    if not (at := _at(table, field)):
        return 0, 0
    start = table.Indirect(at)
    (count,) = struct.unpack_from("<I", table.Bytes, start)
    if start + 4 + count > len(table.Bytes):
        raise ValueError(f"{count} elements lie behind the end of the file")
    return start + 4, count


def _parameter(table: Any) -> tuple[str, np.ndarray[Any, Any]]:
    name, dims, data = (_vector(table, field) for field in (_NAME, _DIMS, _DATA))
    shape = struct.unpack_from(f"<{dims[1]}q", table.Bytes, dims[0]) if dims[1] else ()
    dtype, content = as_dtype(_int(table, _TYPE)), table.Bytes[data[0] : data[0] + data[1]]
    if min(shape, default=0) < 0:
        raise ValueError(f"a shape is {list(shape)}")
    return table.Bytes[name[0] : name[0] + name[1]].decode(), np.frombuffer(content, dtype).reshape(shape)


def _written(adapter: Adapter) -> bytes:
    """Return the bytes of a file."""
    builder = _flatbuffers("builder").Builder()
    parameters = [_write_parameter(builder, name, array) for name, array in adapter.arrays.items()]
    builder.StartVector(4, len(parameters), 4)
    for offset in reversed(parameters):
        builder.PrependUOffsetTRelative(offset)
    vector = builder.EndVector()
    builder.StartObject(4)
    builder.PrependInt32Slot(_FORMAT_VERSION, adapter.format_version, 0)
    builder.PrependInt32Slot(_ADAPTER_VERSION, adapter.adapter_version, 0)
    builder.PrependInt32Slot(_MODEL_VERSION, adapter.model_version, 0)
    builder.PrependUOffsetTRelativeSlot(_PARAMETERS, vector, 0)
    builder.Finish(builder.EndObject(), _MARK)
    return bytes(builder.Output())


def _write_parameter(builder: Any, name: str, array: np.ndarray[Any, Any]) -> int:
    """Write one parameter, its elements at a multiple of 8; return its offset."""
    text, content = builder.CreateString(name), np.ascontiguousarray(array).tobytes()
    builder.Prep(8, len(content))
    data = builder.CreateByteVector(content)
    builder.StartVector(8, array.ndim, 8)
    for size in reversed(array.shape):
        builder.PrependInt64(size)
    dims = builder.EndVector()
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(_NAME, text, 0)
    builder.PrependUOffsetTRelativeSlot(_DIMS, dims, 0)
    builder.PrependInt32Slot(_TYPE, element_type(array.dtype), 0)
    builder.PrependUOffsetTRelativeSlot(_DATA, data, 0)
    return int(builder.EndObject())
