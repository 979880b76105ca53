"""Kernel programs: built from text, kept in a cache on disk."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

from clgraph.errors import KernelBuildError
from clgraph.runtime import driver

LOG_LINES = 12
"""How much of a build log an error shows."""


def options_for(features: frozenset[str], library: bool) -> str:
    """Return the build options of a kernel text: of a library, or of a kernel of its own."""
    if library and "acq_rel" in features:
        return "-cl-std=CL3.0 -cl-mad-enable -DCLGRAPH_ACQ_REL"
    return "-cl-std=CL1.2 -cl-mad-enable"


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
        raise KernelBuildError(
            f"kernel {what} does not compile for {handle.name}:\n{first_lines(str(error))}"
        ) from error


def first_lines(log: str) -> str:
    """Return the lines of *log* that say something, at most ``LOG_LINES``."""
    lines = [line for line in log.splitlines() if line.strip()]
    return "\n".join(
        lines[:LOG_LINES] + ([f"... {len(lines) - LOG_LINES} more lines"] if len(lines) > LOG_LINES else [])
    )


def text_key(*parts: str) -> str:
    """Return the SHA-256 that stands for these texts together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:".encode() + part.encode())
    return digest.hexdigest()
