"""Kernels through clang for AMD GPUs: registers, spills, local memory, waves of a SIMD unit."""

from __future__ import annotations

import re

from tests.support.ptx.compiler import CompilerError, to_amdgcn
from tools.gpu_compilers.report import Compiled
from tools.gpu_compilers.texts import Text

WAVES = {"gfx900": 10, "gfx90a": 8, "gfx942": 8, "gfx1030": 16, "gfx1100": 16, "gfx1201": 16}
"""Of a SIMD unit, by processor."""


def compile_amd(text: Text, processor: str) -> Compiled:
    """Return what clang makes of *text*; only instructions are made, functions such as ``exp`` are stand-ins."""
    try:
        assembly = to_amdgcn(text.text, processor)
    except CompilerError as error:
        return Compiled(text, error=str(error))

    def number(name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+)", assembly)
        return int(found[1]) if found else 0

    spilled = 4 * number(r"\.vgpr_spill_count")
    stack, local = number(r"\.private_segment_fixed_size"), number(r"\.group_segment_fixed_size")
    return Compiled(
        text,
        number(r"\.vgpr_count"),
        (spilled, spilled),
        stack,
        local,
        number("; Occupancy"),
        WAVES[processor],
    )
