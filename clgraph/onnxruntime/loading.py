"""From what a session is made of to a compiled model: providers, threads, free dimensions, replaced initialisers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from clgraph.compilation.entry import compile_model
from clgraph.core.frozen import frozen
from clgraph.errors import FileError, ModelError, OptionError
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.onnxruntime.notes import log, say_once
from clgraph.onnxruntime.options import SessionOptions
from clgraph.onnxruntime.providers import Provided
from clgraph.onnxruntime.statuses import Fail, MismatchError, ModelLoadCanceled
from clgraph.onnxruntime.statuses import NotImplemented as NotHere

_ORT_FORMAT = b"ORTM"
"""At byte 4 of a file in ONNX Runtime's own format."""

_LOCATION = b"location"
"""In every model that has data beside it."""

_FOLDER = "session.model_external_initializers_file_folder_path"
"""The entry of a configuration that says where the data beside a model of bytes lies, by default where we are."""

_DATA, _SMALLEST = (
    f"session.optimized_model_external_initializers_{what}" for what in ("file_name", "min_size_in_bytes")
)
"""The entries that have initialisers written to a file beside ``optimized_model_filepath``, from a size on."""


def checked_source(source: Any) -> str | bytes:
    """Return a path or the bytes of a file.

    Raises:
        MismatchError: *source* is something else (a ``TypeError``, as ONNX Runtime's).
        NotImplemented: It is in ONNX Runtime's own format.
    """
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if not isinstance(source, str | bytes) or source == "":
        raise MismatchError(f"Unable to load from type '{type(source)}' {source!r}: give a path, or a model's bytes")
    if (isinstance(source, bytes) and source[4:8] == _ORT_FORMAT) or (isinstance(source, str) and _is_ort(source)):
        raise NotHere("models in ONNX Runtime's own format are not read: give the ONNX model")
    return source


def _is_ort(path: str) -> bool:
    if path.lower().endswith(".ort"):
        return True
    try:
        with open(path, "rb") as file:
            return file.read(8)[4:] == _ORT_FORMAT
    except (OSError, ValueError) as error:
        pass_on(error)
        return False  # who reads the model says what is wrong


@frozen
class Compilation:
    """What a session's model is compiled of.

    Attributes:
        fed: Inputs that are to be fed although the model has values for them.
        by_name, by_denotation: Sizes of open dimensions.
    """

    source: str | bytes | onnx.ModelProto
    provided: Provided
    threads: int | None
    fed: tuple[str, ...]
    by_name: Mapping[str, int]
    by_denotation: Mapping[str, int]

    def made(self) -> Model:
        """Return the model; raises ``ClgraphError`` as :func:`clgraph.compile`."""
        model = compile_model(
            self.source,
            self.provided.device,
            shapes=_shapes_of(self.source, self.fed) if self.fed else None,
            threads=self.threads,
            config=self.provided.config,
        )
        if not (self.by_name or self.by_denotation):
            return model
        denoted = _denotations(self.source) if self.by_denotation else {}
        sizes = {
            s.name: [self._size(d, denoted.get((s.name, axis))) for axis, d in enumerate(s.shape)]
            for s in model.inputs
            if s.shape is not None
        }
        return model.reshape(sizes)

    def _size(self, dimension: int | str | None, denotation: str | None) -> int | str | None:
        if isinstance(dimension, int):
            return dimension
        found = self.by_name.get(dimension or "", self.by_denotation.get(denotation or "", -1))
        return dimension if found < 0 else found


def compilation_of(
    source: str | bytes,
    options: SessionOptions,
    provided: Provided,
    fed: tuple[str, ...] = (),
    ranked: tuple[str, ...] = (),
) -> Compilation:
    """Return what the model of a session is compiled of.

    Args:
        fed: Inputs that are to be fed although the model has values for them.
        ranked: Inputs that are declared as scalars, and may have axes.

    Raises:
        ModelLoadCanceled: The options say so.
        Fail: The model has no external initialiser that is replaced.
        OptionError: The file that the model is to be written to cannot be.
        FileError: There is no model whose initialisers could be replaced.
        ModelError: Data beside it cannot be read.
    """
    if options.cancelled:
        raise ModelLoadCanceled("the options say so: set_load_cancellation_flag(False) takes that back")
    beside = isinstance(source, bytes) and _LOCATION in source
    given: Any = source
    if options.initializers or options.external or options.files or beside or ranked:
        given = _replaced(source, options)
    for value in given.graph.input if ranked else ():
        if value.name in ranked:
            value.type.tensor_type.ClearField("shape")
    if options.optimized_model_filepath:
        _write(given, options)
    threads = options.intra_op_num_threads if options.intra_op_num_threads > 0 else None
    if options.use_deterministic_compute:
        provided = replace(provided, config={"deterministic": "1", **provided.config})
    return Compilation(given, provided, threads, fed, options.by_name, options.by_denotation)


def _outline(source: Any) -> onnx.ModelProto:
    """Return the model without the data that lies beside it; raises ``FileError`` where there is none."""
    if isinstance(source, onnx.ModelProto):
        return source
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        return onnx.load_from_string(data)
    except (OSError, DecodeError) as error:
        raise FileError(f"no model is read: {error}") from error


def _denotations(source: Any) -> dict[tuple[str, int], str]:
    return {
        (value.name, axis): dim.denotation
        for value in _outline(source).graph.input
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.denotation
    }


def _shapes_of(source: Any, names: tuple[str, ...]) -> dict[str, list[int | str | None]]:
    """Return the declared shapes of inputs."""
    return {
        value.name: [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in dims]
        for value in _outline(source).graph.input
        if value.name in names
        for dims in [value.type.tensor_type.shape.dim]
    }


def _replaced(source: str | bytes, options: SessionOptions) -> onnx.ModelProto:
    """Return the model with other initialisers, and with all its data.

    Raises:
        Fail: There is no such initialiser.
        OptionError: What is in memory ends before it.
        ModelError: Data beside the model cannot be read.
    """
    model = _outline(source)
    held = {tensor.name: tensor for tensor in model.graph.initializer}
    if unknown := sorted(options.external.keys() - held.keys()):
        raise Fail(f"no initialiser is called {unknown[0]!r}")
    for name, value in (*options.initializers.items(), *options.external.items()):
        if name in held:
            held[name].CopyFrom(numpy_helper.from_array(value.numpy(), name))
        else:
            log.info("add_initializer(%r): the model has no initialiser of the name", name)
    try:
        for tensor in model.graph.initializer:
            _take_from_files(tensor, options.files)
        folder = options.entry(_FOLDER) if isinstance(source, bytes) else str(Path(source).parent)
        onnx.load_external_data_for_model(model, folder or ".")
    except OptionError:
        raise
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"data beside the model cannot be read: {error}") from error
    return model


def _take_from_files(tensor: onnx.TensorProto, files: Mapping[str, memoryview]) -> None:
    """Let *tensor* hold its data itself where one of *files* has it."""
    where = {entry.key: entry.value for entry in tensor.external_data}
    if tensor.data_location != onnx.TensorProto.EXTERNAL or where.get("location") not in files:
        return
    data, start = files[where["location"]], int(where.get("offset", 0))
    end = start + int(where.get("length", len(data) - start))
    if end > len(data):
        raise OptionError(f"initialiser {tensor.name!r} ends at byte {end} of a file of {len(data)} bytes")
    tensor.raw_data = bytes(data[start:end])
    del tensor.external_data[:]
    tensor.ClearField("data_location")


def _write(source: Any, options: SessionOptions) -> None:
    """Write the model as it is: what clgraph makes of it is not an ONNX model."""
    path, data = options.optimized_model_filepath, options.entry(_DATA)
    if path.lower().endswith(".ort"):
        raise NotHere(f"{path}: files in ONNX Runtime's own format are not written: end the name in .onnx")
    say_once(f"{path} holds the model as it was read: what clgraph compiles is not an ONNX model")
    try:
        model = onnx.load(source) if isinstance(source, str) else _outline(source)
        if data:
            smallest = int(options.entry(_SMALLEST) or 1024)
            onnx.external_data_helper.convert_model_to_external_data(model, location=data, size_threshold=smallest)
            Path(path).parent.joinpath(data).unlink(missing_ok=True)  # onnx does not write over a file
        onnx.save(model, path)
    except (OSError, ValueError) as error:
        raise OptionError(f"optimized_model_filepath: {path} cannot be written: {error}") from error
