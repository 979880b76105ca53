"""Compilation of a library in a child process; a crash of the compiler is an error, and is not retried."""

from __future__ import annotations

import re
from pathlib import Path

from clgraph.core.log import Log
from clgraph.errors import KernelBuildError
from clgraph.runtime import child
from clgraph.runtime.binaries import ProgramCache, first_lines
from clgraph.runtime.device import Device
from clgraph.runtime.instruction_sets import of_host
from clgraph.runtime.process import chosen_options
from clgraph.runtime.scratch import scratch_folder, shortage

_log = Log(__name__)

_MODULE = "clgraph.runtime.compile_child"
_CPU_SECONDS = 1200
"""PoCL takes 6-10 s on a fast core, Intel's runtime 80 s, a small Arm core or an emulator ten times that."""
COMPILE_SECONDS = 1200
"""How long a process waits for another one that compiles the same library, before it does so itself.

On a machine with twenty busy processes a core, 20 s of CPU time take 400; to compile beside would make it longer. What
ends without a library, as everything that waits in vain does, ends the turn."""
_COUNTS = re.compile(r"^\d+ (warning|error)s? generated\.?$")


def compile_library(device: Device, text: str, what: str, cache: ProgramCache, key: str, *, alone: bool) -> bytes:
    """Compile library *text* in a process of its own, which runs it, too; return its binary.

    A compiler that crashes or comes to its limits leaves a note in *cache* under *key*, and is not started again.

    Args:
        alone: Keep the driver's own cache out of it: the process gets an empty one.

    Returns:
        An empty binary from a driver that keeps the code itself and hands out none that can be loaded.

    Raises:
        KernelBuildError: The text does not compile, the compiler died, now or before, or the library computes wrongly.
    """
    if note := cache.note(key):
        raise KernelBuildError(
            f"{note}\nIt is not tried again, as {cache.note_path(key)} remembers: remove that to do so"
        )
    try:
        made = scratch_folder("clgraph-compile-")
    except OSError as error:
        raise KernelBuildError(
            f"{what} cannot be compiled for {_target(device)}: there is no folder to do so in ({error}); TMPDIR names "
            "one that can be written"
        ) from error
    with made as folder:
        output = Path(folder) / "binary"
        work = {
            "device": device.info.name,
            "record": device.record.to_data(),
            "features": sorted(device.info.features),
            "text": text,
            "what": what,
            "output": str(output),
            "folder": folder if alone else "",
        }
        here = {"CLGRAPH_CACHE_DIR": str(chosen_options().cache_dir)}
        ended = child.run(_MODULE, work, _CPU_SECONDS, folder, here)
        short = shortage(Path(folder).parent)
        if ended.result is not None and not ended.result["why"]:
            return output.read_bytes() if output.is_file() else b""
    _log.debug("the compiler of %s on %s said:\n%s", device, what, ended.log)
    if ended.result is not None:
        raise KernelBuildError(ended.result["why"])
    said = first_lines("\n".join(line for line in ended.log.splitlines() if not _COUNTS.match(line.strip())))
    hint = f"; {short}" if short else _way_out(device)
    message = f"{what} cannot be compiled for {_target(device)}: {ended.why}{hint}"
    message += said and f":\n{said}"
    if ended.died and not short:
        cache.keep_note(key, message)
    raise KernelBuildError(message)


def _target(device: Device) -> str:
    record = device.record
    how = f"{record.name}, LLVM's {record.cpu}" if record.cpu else record.name
    return f"{device.info.name} ({device.label}; instruction set {how})"


def _way_out(device: Device) -> str:
    """Return the setting that compiles for a narrower instruction set, where the driver can be told one."""
    narrower = [i.name for i in of_host() if i.simd < device.record.simd] if device.record.built_in else []
    return f"; CLGRAPH_POCL_ISA={narrower[0]} compiles for narrower vectors" if narrower else ""
