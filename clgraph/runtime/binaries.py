"""Kernel programs: built from text, kept in a cache on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import clgraph
from clgraph.errors import KernelBuildError
from clgraph.runtime import driver

LOG_LINES = 12
"""How much of a build log an error shows."""

_MAGIC = b"clgraph program 1\n"
_CHILD_SECONDS = 900
_NEWER = re.compile(r"^#define OPENCL_C ([23])0$", re.MULTILINE)


class ProgramCache:
    """Binaries of programs in a folder, by key. Damaged or foreign files count as absent; write errors warn once.

    PoCL keeps the binaries itself (its own take 2.5 s more to hand out than to make); there an empty entry says that
    it has the program.
    """

    def __init__(self, folder: Path) -> None:
        """Use *folder*, made at the first write."""
        self._folder = folder
        self._warned = False

    def read(self, key: str) -> bytes | None:
        """Return what was written under *key*, ``None`` where there is nothing sound."""
        try:
            content = (self._folder / f"{key}.bin").read_bytes()
        except OSError:
            return None
        head, payload = content[: len(_MAGIC) + 32], content[len(_MAGIC) + 32 :]
        return payload if head == _MAGIC + hashlib.sha256(payload).digest() else None

    def write(self, key: str, payload: bytes) -> None:
        """Keep *payload* under *key*, at once or not at all."""
        temporary = self._folder / f".{key}.{os.getpid()}.{threading.get_ident()}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_MAGIC + hashlib.sha256(payload).digest() + payload)
            temporary.replace(self._folder / f"{key}.bin")
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            if not self._warned:
                warnings.warn(f"compiled kernels are not kept: {self._folder}: {error}", stacklevel=2)
            self._warned = True


def options_for(features: frozenset[str], library: bool, text: str = "") -> str:
    """Return the build options of a kernel text: of a library, or of a kernel of its own.

    A kernel is OpenCL C 1.2, or what it defines ``OPENCL_C`` as: 20 or 30.
    """
    if library and "acq_rel" in features:
        return "-cl-std=CL3.0 -cl-mad-enable -DCLGRAPH_ACQ_REL" + " -DCLGRAPH_YIELD" * ("yield" in features)
    newer = _NEWER.search(text)
    return f"-cl-std=CL{newer[1]}.0 -cl-mad-enable" if newer else "-cl-std=CL1.2 -cl-mad-enable"


def build(context: Any, handle: Any, text: str, options: str, what: str) -> Any:
    """Build *text* and return the ``pyopencl.Program``.

    Raises:
        KernelBuildError: It does not compile; the message has the first lines of the log and names *what*.
    """
    cl = driver.load()
    program = cl.Program(context, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program.build(options.split(), devices=[handle])
    except cl.Error as error:
        log = first_lines(str(error))
        raise KernelBuildError(f"kernel {what} does not compile for {handle.name}:\n{log}") from error


def from_binary(context: Any, handle: Any, binary: bytes, options: str) -> Any | None:
    """Return the program of a cached *binary*, ``None`` when the driver does not take it."""
    cl = driver.load()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cl.Program(context, [handle], [binary]).build(options.split())
    except (cl.Error, ValueError):
        return None


def to_binary(program: Any) -> bytes:
    """Return the binary of a program built for one device."""
    (binary,) = program.get_info(driver.load().program_info.BINARIES)
    return bytes(binary)


def build_in_child(device: str, text: str, what: str) -> None:
    """Compile library *text* in a process of its own, which leaves it in the cache.

    A compiler takes hundreds of megabytes, and a bug in it ends its process.

    Raises:
        KernelBuildError: The text does not compile, or the compiler crashed.
    """
    # Imported only where something is to be compiled, once on a machine.
    import signal
    import subprocess

    root = str(Path(clgraph.__file__).parents[1])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "clgraph.runtime.compile_child"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps({"device": device, "what": what, "text": text}),
            env={**os.environ, "PYTHONPATH": path, "CLGRAPH_CACHE_DIR": str(driver.chosen_options().cache_dir)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHILD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelBuildError(f"{what} cannot be compiled for {device}: {error}") from error
    if done.returncode < 0:
        cause = signal.Signals(-done.returncode).name
        raise KernelBuildError(f"the compiler of {device} crashed on {what} ({cause}):\n{first_lines(done.stderr)}")
    if done.returncode:
        said = first_lines(done.stderr) or f"its compiler ended with status {done.returncode} and said nothing"
        raise KernelBuildError(first_lines(done.stdout) or f"{what}: {said}")


def first_lines(log: str) -> str:
    """Return the lines of *log* that say something, at most ``LOG_LINES``."""
    lines = [line for line in log.splitlines() if line.strip()]
    more = [f"... {len(lines) - LOG_LINES} more lines"] if len(lines) > LOG_LINES else []
    return "\n".join([*lines[:LOG_LINES], *more])


def text_key(*parts: str) -> str:
    """Return the SHA-256 that stands for these texts together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()
