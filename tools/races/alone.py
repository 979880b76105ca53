"""Kernels that no implementation launches without others that the simulator does not run: each by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.vectors import vector_jit
from clgraph.implementations.matrix_units.nvidia.scales import ScaledEntries, Scales
from clgraph.runtime.engine import Engine
from clgraph.selector.general import OPERANDS, launch, table
from clgraph.selector.plan import Launch, Table
from clgraph.selector.views import View
from tests.support.check_op import run_launch

Array = npt.NDArray[Any]


def _floats(engine: Engine, step: Launch, arrays: Mapping[str, Array], result: str, count: int) -> Array:
    """Run *step* on *arrays* by role, and return so many floats that it has written."""
    held = {role: engine.upload(a, role) for role, a in arrays.items()}
    held[result] = engine.upload(np.full(count, np.nan, np.float32), result)
    pending = run_launch(engine, step, held)
    found = np.empty(count, np.float32)
    engine.stream.read(held[result], 0, found)
    engine.stream.finish()
    del pending
    return found


def _largest(engine: Engine) -> list[str]:
    """Search entries that teams of 32 share, a team more than there are, and one whose parts take a group each."""
    rng = np.random.default_rng(0)
    arrays = {"in0": rng.standard_normal((7, 25, 12)), "in1": rng.standard_normal((1, 20, 1024))}
    arrays = {role: a.astype(np.float32) for role, a in arrays.items()}
    arrays["in0"][2, 3, 4:6] = np.nan, -np.inf
    entries = [ScaledEntries.of(a.shape, View.of(Layout.of(a)), 1) for a in arrays.values()]
    scales = Scales(*entries)
    found = _floats(engine, scales.step("scratch0"), arrays, "scratch0", scales.scratch_bytes // 4)
    (a, b), wrong = entries, []
    of_a, of_b = np.split(found, [a.count * a.parts])
    for role, entry, made in (("in0", a, of_a), ("in1", b, of_b)):
        finite = np.where(np.isfinite(arrays[role]), np.abs(arrays[role]), 0)
        if not np.array_equal(made.reshape(entry.count, entry.parts).max(1), finite.reshape(entry.count, -1).max(1)):
            wrong.append(f"the largest of {role} are others")
    return wrong


def _sum(engine: Engine) -> list[str]:
    """Add up three parts and a bias: 67 rows of 5 vectors of 4."""
    rng = np.random.default_rng(0)
    parts = rng.integers(-9, 9, (3, 67, 20)).astype(np.float32)
    bias = rng.integers(-9, 9, 20).astype(np.float32)
    y, dims = Layout(DType.F32, (67, 20)), (67, 5)
    numbers = table(dims, View.of(y), View.of(Layout.of(bias), y.shape), [len(parts), y.count, 1])
    arguments = ("scratch0", "in2", "out0", numbers, *("null",) * OPERANDS, Table((0,)))
    step = launch("matmul/matmul_gpu_sum", vector_jit(DType.F32, 2), prod(dims), *arguments)
    found = _floats(engine, step, {"scratch0": parts, "in2": bias}, "out0", y.count)
    return [] if np.array_equal(found.reshape(y.shape), parts.sum(0) + bias) else ["sums are others"]


ALONE: Mapping[str, Callable[[Engine], list[str]]] = {"matmul_gpu_largest": _largest, "matmul_gpu_sum": _sum}
"""What runs a kernel, by its name, and returns what is wrong with its results."""
