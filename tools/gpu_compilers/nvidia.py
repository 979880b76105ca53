"""Kernels through clang to PTX and through NVIDIA's ``ptxas``: registers, spills, occupancy, main loops."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.ptx.compiler import CompilerError, to_ptx, why_not
from tools.gpu_compilers.report import Compiled
from tools.gpu_compilers.texts import Text


@dataclass(frozen=True)
class Multiprocessor:
    """What the groups on a multiprocessor share: warps, groups, registers of 32 bits, bytes of shared memory."""

    warps: int
    groups: int
    shared: int
    registers: int = 65536

    def groups_of(self, items: int, registers: int, shared: int) -> int:
        """Return how many groups run at once; a warp's registers come in units of 256, a group's memory in 128 bytes.

        The driver takes 1 KiB more of shared memory a group from compute capability 8.0 on.
        """
        warps = -(-items // 32)
        by_registers = self.registers // (-(-registers * 32 // 256) * 256 * warps) if registers else self.groups
        reserved = 1024 if self.shared > 96 << 10 else 0
        by_shared = self.shared // (-(-shared // 128) * 128 + reserved) if shared else self.groups
        return min(self.groups, self.warps // warps, by_registers, by_shared)


MULTIPROCESSORS = {
    "sm_70": Multiprocessor(64, 32, 96 << 10),
    "sm_75": Multiprocessor(32, 16, 64 << 10),
    "sm_80": Multiprocessor(64, 32, 164 << 10),
    "sm_86": Multiprocessor(48, 16, 100 << 10),
    "sm_89": Multiprocessor(48, 24, 100 << 10),
    "sm_90": Multiprocessor(64, 32, 228 << 10),
    "sm_100": Multiprocessor(64, 32, 228 << 10),
}
"""From the occupancy tables of the CUDA programming guide."""


def ptxas_for(architecture: str) -> str | None:
    """Return the first ``ptxas`` that takes *architecture*: on the path, then of the wheel nvidia-cuda-nvcc-cu12."""
    return next((found for found in _installed("ptxas") if f"'{architecture}'" in _help(found)), None)


def assembler_version(architecture: str) -> str:
    """Return the version of the ``ptxas`` for *architecture*; empty where there is none."""
    found = ptxas_for(architecture)
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout if found else ""
    number = re.search(r"V(\d+\.\d+\.\d+)", said)
    return f"ptxas {number[1]}" if number else ""


@functools.cache
def _help(assembler: str) -> str:
    return subprocess.run([assembler, "--help"], capture_output=True, text=True, check=False).stdout


@functools.cache
def _installed(tool: str) -> list[str]:
    """Return where *tool* is: on the path, and in the wheels of NVIDIA's package."""
    spec = find_spec("nvidia")
    homes = spec.submodule_search_locations if spec else None
    wheels = sorted(str(p) for home in homes or () for p in Path(home).glob(f"*/bin/{tool}"))
    on_path = shutil.which(tool)
    return [*([on_path] if on_path else []), *wheels]


def library() -> Path | None:
    """Return NVIDIA's library of functions, which comes with each ``ptxas``; ``None`` for stand-ins."""
    places = [
        Path(found).resolve().parents[1] / "nvvm" / "libdevice" / "libdevice.10.bc" for found in _installed("ptxas")
    ]
    return next((p for p in places if p.is_file()), None)


@functools.cache
def why_not_assembled(architecture: str) -> str | None:
    """Say why no kernel can be assembled for *architecture* here, or return ``None``."""
    if reason := why_not():
        return reason
    if ptxas_for(architecture):
        return None
    return f"no ptxas that takes {architecture}: install CUDA or the wheel nvidia-cuda-nvcc-cu12"


def assemble(text: Text, architecture: str, *, disassemble: bool = True) -> Compiled:
    """Return what clang and ``ptxas`` make of *text*."""
    assembler = ptxas_for(architecture)
    assert assembler is not None
    with tempfile.TemporaryDirectory(prefix="clgraph-ptxas-") as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        try:
            source.write_text(to_ptx(text.text, architecture, text.group, library()))
        except CompilerError as error:
            return Compiled(text, error=str(error))
        command = [assembler, f"-arch={architecture}", "-v", str(source), "-o", str(binary)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return Compiled(text, error=done.stderr)
        lines = listing(binary) if disassemble else []
        loop = None if lines is None else main_loop(lines)
    return _figures(text, architecture, done.stderr, loop)


def _figures(text: Text, architecture: str, said: str, loop: Counter[str] | None) -> Compiled:
    def number(pattern: str) -> int:
        found = re.search(pattern, said)
        return int(found[1]) if found else 0

    registers, shared = number(r"Used (\d+) registers"), number(r"(\d+) bytes smem")
    chip, items = MULTIPROCESSORS[architecture], text.items if text.requires_group else 256
    groups = chip.groups_of(items, registers, shared)
    return Compiled(
        text,
        registers,
        (number(r"(\d+) bytes spill stores"), number(r"(\d+) bytes spill loads")),
        number(r"(\d+) bytes stack frame"),
        shared,
        groups * -(-items // 32),
        chip.warps,
        loop,
    )


def listing(binary: Path) -> list[str] | None:
    """Return the instructions and labels of a cubin; ``None`` without ``nvdisasm``."""
    found = next(iter(_installed("nvdisasm")), None)
    if found is None:
        return None
    said = subprocess.run([found, "-c", str(binary)], capture_output=True, text=True, check=False).stdout
    return [
        m[1]
        for line in said.splitlines()
        if (m := re.match(r"\s*(?:/\*[0-9a-f]{4,}\*/\s+)?(\.L_x_\d+:|[^/].*?;)", line))
    ]


def main_loop(lines: Sequence[str]) -> Counter[str]:
    """Return the instructions of the loop that is most densely filled with products, by name.

    Those of matrix units count where there are any; else multiply-adds, of which there must be four.
    """
    work = "HMMA|IMMA" if any("MMA." in line for line in lines) else "FFMA|IDP"
    label: dict[str, int] = {}
    best: tuple[float, list[str]] = (0.0, [])
    for i, line in enumerate(lines):
        if line.startswith(".L_x_"):
            label[line[:-1]] = i
        elif (found := re.search(r"BRA.*`\((\.L_x_\d+)\)", line)) and found[1] in label:
            body = [x for x in lines[label[found[1]] : i + 1] if not x.startswith(".L_x_")]
            products = sum(bool(re.search(work, x)) for x in body)
            if products >= 4:
                best = max(best, (products / len(body), body))
    return Counter(map(_kind, best[1]))


def _kind(line: str) -> str:
    name = re.sub(r"^@!?U?P\w+\s+", "", line).split()[0].rstrip(";")
    first = name.partition(".")[0]
    return f"{first}.128" if first in ("LDG", "STG", "LDS", "STS") and ".128" in name else first
