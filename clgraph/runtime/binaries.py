"""Kernel programs: built from text, kept in a cache on disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clgraph.core import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.log import Log
from clgraph.core.warn import warn
from clgraph.errors import KernelBuildError
from clgraph.handlers import pass_on, suppressed
from clgraph.runtime import driver, pocl_binary
from clgraph.runtime.pocl_headers import CHOSEN

_log = Log(__name__)

LOG_LINES = 12
"""How much of a build log an error shows."""

_MAGIC = b"clgraph program 2\n"
_DEFINED = (
    "acq_rel",
    "yield",
    "prefetch",
    "fetch_ahead",
    "cycle_counter",
    "f16c",
    "vnni",
    "byte_pairs",
    "short_pairs",
    "bf16",
    "vbmi",
    "amx_bf16",
)
"""Features that libraries know by a macro of that name."""
_PLACE = r"(?P<file>[^:]+):(?P<line>\d+):(?:\d+:)? *(?P<what>.+)"
_NEWER = r"(?m)^#define OPENCL_C ([23])0$"


class ProgramCache:
    """Binaries of programs in a folder, by key. Damaged or foreign files count as absent; write errors warn once.

    PoCL keeps code itself, and takes as long to hand out a binary as to make the code; there an empty entry says that
    it has the program.
    """

    def __init__(self, folder: Path) -> None:
        """Use *folder*, made at the first write."""
        self._folder = folder
        self._warned = False

    def read(self, key: str) -> bytes | None:
        """Return what was written under *key*, ``None`` where there is nothing sound."""
        try:
            content = cache_folder.read(self._folder / f"{key}.bin")
        except OSError as error:
            pass_on(error)
            return None
        head, payload = content[: len(_MAGIC) + 32], memoryview(content)[len(_MAGIC) + 32 :]
        return bytes(payload) if head == _head(key, payload) else None

    def write(self, key: str, payload: bytes) -> None:
        """Keep *payload* under *key*, at once or not at all."""
        self._write(self._folder / f"{key}.bin", _head(key, payload) + payload)

    def remove(self, key: str) -> None:
        """Keep nothing under *key* any more."""
        with suppressed(OSError):  # it was not kept, or what cannot be removed is read once more
            (self._folder / f"{key}.bin").unlink()

    def turn_path(self, key: str) -> Path:
        """Return the file by which processes take turns to make what is kept under *key*; its folder is made."""
        with suppressed(OSError):  # what cannot be written is not kept, and made by everybody
            cache_folder.make_folder(self._folder)
        return self._folder / f"{key}.turn"

    def note_path(self, key: str) -> Path:
        """Return the file of the note under *key*."""
        return self._folder / f"{key}.failed"

    def note(self, key: str) -> str:
        """Return why nothing could be made for *key*; empty where nobody noted it."""
        try:
            return cache_folder.read(self.note_path(key)).decode("utf-8", "replace").strip()
        except OSError as error:
            pass_on(error)
            return ""

    def keep_note(self, key: str, text: str) -> None:
        """Keep why nothing can be made for *key*."""
        self._write(self.note_path(key), text.encode())

    def _write(self, path: Path, content: bytes) -> None:
        try:
            cache_folder.write(path, content)
        except OSError as error:
            pass_on(error)
            if not self._warned:
                warn(f"compiled kernels are not kept: {self._folder}: {error}")
            self._warned = True


def _head(key: str, payload: bytes | memoryview) -> bytes:
    """Return how the file of *payload* begins: a file under another's name is not taken for its own."""
    digest = blake2(f"{key}\n".encode())
    digest.update(payload)
    return _MAGIC + digest.digest()


def options_for(features: frozenset[str], library: bool, text: str = "", *, kind: str = "cpu") -> str:
    """Return the build options of a kernel text for a device of a *kind*: of a library, or of a kernel of its own.

    A kernel is OpenCL C 1.2, or what it defines ``OPENCL_C`` as: 20 or 30.
    """
    unfused = " -DCLGRAPH_NO_FMA" * (kind == "cpu" and "fma" not in features)
    if library:
        version = "3.0" if "acq_rel" in features else "1.2"
        known = "".join(f" -DCLGRAPH_{feature.upper()}" for feature in _DEFINED if feature in features)
        return f"-cl-std=CL{version} -cl-mad-enable{known}{unfused}"
    newer = re.search(_NEWER, text)
    version = f"{newer[1]}.0" if newer else "1.2"
    return f"-cl-std=CL{version} -cl-mad-enable{unfused}"


def build(context: Any, handle: Any, text: str, options: str, what: str) -> Any:
    """Build *text* and return the program.

    Raises:
        KernelBuildError: It does not compile; the message has the first lines of the log and names *what*.
    """
    cl = driver.load()
    driver.look_after(None)
    driver.restore(handle)
    if few := driver.declarations(handle, text):
        try:
            return cl.build(context, handle, few + text, f"{options} -D{CHOSEN}")
        except cl.Error as error:
            _log.debug("%s is built again with all declarations: %s", what, error)
    try:
        return _built(cl, context, handle, text, options)
    except cl.Error as error:
        said = str(error)
        where = first_error(said)
        raise KernelBuildError(
            f"kernel {what} does not compile for {handle.name}: {where}\n{first_lines(said)}"
        ) from error


def _built(cl: Any, context: Any, handle: Any, text: str, options: str) -> Any:
    """Build *text*, a second time where the cache folder was removed while PoCL compiled with it."""
    try:
        return cl.build(context, handle, text, options)
    except cl.Error as error:
        # Another thread may have restored it since.
        if not driver.restore(handle) and not driver.was_removed(str(error)):
            raise
    return cl.build(context, handle, text, options)


def from_binary(context: Any, handle: Any, binary: bytes, options: str) -> Any | None:
    """Return the program of a cached *binary*, ``None`` when the driver does not take it."""
    cl = driver.load()
    driver.look_after(pocl_binary.place_of(binary))
    try:
        return cl.build(context, handle, binary, options)
    except cl.Error:
        return None


def to_binary(program: Any) -> bytes:
    """Return the binary of a program built for one device."""
    (binary,) = program.get_info(driver.load().program_info.BINARIES)
    return bytes(binary)


def first_lines(log: str) -> str:
    """Return the lines of *log* that say something, at most ``LOG_LINES``."""
    lines = [line for line in log.splitlines() if line.strip()]
    more = [f"... {len(lines) - LOG_LINES} more lines"] if len(lines) > LOG_LINES else []
    return "\n".join([*lines[:LOG_LINES], *more])


def first_error(log: str) -> str:
    """Return ``file:line: message`` of the first error in the *log* of a compiler; its first line where none is found.

    Texts name their files and lines by ``#line``, so that these are what somebody wrote.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:
        # clang writes "file:1:2: error: message", PoCL "error: file:1:2: message".
        place = line.replace("fatal error: ", "").replace("error: ", "")
        if place != line and (found := re.fullmatch(_PLACE, place)):
            return f"{found['file']}:{found['line']}: {found['what']}"
    return next(iter(lines), "the compiler says nothing")


def text_key(*parts: str) -> str:
    """Return the SHA-256 that stands for these texts together."""
    digest = blake2()
    for part in parts:
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()
