"""Clang for GPU kernels: Debian's, or the one inside the ``ziglang`` wheel. Without either, tests are skipped."""

from __future__ import annotations

import functools
import importlib.util
import platform
import re
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
WARNINGS = ("-w", "-Wno-error=incompatible-pointer-types")
OPENCL = ("-x", "cl", "-cl-std=CL1.2", "-cl-no-stdinc", "-include", str(FOLDER / "opencl.clh"), *WARNINGS)
CPU = ("-fPIC", "-mavx2", "-mfma", "-mf16c", "-mstackrealign", "-ffp-contract=off")


class CompilerError(Exception):
    """What the compiler says against a text."""


@functools.cache
def _tools() -> tuple[list[str], list[str]]:
    """Return the commands that compile, and link a shared library; empty without a compiler."""
    if shutil.which("clang"):
        return ["clang"], ["clang", "-shared", "-nostdlib"]
    found = importlib.util.find_spec("ziglang")
    if found is not None and found.submodule_search_locations:
        zig = str(Path(next(iter(found.submodule_search_locations))) / "zig")
        return [zig, "clang"], [zig, "ld.lld", "-shared"]
    return [], []


def why_not() -> str | None:
    """Say why no kernel can be compiled here, or return ``None``."""
    if not _tools()[0]:
        return "no clang: install Debian's clang or the wheel ziglang"
    return None


@functools.cache
def clang_version() -> str:
    """Return the version of clang; empty without one."""
    compiler, _ = _tools()
    if not compiler:
        return ""
    said = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"clang version (\d+\.\d+\.\d+)", said)
    return f"clang {found[1]}" if found else ""


def why_no_machine() -> str | None:
    """Say why no kernel can be run here, or return ``None``."""
    return why_not() or (None if platform.machine() == "x86_64" else "the machine's fibres are written for x86-64")


def compile_library(source: Path, target: Path, options: tuple[str, ...]) -> None:
    """Compile *source* for this CPU into a shared library."""
    compiler, linker = _tools()
    made = target.with_suffix(".o")
    _run([*compiler, *options, *CPU, "-c", str(source), "-o", str(made)])
    _run([*linker, str(made), "-o", str(target)])


def to_ptx(text: str, architecture: str, group: tuple[int, ...] = (), library: Path | None = None) -> str:
    """Return what clang makes of a kernel text for an NVIDIA GPU such as ``sm_80``.

    Args:
        group: The group that it is launched with; written down where the text requires one, as NVIDIA's compiler does.
        library: NVIDIA's ``libdevice.10.bc``, with functions such as ``exp``; without it they are stand-ins.
    """
    linked = ("-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(library), "-DLIBDEVICE") if library else ()
    ptx = _to_gpu(
        text, "nvptx", "--target=nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", architecture, *linked
    )
    required = group if "reqd_work_group_size" in text else ()
    return re.sub(r"(\.entry \w+\([^)]*\))", rf"\1\n.reqntid {', '.join(map(str, required))}", ptx) if required else ptx


def to_amdgcn(text: str, processor: str) -> str:
    """Return clang's assembly of a kernel text for an AMD GPU such as ``gfx1100``; some functions are stand-ins."""
    return _to_gpu(text, "amdgcn", "--target=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib")


def _to_gpu(text: str, machine: str, *target: str) -> str:
    """Return the assembly of a kernel text; everything is inlined, and kernels have no second entry for callers."""
    compiler, _ = _tools()
    options = (
        *("-D__kernel=__attribute__((device_kernel))", "-DMACHINE=static", "-Dasm=__asm__", "-O2"),
        *("-mllvm", "-inline-threshold=100000"),
    )
    header = ("-include", str(FOLDER / f"{machine}.clh"))
    return _run([*compiler, *options[:2], *OPENCL, *options[2:], *header, *target, "-S", "-", "-o", "-"], text)


def _run(command: list[str], text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError("\n".join(done.stderr.splitlines()[:20]))
    return done.stdout
