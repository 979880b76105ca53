"""Identity of models in the model cache: a file by state and digest, bytes in memory by digest."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from clgraph.compilation.cache_files import ModelCache, Stamp
from clgraph.compilation.sources import OpenShapes, read_source
from clgraph.core.frozen import frozen
from clgraph.core.mapped import MappedFile
from clgraph.errors import ModelError
from clgraph.handlers import pass_on

if TYPE_CHECKING:
    from clgraph.frontend.files import Source
    from clgraph.ops.preprocess import Preprocess

Read = Callable[[], dict[str, Any]]
"""Returns the attributes of a topology."""

Images = Mapping[str, "Preprocess"]
"""What is done to the images that inputs are fed, by their names."""


@runtime_checkable
class CacheSource(Protocol):
    """Where the model of a call comes from, as it was at the call."""

    @property
    def nbytes(self) -> int:
        """Size of the model."""
        ...

    def content(self, cache: ModelCache) -> str | None:
        """Return the digest of the model; ``None`` where *cache* has nothing of it."""
        ...

    def learn(self, cache: ModelCache) -> str | None:
        """Return the digest of the model; ``None`` where it is not what it was."""
        ...

    def reader(self, content: str, outputs: tuple[str, ...] | None, shapes: OpenShapes, images: Images) -> Read:
        """Return what reads the model again, when another shape is to be compiled, and checks that it is the same."""
        ...

    def holds(self, file: MappedFile) -> bool:
        """Whether weights that are mapped from *file* lie in the model itself."""
        ...


def source_of(source: object) -> CacheSource | None:
    """Return the source of a model; ``None`` of what is not an ONNX model, or has been written to just before.

    A ``ModelProto`` is written to bytes: what is in it later is another matter.
    """
    if isinstance(source, bytes):
        return _Bytes(source)
    if isinstance(source, CacheSource):
        return source
    if getattr(getattr(source, "DESCRIPTOR", None), "full_name", "") == "onnx.ModelProto":
        return _serialised(source)
    try:
        path = Path(cast(str, source))
    except TypeError as error:
        pass_on(error)
        return None
    stamp = Stamp.of(path)
    return None if stamp is None or not stamp.is_settled else _File(path, stamp)


def _serialised(model: Any) -> CacheSource | None:
    try:
        return _Bytes(model.SerializeToString(deterministic=True))
    except ValueError as error:
        pass_on(error)
        # More than 2 GiB, which protobuf does not write.
        return None


@frozen
class _File:
    """A file.

    Attributes:
        stamp: Its state before anything was read of it.
    """

    path: Path
    stamp: Stamp

    def __str__(self) -> str:
        return str(self.path)

    @property
    def nbytes(self) -> int:
        return self.stamp.nbytes

    def content(self, cache: ModelCache) -> str | None:
        return cache.content(self.path, self.stamp)

    def learn(self, cache: ModelCache) -> str | None:
        return cache.learn(self.path, self.stamp)

    def reader(self, content: str, outputs: tuple[str, ...] | None, shapes: OpenShapes, images: Images) -> Read:
        file = self.path.open("rb")
        read = functools.partial(_read_again, self, content, outputs, shapes, images, file)
        weakref.finalize(read, file.close)
        return read

    def holds(self, file: MappedFile) -> bool:
        return file.path == self.path


def _read_again(
    source: _File,
    content: str,
    outputs: tuple[str, ...] | None,
    shapes: OpenShapes,
    images: Images,
    file: BufferedReader,
) -> dict[str, Any]:
    """Return the attributes of a topology; raises ``ModelError`` when the file was written to."""
    # The open file is still there when its name is gone, or another's.
    link = Path(f"/proc/self/fd/{file.fileno()}")
    opened = link if link.exists() else source.path
    before = Stamp.of(opened)
    if before == source.stamp or _digest_of(file) == content:
        read = _read(opened, outputs, shapes, images)
        if Stamp.of(opened) == before:
            return read
    raise ModelError(f"{source} was written to while the model was in use: load it again")


def _digest_of(file: BufferedReader) -> str:
    """Return the digest of an open file, which may have got another name, or other times, and kept its content."""
    import hashlib

    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


class _Bytes:
    """A model in memory, of which nobody else may change a byte."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data
        self._digest = ""
        self._nbytes = len(data)

    def __str__(self) -> str:
        return f"a model of {self.nbytes} bytes"

    @property
    def nbytes(self) -> int:
        return self._nbytes

    def content(self, cache: ModelCache) -> str | None:
        return self._told() if cache.has_size(self.nbytes) else None

    def learn(self, cache: ModelCache) -> str | None:
        digest, self._data = self._told(), None  # who writes an entry has compiled the model, and reads it no more
        return digest

    def reader(self, content: str, outputs: tuple[str, ...] | None, shapes: OpenShapes, images: Images) -> Read:
        assert self._data is not None
        return functools.partial(_read, self._data, outputs, shapes, images)

    def holds(self, file: MappedFile) -> bool:
        return False

    def _told(self) -> str:
        if self._data is not None and not self._digest:
            import hashlib

            self._digest = hashlib.sha256(self._data).hexdigest()
        return self._digest


def _read(source: Source, outputs: tuple[str, ...] | None, shapes: OpenShapes, images: Images) -> dict[str, Any]:
    return vars(read_source(source, outputs, shapes, images))
