"""Kernels through ``ocloc``, Intel's compiler for its GPUs: refusals, registers that are spilled."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from clgraph.runtime.binaries import options_for
from clgraph.selector.query import DeviceInfo
from tools.gpu_compilers.report import Compiled
from tools.gpu_compilers.texts import Text

UNDECLARED = "".join(
    f"float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16({rows}, int8, float8);\n"
    for rows in ("int8", "short8")
)
"""Functions of Intel's matrix units that Debian's ``ocloc`` 22.43 has, but does not declare."""


def source_for(text: str) -> str:
    """Return a kernel text as ``ocloc`` takes it."""
    return f"{UNDECLARED}{text}" if "intel_matrix.clh" in text else text


def why_no_ocloc() -> str | None:
    """Say why no kernel can be compiled for Intel's GPUs here, or return ``None``."""
    return None if shutil.which("ocloc") else "no ocloc: Debian has it in intel-opencl-icd"


def ocloc_version() -> str:
    """Return the version of Debian's package that ``ocloc`` comes in; without one, its name."""
    asked = ["dpkg-query", "-W", "-f", "${Version}", "intel-opencl-icd"]
    said = subprocess.run(asked, capture_output=True, text=True, check=False) if shutil.which(asked[0]) else None
    return f"ocloc {said.stdout}".strip() if said else "ocloc"


def compile_intel(text: Text, device: str, info: DeviceInfo) -> Compiled:
    """Return what ``ocloc`` makes of *text* for *device*, such as ``dg2``."""
    with tempfile.TemporaryDirectory(prefix="clgraph-ocloc-") as folder:
        source = Path(folder, "kernel.cl")
        source.write_text(source_for(text.text))
        where = ["-file", str(source), "-device", device, "-out_dir", folder]
        options = options_for(info.features, False, text.text)
        command = ["ocloc", "compile", *where, "-options", options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode:
            return Compiled(text, error=said)
    spilled = re.search(r"spill.*?(\d+)", said, re.IGNORECASE)
    bytes_spilled = int(spilled[1]) if spilled else 0
    return Compiled(text, spilled=(bytes_spilled, bytes_spilled))
