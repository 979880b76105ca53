"""OpenCL state of the process: the options its drivers are loaded with, and the process that may use them."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from pathlib import Path

from clgraph.core.cache_folder import cache_folder
from clgraph.errors import DeviceError
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.settings import Settings, settings

CHOSEN: list[Settings] = []
SERVED: list[InstructionSet] = []


def chosen_options() -> Settings:
    """Return the options that the drivers are loaded with; their cache folder is the one to use."""
    options = CHOSEN[0] if CHOSEN else settings()
    folder = cache_folder(options.cache_dir)
    return options if folder == options.cache_dir else replace(options, cache_dir=folder)


def serve(record: InstructionSet) -> None:
    """Load the drivers for *record* and try none: in a process that another one has started to try or to compile."""
    SERVED[:] = [record]


def served() -> InstructionSet | None:
    """Return what :func:`serve` was called with, ``None`` in a user's process."""
    return SERVED[0] if SERVED else None


@functools.cache
def pocl_was_loaded() -> bool:
    """Whether other code of this process loaded PoCL before clgraph: then it keeps its kernels where it likes."""
    maps = Path("/proc/self/maps")
    return maps.is_file() and "/libpocl" in maps.read_text(encoding="utf-8", errors="replace")


class _Owner:
    """The process that first asked a driver for its devices: the only one that the driver works in."""

    def __init__(self) -> None:
        self.known, self.left = False, False
        os.register_at_fork(after_in_child=self._leave)

    def _leave(self) -> None:
        self.left = self.known


_OWNER = _Owner()


def own() -> None:
    """Say that this process is about to ask a driver for its devices."""
    _OWNER.known = True


def is_left() -> bool:
    """Whether this process was forked after OpenCL was used."""
    return _OWNER.left


def check_process() -> None:
    """Raise ``DeviceError`` in a process that was forked after OpenCL was used; a command would wait for ever there."""
    if _OWNER.left:  # not by is_left: it is asked in every run, and a call takes as long as two inputs' checks
        raise DeviceError(
            "OpenCL was used before this process was forked, and the threads of its drivers do not survive that: start "
            "it with the 'spawn' method (multiprocessing.get_context('spawn')), or fork before the first use"
        )
