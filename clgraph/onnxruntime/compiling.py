"""ONNX Runtime's ``ModelCompiler``: what it writes where no provider compiles nodes, the model as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx

from clgraph.errors import ClgraphError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.onnxruntime.enumerations import GraphOptimizationLevel, OrtCompileApiFlags
from clgraph.onnxruntime.loading import checked_source
from clgraph.onnxruntime.options import SessionOptions
from clgraph.onnxruntime.statuses import Fail, InvalidArgument, MismatchError


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
        get_initializer_location_func: Callable[..., Any] | None = None,
    ) -> None:
        """Remember what is to be written.

        Args:
            external_initializers_file_path: Where initialisers from *external_initializers_size_threshold* bytes on go;
                ``None``: they stay in the model.
            flags: Of :class:`OrtCompileApiFlags`.

        Raises:
            InvalidArgument: Initialisers are to go to places that a function tells.
            MismatchError: The model is neither a path nor bytes.
        """
        self._source = checked_source(input_model_path_or_bytes)
        if get_initializer_location_func is not None:
            raise InvalidArgument("get_initializer_location_func is not there: give external_initializers_file_path")
        where = external_initializers_file_path
        self._data = None if where is None else os.fspath(where)
        self._threshold, self._flags = external_initializers_size_threshold, int(flags)

    def compile_to_file(self, output_model_path: str | None = None) -> None:
        """Write a file; without a name, beside the model.

        Raises:
            InvalidArgument: There is no such file, or what it holds is not a model that clgraph reads.
            MismatchError: A model of bytes has no place for a file.
            Fail: The flags refuse what there is, or the file cannot be written.
        """
        if output_model_path is None:
            if isinstance(self._source, bytes):
                raise MismatchError("a model of bytes wants the path of the file to write")
            output_model_path = f"{self._source.removesuffix('.onnx')}_ctx.onnx"
        if self._flags & OrtCompileApiFlags.ERROR_IF_OUTPUT_FILE_EXISTS and Path(output_model_path).exists():
            raise Fail(f"{output_model_path} exists")
        written = self._written(Path(output_model_path).parent)
        try:
            Path(output_model_path).write_bytes(written)
        except OSError as error:
            raise Fail(f"{output_model_path} cannot be written: {error}") from error

    def compile_to_bytes(self) -> bytes:
        """Return the bytes of the file; raises like :meth:`compile_to_file`."""
        return self._written(Path())

    def compile_to_stream(self, write_function: Callable[[bytes], None]) -> None:
        """Give the bytes of the file to *write_function*; raises like :meth:`compile_to_file`."""
        write_function(self.compile_to_bytes())

    def _written(self, folder: Path) -> bytes:
        """Return the file's bytes; other data goes to *folder*."""
        if isinstance(self._source, str) and not Path(self._source).is_file():
            raise InvalidArgument(f'Input model path does not exist: "{self._source}"')
        try:
            load_onnx(self._source)
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
        written: bytes = model.SerializeToString()
        return written
