"""The file of a saved model: a JSON header, then raw arrays at multiples of 64 bytes, mapped when it is read.

    0   8   magic, "clgraph" and the byte 0x01
    8   4   version of the format, little-endian like all numbers
    12  4   zero
    16  8   bytes of the header
    24  8   bytes of the whole file
    32  32  SHA-256 of the header
    64      the header: JSON in UTF-8, then zeros to a multiple of 64
            the blobs, each followed by zeros: at least 64, to a multiple of 64

The header's ``blobs`` are [offset behind the header, bytes, CRC-32]. The header is always checked against its digest,
blobs of integers and small ones against theirs; large arrays of floats are not read before they are used.
"""

from __future__ import annotations

import copy
import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.cache_folder import make_folder
from clgraph.core.digests import blake2
from clgraph.core.files import output, replacing
from clgraph.core.mapped import MappedFile, files_of
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.handlers import pass_on

if TYPE_CHECKING:
    from clgraph.graph.primitive import Array
    from clgraph.graph.serial import Json

MAGIC = b"clgraph\x01"
VERSION = 3
"""Raised whenever an older reader would misread the file."""

_SHA_256 = 2
"""The last version whose header has SHA-256 for a checksum: since then it is BLAKE2b, without OpenSSL."""
ALIGNMENT = 64
CHECKED_BYTES = 1 << 16
"""Blobs up to this size are checked when the file is read."""

_HEAD = struct.Struct("<8sIIQQ32s")


class Blobs:
    """The arrays of a file being written; equal bytes are kept once."""

    def __init__(self) -> None:
        """Start with none."""
        self.table: list[tuple[int, int, int]] = []
        self._data: list[memoryview] = []
        self._end = 0
        self._known: dict[bytes, int] = {}
        self._seen: dict[int, tuple[int, Array]] = {}

    def add(self, array: Array) -> Json:
        """Return what stands for *array* in the header: its blob, element type and shape."""
        from clgraph.core.dtype import DType

        if id(array) not in self._seen:
            self._seen[id(array)] = (self._blob(array), array)
        return [self._seen[id(array)][0], DType.of(array.dtype).name, list(array.shape)]

    def _blob(self, array: Array) -> int:
        for file in files_of([array]):
            file.check()
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        import hashlib

        digest = hashlib.sha256(data).digest()
        if digest not in self._known:
            self._known[digest] = len(self.table)
            self.table.append((self._end, data.nbytes, zlib.crc32(data)))
            self._data.append(data)
            self._end += data.nbytes + _padding(data.nbytes)
        return self._known[digest]

    def write(
        self, path: Path, header: Mapping[str, Json], *, in_cache: bool = False, all_checked: bool = False
    ) -> None:
        """Write the file at once or not at all.

        Args:
            in_cache: It is not a file that the user named, but one below the cache folder.
            all_checked: Who reads it checks every byte, so that it need not wait for the disk.

        Raises:
            ModelError: It cannot be written.
        """
        text = json.dumps({**header, "blobs": self.table}, separators=(",", ":"), allow_nan=False).encode()
        start = _HEAD.size + len(text) + -len(text) % ALIGNMENT
        total = start + self._end
        head = _HEAD.pack(MAGIC, VERSION, 0, len(text), total, blake2(text).digest())
        try:
            if in_cache:
                make_folder(path.parent)
            with replacing(path) if in_cache else output(path) as file:
                file.write(head + text + bytes(-len(text) % ALIGNMENT))
                for data in self._data:
                    file.write(data)
                    file.write(bytes(_padding(data.nbytes)))
                file.flush()
                if file.seekable() and not all_checked:
                    os.fsync(file.fileno())
        except OSError as error:
            raise ModelError(f"the model cannot be saved to {path}: {error.strerror or error}") from error


def _padding(nbytes: int) -> int:
    return ALIGNMENT + -nbytes % ALIGNMENT


def is_saved(path: Path) -> bool:
    """Whether the file at *path* starts like a saved model."""
    return _start(path) == MAGIC


def is_model(path: Path) -> bool:
    """Whether *path* is an ONNX file, by its name or by how such files start: with the version of the format."""
    return path.suffix == ".onnx" or _start(path).startswith(b"\x08")


def _start(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""  # what is read of a pipe is gone
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except (OSError, ValueError) as error:
        pass_on(error)
        return b""


def is_dump(path: Path) -> bool:
    """Whether the file at *path* is called like the dump of a program: ``NN_name.json``."""
    return path.suffix == ".json"


class Contents:
    """A saved model's file: its header, and its arrays on demand."""

    def __init__(self, path: Path, file: MappedFile | None = None) -> None:
        """Map the file, unless it is mapped as *file*, and check its header.

        Raises:
            ModelError: It is missing, cut, damaged, of a newer version, or no saved model.
        """
        self.path = path
        self._file = file or map_file(path)
        self._bytes = np.frombuffer(self._file, np.uint8)
        self.header, self._start = _header(self._bytes, path)
        self._blobs: Sequence[Any] = self.header.get("blobs", ())
        self._checked: set[int] = set()

    @property
    def file(self) -> MappedFile:
        """The file, mapped."""
        return self._file

    @property
    def identity(self) -> str:
        """What tells the file from others: how it begins, with its size and the digest of its header."""
        return self._file[: _HEAD.size].hex()

    def check(self) -> None:
        """Raise ``ModelError`` where the file was cut or written to since it was mapped."""
        self._file.check()

    def part(self, header: dict[str, Any]) -> Contents:
        """Return the same file with *header*, which is a part of its own."""
        twin = copy.copy(self)
        twin.header = header
        return twin

    def array(self, reference: Json) -> Array:
        """Return an array, read-only and mapped, that :meth:`Blobs.add` has a reference for.

        Raises:
            ModelError: It does not lie in the file, or is damaged; or the file was cut since.
        """
        from clgraph.core.dtype import DType

        with well_formed(self.path, reference):
            number, name, shape = reference
            dtype = DType[name]
            return self._blob(number, whole=not dtype.floating).view(dtype.numpy).reshape(shape)

    def raw(self, reference: Json) -> Array:
        """Return the bytes of an array, all of which are checked; raises as :meth:`array`."""
        with well_formed(self.path, reference):
            return self._blob(reference[0], whole=True)

    def _blob(self, number: int, *, whole: bool) -> Array:
        """Return a blob that is checked where it is small, or else *whole*."""
        if self._file.size() < len(self._file):
            self._file.check()
        offset, nbytes, crc = self._blobs[number]
        begin = self._start + offset
        if offset < 0 or nbytes < 0 or begin + nbytes + ALIGNMENT > self._bytes.nbytes:
            raise ModelError(f"{self.path} is damaged: blob {number} lies outside of the file")
        data = self._bytes[begin : begin + nbytes]
        if (nbytes <= CHECKED_BYTES or whole) and number not in self._checked:
            if zlib.crc32(data.data) != crc:
                raise ModelError(f"{self.path} is damaged: blob {number} does not have the checksum in the header")
            self._checked.add(number)
        return data


def identity_of(file: MappedFile) -> str:
    """Return :attr:`Contents.identity` of a file whose header is not read; ``ModelError`` where that is damaged."""
    _header_text(np.frombuffer(file, np.uint8), file.path)
    return file[: _HEAD.size].hex()


def map_file(path: Path) -> MappedFile:
    """Map the file of a saved model; raises ``ModelError`` where it cannot be read, or is cut off."""
    try:
        file = MappedFile(path) if path.stat().st_size else b""
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(file, MappedFile) or len(file) < _HEAD.size:
        raise ModelError(f"{path} is not a saved model, or is cut off")
    return file


def _header(data: Array, path: Path) -> tuple[dict[str, Any], int]:
    text = _header_text(data, path)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ModelError(f"{path} is damaged: its header is not an object")
    return header, _HEAD.size + len(text) + -len(text) % ALIGNMENT


def _header_text(data: Array, path: Path) -> bytes:
    """Return the header of a file, which has the checksum that it should have."""
    magic, version, _, nbytes, total, digest = _HEAD.unpack(data[: _HEAD.size].tobytes())
    if magic != MAGIC:
        raise ModelError(f"{path} is not a saved model (in Python, clgraph.compile reads ONNX files)")
    if version > VERSION:
        raise ModelError(f"{path} has format {version}; this clgraph reads up to {VERSION}: save it again, or update")
    if total != data.nbytes:
        raise ModelError(f"{path} is cut off or damaged: it has {data.nbytes} bytes and should have {total}")
    if _HEAD.size + nbytes > total:
        raise ModelError(f"{path} is damaged: its header does not fit")
    text = data[_HEAD.size : _HEAD.size + nbytes].tobytes()
    if _checksum(version, text) != digest:
        raise ModelError(f"{path} is damaged: its header has another checksum")
    return text


def _checksum(version: int, text: bytes) -> bytes:
    if version > _SHA_256:
        return blake2(text).digest()
    import hashlib

    return hashlib.sha256(text).digest()
