"""ONNX Runtime's ``ModelCompiler``: what it writes where no provider compiles nodes, the model as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError, FileError, InputError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.onnxruntime.enumerations import GraphOptimizationLevel, OrtCompileApiFlags
from clgraph.onnxruntime.loading import checked_source
from clgraph.onnxruntime.options import SessionOptions
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError, status_of_file
from clgraph.onnxruntime.values import OrtValue


@frozen
class OrtExternalInitializerInfo:
    """Where an initialiser lies: a file beside the model, and its bytes there."""

    filepath: str
    file_offset: int
    byte_size: int


class ModelCompiler:
    """Writes a model; clgraph compiles it when a session is made of what was written."""

    def __init__(
        self,
        sess_options: SessionOptions,
        input_model_path_or_bytes: str | os.PathLike[str] | bytes,
        embed_compiled_data_into_model: bool = False,
        external_initializers_file_path: str | os.PathLike[str] | None = None,
        external_initializers_size_threshold: int = 1024,
        flags: int = OrtCompileApiFlags.NONE,
        graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_DISABLE_ALL,
        get_initializer_location_func: Callable[..., OrtExternalInitializerInfo | None] | None = None,
    ) -> None:
        """Remember what is to be written.

        Args:
            external_initializers_file_path: Where initialisers from *external_initializers_size_threshold* bytes on go;
                ``None``: they stay in the model.
            flags: Of :class:`OrtCompileApiFlags`.

            get_initializer_location_func: Takes the name and value of an initialiser, and where it lies if it lies
                beside the model; returns where it is to be found, having written it there, or ``None``: in the model.

        Raises:
            InputError: Initialisers are to go to one file, and to places that a function tells (a ``ValueError``).
            MismatchError: The model is neither a path nor bytes, or *sess_options* are something else.
        """
        if not isinstance(sess_options, SessionOptions):
            raise MismatchError(f"sess_options are SessionOptions, not {type(sess_options).__name__}")
        self._source = checked_source(input_model_path_or_bytes)
        where, self._place = external_initializers_file_path, get_initializer_location_func
        if where is not None and self._place is not None:
            raise InputError("give external_initializers_file_path or get_initializer_location_func, not both")
        self._data = None if where is None else os.fspath(where)
        self._threshold, self._flags = external_initializers_size_threshold, int(flags)

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Write a file; without a name, beside the model.

        Raises:
            InvalidArgument: There is no such file, what it holds is not a model that clgraph reads, or no file can be
                written there.
            InvalidProtobuf: It holds no model.
            MismatchError: A model of bytes has no place for a file.
            Fail: The flags refuse what there is, or data beside the model cannot be written.
        """
        if output_model_path is None:
            if isinstance(self._source, bytes):
                raise MismatchError("a model given as bytes needs the path of the file to write")
            output_model_path = f"{self._source.removesuffix('.onnx')}_ctx.onnx"
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and Path(output_model_path).exists():
            raise Fail(f"{output_model_path} exists already")
        written = self._written(Path(output_model_path).parent)
        try:
            Path(output_model_path).write_bytes(written)
        except OSError as error:
            raise InvalidArgument(f"{output_model_path} cannot be written: {error}") from error

    def compile_to_bytes(self) -> bytes:
        """Return the bytes of the file; raises like :meth:`compile_to_file`."""
        return self._written(Path())

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Give the bytes of the file to *write_function*; raises like that, and ``Fail`` for its errors."""
        try:
            write_function(self.compile_to_bytes())
        except ClgraphError:
            raise
        except Exception as error:  # the program's own
            raise Fail(f"{type(error).__name__}: {error}") from error

    def set_ep_context_binary_information(self, *_: Any, **__: Any) -> None:
        """Return at once: no node has data that a provider has compiled."""

    set_ep_context_data_write_func = clear_ep_context_data_write_func = set_ep_context_binary_information

    def _written(self, folder: Path) -> bytes:
        """Return the file's bytes; other data goes to *folder*."""
        if isinstance(self._source, str) and not Path(self._source).is_file():
            raise InvalidArgument(f'Input model path does not exist: "{self._source}"')
        try:
            load_onnx(self._source)
        except FileError as error:
            raise status_of_file(error)(str(error)) from error
        except ClgraphError as error:
            raise InvalidArgument(str(error)) from error
        if self._flags & OrtCompileApiFlags.ERROR_IF_NO_NODES_COMPILED:
            raise Fail("Unable to compile any nodes: sessions compile a model when they are made")
        try:
            model = onnx.load_from_string(self._source) if isinstance(self._source, bytes) else onnx.load(self._source)
            if self._data is not None:
                external, size = onnx.external_data_helper, self._threshold
                external.convert_model_to_external_data(model, location=self._data, size_threshold=size)
                external.write_external_data_tensors(model, str(folder))
        except (OSError, ValueError) as error:
            raise Fail(f"the model cannot be written: {error}") from error
        if self._place is not None:
            self._move(model, self._place)
        written: bytes = model.SerializeToString()
        return written

    def _move(self, model: onnx.ModelProto, place: Callable[..., OrtExternalInitializerInfo | None]) -> None:
        """Let the initialisers of *model* lie where *place* says that they do."""
        outline = model if isinstance(self._source, bytes) else onnx.load(self._source, load_external_data=False)
        for tensor, before in zip(model.graph.initializer, outline.graph.initializer, strict=True):
            found = place(tensor.name, OrtValue(onnx.numpy_helper.to_array(tensor)), _info(before))
            if found is None:
                continue
            held = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=b"")
            onnx.external_data_helper.set_external_data(held, found.filepath, found.file_offset, found.byte_size)
            held.ClearField("raw_data")
            tensor.CopyFrom(held)


def _info(tensor: onnx.TensorProto) -> OrtExternalInitializerInfo | None:
    """Return where an initialiser lies beside its model, if it does."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return None
    where = {entry.key: entry.value for entry in tensor.external_data}
    return OrtExternalInitializerInfo(where["location"], int(where.get("offset", 0)), int(where.get("length", 0)))
