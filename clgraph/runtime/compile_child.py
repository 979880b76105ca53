"""Entry point of the process that compiles a library: ``python -m clgraph.runtime.compile_child``, work on stdin.

The library is compiled and runs the steps of the executor's test one by one, which makes its code, before its binary is
written to the file that the work names.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from clgraph.errors import ClgraphError, InternalError, KernelBuildError
from clgraph.graph.faults import faults
from clgraph.runtime import child, driver, process
from clgraph.runtime.device import Device, find_device
from clgraph.runtime.engine import Engine
from clgraph.runtime.executor import run_probe
from clgraph.runtime.instruction_sets import InstructionSet
from clgraph.selector.executor_kernel import ENTRY
from clgraph.selector.library import Library


def compile_library(work: dict[str, Any]) -> None:
    """Compile and try the library of *work*, and write its binary; raises ``ClgraphError`` where it is no good."""
    driver.load()
    if work["folder"]:
        os.environ["POCL_CACHE_DIR"] = work["folder"]
    device = _with_features(find_device(work["device"]), work["features"])
    if device.info.kind == "cpu":
        child.limit_memory()
    engine = Engine(device)
    library = Library(work["what"], work["text"], (), 0)
    engine.programs.compile_library(library.text, work["what"])
    if why := run_probe(engine, library, rounds=1, joined=False):
        raise KernelBuildError(f"{work['what']} runs wrongly on {device}: {why}")
    if binary := engine.programs.library_binary(library.text, ENTRY):
        Path(work["output"]).write_bytes(binary)


def _with_features(device: Device, features: Sequence[str]) -> Device:
    """Return *device* with what is compiled for: some follows from measurements, which this process lacks."""
    return replace(device, info=replace(device.info, features=frozenset(features)))


def main() -> int:
    """Do the work, and print ``{"why": ""}``, or why there is no library."""
    work = json.load(sys.stdin)
    child.limit(work["cpu_seconds"])
    child.end_with(work["parent"])
    process.serve(InstructionSet.from_data(work["record"]))
    why = ""
    try:
        with faults(f"compiling {work['what']}"):
            compile_library(work)
    except ClgraphError as error:
        why = str(error)
        if isinstance(error, InternalError):
            traceback.print_exc()
    print(json.dumps({"why": why}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
