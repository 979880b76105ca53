"""Run kernels with instructions of GPUs on the CPU: their text with those as calls of ``machine.c``."""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.errors import ClgraphError
from tests.support.ptx.compiler import FOLDER, OPENCL, compile_library

HEADER = re.compile(r'^#line 1 "(ptx|intel_matrix|amd_matrix)\.clh"\n.*?(?=^#line )', re.MULTILINE | re.DOTALL)
"""The instructions in a kernel text whose includes are expanded."""
_LANES = re.compile(r"^#define LANES (\d+)$", re.MULTILINE)
_TYPES = {np.int32: "(int)", np.int64: "(long)", np.float32: "as_float((uint){})"}

Argument = NDArray[Any] | np.int32 | np.int64 | np.float32


class EmulationError(ClgraphError):
    """What the machine found wrong."""


def needs_emulation(text: str) -> bool:
    """Whether the kernel *text* has instructions of a GPU in it."""
    return HEADER.search(text) is not None


def run(
    text: str,
    entry: str,
    args: Sequence[Argument],
    grid: Sequence[int],
    group: Sequence[int],
    *,
    seed: int = 1,
    late: bool = True,
) -> float:
    """Run kernel *entry*; return the passes that reads of matrices took for each that they must take.

    Args:
        args: Arrays are tensors, written in place; the others numbers.
        seed: Of the order in which warps go on.
        late: Copies land when they are waited for; else at once.

    Raises:
        EmulationError: The machine stopped.
    """
    kinds = tuple("(__global void*)" if isinstance(a, np.ndarray) else _TYPES[type(a)] for a in args)
    function = _kernel(text, entry, kinds)
    words = np.zeros(max(len(args), 1), np.uint64)
    known = []
    for i, a in enumerate(args):
        if isinstance(a, np.ndarray):
            words[i] = a.ctypes.data
            known += [a.ctypes.data, a.ctypes.data + a.nbytes]
        else:
            words[i : i + 1].view(np.uint8)[: a.nbytes] = np.array([a]).view(np.uint8)
    machine = _machine()
    passes, ideal = (ctypes.c_long.in_dll(machine, f"machine_{n}") for n in ("passes", "ideal"))
    passes.value = ideal.value = 0
    sizes = [np.array([*x, *(1,) * (3 - len(x))], np.uint64) for x in (grid, group)]
    ranges = np.array(known, np.uint64)
    places = [ctypes.c_void_p(a.ctypes.data) for a in (words, *sizes, ranges)]
    lanes = _LANES.search(text)
    failed = machine.machine_run(function, *places, len(ranges) // 2, seed, int(late), int(lanes[1]) if lanes else 32)
    if failed:
        raise EmulationError(f"{entry}: {(ctypes.c_char * 256).in_dll(machine, 'machine_error').value.decode()}")
    return passes.value / max(ideal.value, 1)


@functools.cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="clgraph-ptx-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _machine() -> ctypes.CDLL:
    library = _folder() / "machine.so"
    compile_library(FOLDER / "machine.c", library, ("-w", "-O1"))
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def _kernel(text: str, entry: str, kinds: tuple[str, ...]) -> ctypes.c_void_p:
    _machine()
    passed = ", ".join(k.format(f"a[{i}]") if "{" in k else f"{k}a[{i}]" for i, k in enumerate(kinds))
    emulated = HEADER.sub(lambda m: f'#line 1 "{m[1]}.clh"\n{(FOLDER / f"{m[1]}.clh").read_text()}', text)
    whole = f"{emulated}\nvoid machine_entry(__global ulong* a) {{ {entry}({passed}); }}\n"
    stem = _folder() / hashlib.sha256(whole.encode()).hexdigest()[:20]
    source = stem.with_suffix(".cl")
    source.write_text(whole)
    # Not optimised, which takes a tenth of the time: most texts are run once.
    compile_library(source, stem.with_suffix(".so"), (*OPENCL, "-O0"))
    library = ctypes.CDLL(str(stem.with_suffix(".so")))
    return ctypes.cast(library.machine_entry, ctypes.c_void_p)
