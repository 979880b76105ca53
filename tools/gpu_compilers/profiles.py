"""Profiles of GPUs for dry runs: what drivers say of them, or data sheets where nobody has asked a driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clgraph.selector.query import DeviceInfo
from tests.support.ptx.compiler import clang_version, why_not
from tools.gpu_compilers.amd import compile_amd
from tools.gpu_compilers.intel import compile_intel, ocloc_version, why_no_ocloc
from tools.gpu_compilers.nvidia import assemble, assembler_version, why_not_assembled
from tools.gpu_compilers.report import Compiled
from tools.gpu_compilers.texts import Text

_CAPABILITIES = (70, 75, 80, 86, 89, 90, 100)


def gpu(vendor: str, *features: str, units: int, flops: float, memory: float, **fields: Any) -> DeviceInfo:
    """Return the profile of a GPU, with groups of 1024 and 64 KiB of local memory if *fields* do not say otherwise.

    Args:
        units: Compute units.
        flops: Float32 operations a second.
        memory: Bytes a second.
        fields: Other fields of ``DeviceInfo``.
    """
    given = {"max_work_group": 1024, "local_bytes": 64 << 10, "max_alloc": 4 << 30, "launch_seconds": 1e-5} | fields
    return DeviceInfo(
        kind="gpu",
        vendor=vendor,
        compute_units=units,
        workers=units,
        simd=1,
        features=frozenset(features),
        flops=flops,
        bytes_per_second=memory,
        **given,
    )


def nvidia(capability: int, units: int, flops: float, memory: float, *features: str) -> DeviceInfo:
    """Return the profile of an NVIDIA GPU of that compute capability, ten times the version."""
    has = {"fp64", "nvidia_ptx", *features, *(f"sm{known}" for known in _CAPABILITIES if known <= capability)}
    sizes = {"units": units, "flops": flops, "memory": memory}
    return gpu("NVIDIA Corporation", *has, **sizes, local_bytes=48 << 10, max_alloc=16 << 30, launch_seconds=6e-6)


@dataclass(frozen=True)
class Profile:
    """A device, and who compiles kernels for it: ``nvidia``, ``amd`` or ``intel``, for a target such as ``sm_90``."""

    info: DeviceInfo
    compiler: str
    target: str

    def why_not(self) -> str | None:
        """Say why nothing can be compiled for it here, or return ``None``."""
        if self.compiler == "nvidia":
            return why_not_assembled(self.target)
        return why_not() if self.compiler == "amd" else why_no_ocloc()

    def version(self) -> str:
        """Return the name of the compiler with its version."""
        if self.compiler == "nvidia":
            return f"{assembler_version(self.target)}, {clang_version()}"
        return clang_version() if self.compiler == "amd" else ocloc_version()

    def compile(self, text: Text, *, loops: bool = True) -> Compiled:
        """Return what the compiler makes of *text*; without *loops* its main loop is not read."""
        if self.compiler == "nvidia":
            return assemble(text, self.target, disassemble=loops)
        return compile_amd(text, self.target) if self.compiler == "amd" else compile_intel(text, self.target, self.info)


_AMD, _INTEL = "Advanced Micro Devices, Inc.", "Intel(R) Corporation"
PROFILES = {
    "v100": Profile(nvidia(70, 80, 1.4e13, 9.0e11), "nvidia", "sm_70"),
    "t4": Profile(nvidia(75, 40, 8.1e12, 3.2e11), "nvidia", "sm_75"),
    "a100": Profile(nvidia(80, 108, 1.95e13, 1.55e12), "nvidia", "sm_80"),
    "rtx3090": Profile(nvidia(86, 82, 3.5e13, 9.3e11), "nvidia", "sm_86"),
    "h200": Profile(nvidia(90, 132, 6.05e13, 4.2e12), "nvidia", "sm_90"),
    "rtx4090": Profile(nvidia(89, 128, 8.3e13, 1.0e12), "nvidia", "sm_89"),
    "b200": Profile(nvidia(100, 148, 7.5e13, 8.0e12), "nvidia", "sm_100"),
    "vega64": Profile(gpu(_AMD, "fp64", "fp16", "subgroups", units=64, flops=1.3e13, memory=4.8e11), "amd", "gfx900"),
    "mi250": Profile(
        gpu(_AMD, "fp64", "fp16", "subgroups", "amd_matrix", "amd_mfma", units=104, flops=2.4e13, memory=1.6e12),
        "amd",
        "gfx90a",
    ),
    "mi300x": Profile(
        gpu(_AMD, "fp64", "fp16", "subgroups", "amd_matrix", "amd_mfma", units=304, flops=1.6e14, memory=5.3e12),
        "amd",
        "gfx942",
    ),
    "rx6800": Profile(gpu(_AMD, "fp64", "fp16", "subgroups", units=60, flops=1.6e13, memory=5.1e11), "amd", "gfx1030"),
    "rx7900": Profile(
        gpu(_AMD, "fp64", "fp16", "subgroups", "amd_matrix", units=96, flops=5.0e13, memory=9.6e11),
        "amd",
        "gfx1100",
    ),
    "rx9070": Profile(
        gpu(_AMD, "fp64", "fp16", "subgroups", "amd_matrix", "amd_wmma12", units=64, flops=4.8e13, memory=6.4e11),
        "amd",
        "gfx1201",
    ),
    "hd530": Profile(
        gpu(_INTEL, "fp64", "fp16", "subgroups", "intel_subgroups", units=24, flops=4.4e11, memory=3.4e10),
        "intel",
        "skl",
    ),
    "irisxe": Profile(
        gpu(_INTEL, "fp16", "subgroups", "intel_subgroups", units=96, flops=2.1e12, memory=6.8e10), "intel", "tgllp"
    ),
    "arc": Profile(
        gpu(_INTEL, "fp16", "subgroups", "intel_subgroups", "intel_dpas", units=512, flops=1.7e13, memory=5.6e11),
        "intel",
        "dg2",
    ),
    "max1550": Profile(
        gpu(
            _INTEL,
            *("fp64", "fp16", "subgroups", "intel_subgroups", "intel_dpas", "intel_dpas16"),
            units=1024,
            flops=5.2e13,
            memory=3.2e12,
            local_bytes=128 << 10,
        ),
        "intel",
        "pvc",
    ),
}
"""By name. The H200's figures were measured, but nothing of its kernels was; the others are from data sheets."""
