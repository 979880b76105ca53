"""Instruction sets of CPUs: one record decides everything that depends on what a CPU can execute.

A record names the CPU that LLVM compiles for, PoCL's built-in library, the floats in a vector of the kernels, and
features that kernels may need. It is chosen by the CPU's flags, never by the name that LLVM or a driver reports for
the CPU: that name may be of an older CPU with fewer instructions, or with more. Whether the driver computes rightly
with a record is decided by running it (:mod:`clgraph.runtime.canary`).
"""

from __future__ import annotations

import functools
import json
import platform
import re
from pathlib import Path

from clgraph.core.digests import blake2
from clgraph.core.frozen import changed, frozen
from clgraph.handlers import pass_on

_DATA = Path(__file__).parents[1] / "data" / "instruction_sets.json"
CPUINFO = Path("/proc/cpuinfo")
_FIRST_CPU = 1 << 14
"""Bytes of ``/proc/cpuinfo`` in which the first CPU's lines are."""
_NARROWEST = 4
"""Floats in the narrowest vectors that kernels are written for; compilers cut them where the CPU has none."""
_IDENTITY = (
    *("vendor_id", "cpu family", "model", "model name", "stepping", "flags"),  # x86
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),  # Arm
)


@frozen
class InstructionSet:
    """What kernels for CPUs are compiled for.

    Attributes:
        name: What users call it: ``avx512_bf16``, ``avx512_vnni``, ``avx512``, ``avx_vnni``, ``avx2``,
            ``avx``, ``sse2``, ``neon``.
        machine: The architecture, as ``platform.machine()`` calls it on Linux.
        cpu: LLVM's name of a CPU that executes it.
        built_in: The library of OpenCL's built-in functions that PoCL must link: kernels and library have to agree in
            which registers vectors are passed.
        simd: Floats in a vector of the kernels.
        features: What implementations may ask for: ``fma`` (fused multiply-add in hardware), ``vnni`` (``vpdpbusd`` on
            registers of *simd* floats), ``byte_pairs`` (``vpmaddubsw`` on 256 bits), ``short_pairs`` (``pmaddwd`` on
            128 bits, of CPUs without ``byte_pairs``), ``bf16`` (``vdpbf16ps`` on 512 bits), ``vbmi`` (``vpermi2b`` on
            512 bits), ``amx_bf16`` (tile registers, ``tdpbf16ps``).
        flags: What ``/proc/cpuinfo`` must list.
        optional: Features that only some of these CPUs have, each with the flag that says so.
    """

    name: str
    machine: str
    cpu: str
    built_in: str
    simd: int
    features: frozenset[str]
    flags: frozenset[str]
    optional: tuple[tuple[str, str], ...] = ()

    def to_data(self) -> dict[str, str | int | list[str] | dict[str, str]]:
        """Return the record as JSON can hold it."""
        return {
            "name": self.name,
            "machine": self.machine,
            "cpu": self.cpu,
            "built_in": self.built_in,
            "simd": self.simd,
            "features": sorted(self.features),
            "flags": sorted(self.flags),
            "optional": dict(self.optional),
        }

    @staticmethod
    def from_data(data: dict[str, object]) -> InstructionSet:
        """Return the record that :meth:`to_data` has written."""
        optional = data.get("optional", {})
        assert isinstance(optional, dict)
        fields = {**data, "features": frozenset(_texts(data["features"])), "flags": frozenset(_texts(data["flags"]))}
        fields["optional"] = tuple(optional.items())
        return InstructionSet(**fields)  # type: ignore[arg-type]  # written by to_data, or the data file

    @property
    def identity(self) -> str:
        """Text that is different for records that compile to different code."""
        return " ".join([f"{self.name} {self.cpu} {self.built_in} {self.simd}", *self._further])

    @property
    def label(self) -> str:
        """The name with the optional features that are there."""
        return f"{self.name} with {' and '.join(self._further)}" if self._further else self.name

    @property
    def attempts(self) -> tuple[InstructionSet, ...]:
        """The record, and the same without each of its optional features."""
        return (self, *(changed(self, features=self.features - {name}) for name in self._further))

    @property
    def _further(self) -> list[str]:
        return [name for name, _ in self.optional if name in self.features]

    def on(self, flags: frozenset[str]) -> InstructionSet:
        """Return the record with the optional features of a CPU with *flags*."""
        there = {name for name, flag in self.optional if flag in flags}
        return changed(self, features=self.features | there) if there else self


def _texts(value: object) -> list[str]:
    assert isinstance(value, list)
    return value


@functools.cache
def instruction_sets() -> tuple[InstructionSet, ...]:
    """Return all records, of each architecture the widest first."""
    rows = json.loads(_DATA.read_text(encoding="utf-8"))
    flags: dict[str, frozenset[str]] = {}
    found = []
    for row in reversed(rows):
        base = row.pop("and", None)
        flags[row["name"]] = frozenset(row["flags"]) | flags.get(base, frozenset())
        found.append(InstructionSet.from_data({**row, "flags": sorted(flags[row["name"]])}))
    return tuple(reversed(found))


def of_host(flags: frozenset[str] | None = None) -> tuple[InstructionSet, ...]:
    """Return the records whose *flags* (the host CPU's where not given) are all there, the widest first.

    They have the optional features that the flags speak of.
    """
    present = cpu_flags() if flags is None else flags
    return tuple(i.on(present) for i in instruction_sets() if i.machine == machine() and i.flags <= present)


def named(name: str) -> InstructionSet:
    """Return the record called *name*, which must be one."""
    return next(i for i in instruction_sets() if i.name == name)


def for_width(simd: int) -> tuple[InstructionSet, ...]:
    """Return records for a driver that compiles for the CPU it finds, and reports vectors of *simd* floats.

    One for each width, not wider than that: of the host's where its flags can be read, else those that ask for least.
    """
    there = of_host() if cpu_flags() else [i for i in instruction_sets() if i.machine == machine()][::-1]
    by_width: dict[int, InstructionSet] = {}
    for record in there:
        if record.simd <= max(simd, _NARROWEST):
            by_width.setdefault(record.simd, record)
    unknown = InstructionSet("generic", machine(), "", "", _NARROWEST, frozenset(), frozenset())
    return tuple(sorted(by_width.values(), key=lambda record: -record.simd)) or (unknown,)


def machine() -> str:
    """Return the host's architecture by one name on every system: ``x86_64``, ``aarch64``."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)


def cpu_flags() -> frozenset[str]:
    """Return the instructions that the kernel says the first CPU has, none where it says nothing."""
    return frozenset((_first_cpu().get("flags") or _first_cpu().get("Features") or "").split())


def cpu_identity() -> str:
    """Return the SHA-256 of what tells the host's CPU from others: what is compiled or measured belongs to it."""
    told = _first_cpu()
    lines = [f"{key}={told[key]}" for key in _IDENTITY if key in told]
    return blake2("\n".join([machine(), *lines]).encode()).hexdigest()


def _first_cpu() -> dict[str, str]:
    """Return the lines about the first CPU by their keys, none where they cannot be read."""
    try:
        with CPUINFO.open("rb") as file:
            text = file.read(_FIRST_CPU).decode(errors="replace")
    except OSError as error:
        pass_on(error)
        return {}
    found: dict[str, str] = {}
    for key, value in re.findall(r"^([^:\n\t]+?)[ \t]*:[ \t]*(.*)$", text, re.MULTILINE):
        found.setdefault(key, value)
    return found
