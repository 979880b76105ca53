"""The profile of an OpenCL device: its class, limits, features and rates, as implementations are chosen by."""

from __future__ import annotations

import re
import sys
from platform import machine
from typing import Any

from clgraph.runtime import handles
from clgraph.runtime.canary import Decision
from clgraph.runtime.cpus import usable_cores
from clgraph.selector.costs import Rates, class_of, rated, shipped
from clgraph.selector.query import DeviceInfo

_ORDER_ACQ_REL, _SCOPE_DEVICE = 1 << 1, 1 << 5
"""Bits of CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES."""
_CAPABILITIES = (70, 75, 80, 86, 89, 90, 100)
"""NVIDIA's compute capabilities, ten times the version, that are features."""
_INTEL_MATRIX = "cl_intel_subgroup_matrix_multiply_accumulate"
_MFMA = frozenset({"amd_matrix", "amd_mfma"})
_AMD_UNITS = {
    **dict.fromkeys(("908", "90a", "940", "941", "942", "950"), _MFMA),
    "11": frozenset({"amd_matrix"}),
    "12": frozenset({"amd_matrix", "amd_wmma12"}),
}
"""Features of AMD's matrix units, by the beginning of what its driver calls an architecture: gfx90a, gfx1100."""

_FETCHING = 1.05
"""How much faster a stream must be where it is fetched ahead: the instructions for it cost time where it is cached."""
_LOADED = 0.97
"""The least share of their rate that products with a load each make where loads cost nothing: 1.0 on Zen 4, whose units
of 512 bits take one product a cycle. Cores with two products and two loads a cycle make 14 in the time of 15, because
weights are loaded, too."""


def profile_of(handle: Any, name: str, decided: Decision) -> DeviceInfo:
    """Return the profile of the device *handle*, called *name*, for which its driver compiles what was *decided*."""
    kind = handles.kind(handle)
    extensions = frozenset(handle.extensions.split())
    units = handle.max_compute_units
    record = decided.record
    simd = record.simd
    gigahertz = (handle.max_clock_frequency or 3000) / 1000
    workers = min(units, usable_cores()) if kind == "cpu" else units
    class_name = class_of(name, kind, handle.vendor, simd)
    costs = shipped(class_name) if decided.rates is None else rated(class_name, decided.rates, workers)
    flops = costs.flops(workers, gigahertz)
    return DeviceInfo(
        name=name,
        kind=kind,
        vendor=handle.vendor,
        driver=handles.identity(handle, record),
        compute_units=units,
        workers=workers,
        simd=simd,
        max_work_group=handle.max_work_group_size,
        local_bytes=handle.local_mem_size,
        max_alloc=handle.max_mem_alloc_size,
        global_bytes=handle.global_mem_size,
        extensions=extensions,
        features=_features(
            handle,
            extensions,
            host_memory=kind == "cpu" and name.startswith("pocl"),
            clang=handles.has_clang(handle),
        )
        | handles.features(handle, record)
        | _measured(decided.rates),
        flops=flops,
        bytes_per_second=costs.bandwidth(flops),
        launch_seconds=costs.launch_seconds,
        cores=workers,
        rates=decided.rates,
    )


def _measured(rates: Rates | None) -> frozenset[str]:
    """Return the features that are decided by what the canary has measured."""
    if rates is None:
        return frozenset()
    found = {"fetch_ahead": rates.fetching > _FETCHING, "operand_loads": (rates.loaded_products or 0.0) > _LOADED}
    return frozenset(name for name, there in found.items() if there)


def _features(handle: Any, extensions: frozenset[str], *, host_memory: bool, clang: bool) -> frozenset[str]:
    atomics = handles.atomic_capabilities(handle)
    wide = _ORDER_ACQ_REL | _SCOPE_DEVICE
    present = {
        "fp64": "cl_khr_fp64" in extensions,
        "fp16": "cl_khr_fp16" in extensions,
        "acq_rel": atomics & wide == wide,
        "opencl_c_30": handle.version.startswith("OpenCL 3"),
        "subgroups": "cl_intel_subgroups" in extensions or handles.has_khronos_subgroups(handle, extensions),
        "intel_subgroups": "cl_intel_subgroups" in extensions,
        "emulated_local": handles.emulates_local_memory(handle),
        "int_dot": "cl_khr_integer_dot_product" in extensions,
        "host_memory": host_memory,
        "yield": host_memory and sys.platform == "linux" and machine() == "x86_64",
        "prefetch": clang,
        "cycle_counter": clang and machine() in ("x86_64", "AMD64"),
        "nvidia_ptx": "cl_nv_device_attribute_query" in extensions,
        "intel_dpas": _INTEL_MATRIX in extensions,
        # The smallest sub-group has 16 work-items where blocks are two-dimensional: Xe HPC, Xe2.
        "intel_dpas16": {_INTEL_MATRIX, "cl_intel_subgroup_2d_block_io"} <= extensions,
    }
    features = {name for name, there in present.items() if there}
    if "cl_amd_device_attribute_query" in extensions:
        features |= _AMD_UNITS.get(_architecture(handle.name), frozenset())
    if "nvidia_ptx" in features:
        capability = handles.compute_capability(handle)
        features |= {f"sm{known}" for known in _CAPABILITIES if capability >= known}
    return frozenset(features)


def _architecture(name: str) -> str:
    """Return what tells AMD's architectures apart: 90a of gfx90a:sramecc+:xnack-, 11 of gfx1100; else nothing."""
    found = re.match(r"gfx(9[0-9a-f]{2}|1[0-9])", name)
    return found[1] if found else ""
