"""The questions of ``tools/probe_gpu``: each returns its answers in words, one a line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.errors import ClgraphError
from clgraph.implementations.matrix_units.nvidia.matmul import (
    MatMulNvidia,
    MatMulNvidiaF16,
    MatMulNvidiaF16x3,
    MatMulNvidiaF32,
    MatMulNvidiaTf32x3,
)
from clgraph.implementations.matrix_units.nvidia.tiles import F16, TILES, PtxTile, Tiling
from clgraph.ops.matmul import MatMul
from clgraph.runtime import binaries
from clgraph.runtime.engine import Engine
from clgraph.runtime.memory import Memory
from clgraph.runtime.stream import Stream
from clgraph.selector.plan import Launch, Plan, Step, Table
from clgraph.selector.query import SM80, DeviceInfo, Query
from clgraph.selector.sources import kernel_text

_FILLED = """__kernel void filled(__global int* wrong) {
  __local int memory[WORDS];
  for (int i = get_local_id(0); i < WORDS; i += 256) memory[i] = 7 * i;
  barrier(CLK_LOCAL_MEM_FENCE);
  int count = 0;
  for (int i = get_local_id(0); i < WORDS; i += 256) count += memory[WORDS - 1 - i] != 7 * (WORDS - 1 - i);
  wrong[get_global_id(0)] = count;
}"""
SPIN = """__kernel void spin(__global float* x, const int rounds) {
  float v = x[get_global_id(0)];
  for (int i = 0; i < rounds; i++) v = fma(v, 0.999f, 0.001f);
  x[get_global_id(0)] = v;
}"""
COUNTED = """__kernel void counted(__global int* counts) {
  atomic_inc(counts + (get_group_id(0) + get_group_id(1) + get_group_id(2)) % 64);
}"""
GROUPS = 1 << 17
"""Along one axis: more than CUDA takes along the second and third, 65,535."""
KILOBYTES = (32, 40, 48, 64, 96, 128, 160, 227)
"""Of static local memory."""
_ROUNDING = """__kernel void rounding(__global float* sum, const uint a, const uint b) {
  float c[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  const uint rows[4] = {a, a, a, a};
  MMA_F16(c, rows, b, b);
  sum[get_global_id(0)] = c[0];
}"""


SIZES = (256, 4096, 8192)
"""Of square products: the quick one, then those that count."""
_PRODUCTS: dict[str, type[MatMulNvidia]] = {
    c.product: c for c in (MatMulNvidiaF16, MatMulNvidiaTf32x3, MatMulNvidiaF16x3, MatMulNvidiaF32)
}


def ask(question: str, engine: Engine, *, quick: bool) -> list[str]:
    """Return the answers to *question*; what a device refuses is an answer, too."""
    return QUESTIONS[question](engine, quick)


def filled(kilobytes: int) -> str:
    """Return the text of a kernel with so much static local memory."""
    return f"#define WORDS {kilobytes * 256}\n{_FILLED}"


def local_memory(engine: Engine, quick: bool) -> list[str]:
    """Say how much static local memory runs, and whether right."""
    found = []
    for kilobytes in KILOBYTES[::2][:2] if quick else KILOBYTES:
        text = filled(kilobytes)
        wrong = engine.upload(np.ones(256 * 64, np.int32), "counts")
        try:
            engine.kernel(text, "filled", [wrong]).on(engine.stream, (256 * 64,), (256,))()
            engine.stream.finish()
            answer = "right" if not _read(engine, wrong, np.int32, 256 * 64).any() else "WRONG"
        except (ClgraphError, *engine.failures) as error:
            answer = f"refused: {str(error).splitlines()[0][:100]}"
        found.append(f"{kilobytes} KiB: {answer}")
    return found


def grids(engine: Engine, quick: bool) -> list[str]:
    """Say along which axes a launch may have very many groups, and whether all of them run."""
    found = []
    for axis, what in enumerate(("first", "second", "third")):
        counts = engine.upload(np.zeros(64, np.int32), "counts")
        grid = tuple(GROUPS if i == axis else 1 for i in range(3))
        try:
            engine.kernel(COUNTED, "counted", [counts]).on(engine.stream, grid, (1, 1, 1))()
            engine.stream.finish()
            answer = "right" if (_read(engine, counts, np.int32, 64) == GROUPS // 64).all() else "WRONG"
        except (ClgraphError, *engine.failures) as error:
            answer = f"refused: {str(error).splitlines()[0][:100]}"
        found.append(f"{GROUPS} groups along the {what} axis: {answer}")
    return found


def launches(engine: Engine, quick: bool) -> list[str]:
    """Say what a launch costs."""
    count = 20 if quick else 1000
    held = engine.upload(np.zeros(1 << 16, np.float32), "numbers")
    twins = [engine.beside() for _ in range(4)]
    context, handle = engine._context, engine._handle
    free = Stream(context, handle, out_of_order=True)

    def kernel(rounds: int) -> Any:
        return engine.kernel(SPIN, "spin", [held, np.int32(rounds)])

    def each(what: str, rounds: int, items: int, streams: Sequence[Stream]) -> str:
        steps = [kernel(rounds).on(stream, (items,), (64,)) for stream in streams]
        best = []
        for _ in range(3):
            start = time.perf_counter()
            for i in range(count):
                steps[i % len(steps)]()
            queued = time.perf_counter() - start
            for stream in streams:
                stream.finish()
            best.append((time.perf_counter() - start, queued))
        whole, queued = min(best)
        return f"{what}: {whole / count * 1e6:.2f} us each, {queued / count * 1e6:.2f} of them to enqueue"

    one, several = [engine.stream], [twin.stream for twin in twins]
    empty = kernel(0).on(engine.stream, (64,), (64,))
    empty()
    engine.stream.finish()
    start = time.perf_counter()
    for _ in range(20):
        empty()
        engine.stream.finish()
    alone = (time.perf_counter() - start) / 20
    return [
        f"one and its end: {alone * 1e6:.1f} us",
        each("empty, in order", 0, 64, one),
        each("empty, 256 groups, in order", 0, 64 * 256, one),
        each("short, in order", 2000, 64, one),
        each("short, out of order", 2000, 64, [free]),
        each("short, on four queues", 2000, 64, several),
    ]


def one_product() -> str:
    """Return the text of a kernel with one product of matrix units."""
    return "\n".join(['#line 1 "ptx.clh"', kernel_text("ptx.clh"), '#line 1 "rounding"', _ROUNDING])


def rounding(engine: Engine, quick: bool) -> list[str]:
    """Say whether matrix units round sums to nearest: 1 + 1.5 * 2^-24 is then 1 + 2^-23, and 1 if truncated."""
    if why := _why_not(engine):
        return [why]
    halves = [int(np.array([x, x], np.float16).view(np.uint32)[0]) for x in (2.0**-12, 1.5 * 2.0**-16)]
    held = engine.upload(np.zeros(32, np.float32), "sums")
    kernel = engine.kernel(one_product(), "rounding", [held, *(np.int32(h) for h in halves)])
    kernel.on(engine.stream, (32,), (32,))()
    engine.stream.finish()
    value = float(_read(engine, held, np.float32, 32)[0])
    return [f"{'truncates' if value == 1 else 'rounds to nearest' if value == 1 + 2.0**-23 else 'neither'}: {value!r}"]


def builds(engine: Engine, quick: bool) -> list[str]:
    """Say what a build costs: of a kernel with PTX, where the device takes it, else of one without."""
    name = "matmul/matmul_gpu_vectors.cl" if _why_not(engine) else "matmul/matmul_nvidia.cl"
    entry, options = Path(name).stem, binaries.options_for(engine.info.features, False)
    text = f"// {time.time_ns()}\n{kernel_text(name)}"
    start = time.perf_counter()
    program = binaries.build(engine._context, engine._handle, text, options, entry)
    built = time.perf_counter() - start
    binary = binaries.to_binary(program)
    start = time.perf_counter()
    again = binaries.from_binary(engine._context, engine._handle, binary, options)
    loaded = time.perf_counter() - start
    head = binary[:48].decode("latin-1").replace("\n", " ")
    return [
        f"{entry}: {built:.3f} s from the text",
        f"{loaded:.3f} s from {len(binary)} bytes, {'taken' if again else 'refused'}",
        f"the binary begins with {head!r}",
    ]


def tiles(engine: Engine, quick: bool) -> list[str]:
    """Say how fast each tile makes a square product, and its error in the first rows."""
    if why := _why_not(engine):
        return [why]
    found = []
    for size in SIZES[:1] if quick else SIZES[1:]:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
        for tile in TILES:
            try:
                found.append(_tile(engine, tile, a, b, 2 if quick else 10))
            except (ClgraphError, *engine.failures) as error:
                found.append(f"{tile.unit} {size}: refused: {str(error).splitlines()[0][:100]}")
    return found


def tile_plan(tile: PtxTile, size: int, info: DeviceInfo) -> tuple[DType, Plan]:
    """Return the type of the elements, and what the implementation plans for y = a b, with b's terms side by side."""
    dtype, shape = DType.F16 if tile.product == F16 else DType.F32, (size, size)
    layouts = (Layout(dtype, shape), Layout(dtype, shape, Format((1, 0))))
    query = Query(MatMul(), layouts, (Layout(dtype, shape),), info, 2, constant=frozenset({1}))
    return dtype, _PRODUCTS[tile.product].plan_in(query, Tiling(tile, 1, 0.0))


def _tile(engine: Engine, tile: PtxTile, a: Any, b: Any, runs: int) -> str:
    """Time a tile."""
    size = len(a)
    dtype, plan = tile_plan(tile, size, engine.info)
    a, b = a.astype(dtype.numpy), b.astype(dtype.numpy)
    held = {"in0": engine.upload(a, "a"), "in1": engine.upload(b.T, "b"), "out0": engine.allocate(a.nbytes, "y")}
    held |= {f"scratch{i}": engine.allocate(n, "scratch") for i, n in enumerate(plan.scratch)}
    launches = [_bound(engine, step, held) for step in plan.steps]
    for once in launches:
        once()
    engine.stream.finish()
    start = time.perf_counter()
    for once in launches * runs:
        once()
    engine.stream.finish()
    seconds = (time.perf_counter() - start) / runs
    got = _read(engine, held["out0"], dtype.numpy, size * size).reshape(size, size)[:16].astype(np.float64)
    want = a[:16].astype(np.float64) @ b.astype(np.float64)
    error = float(np.abs(got - want).max() / np.abs(want).max())
    return f"{tile.unit} {size}: {seconds * 1e3:.3f} ms, {2 * size**3 / seconds / 1e12:.1f} TFLOP/s, error {error:.1e}"


def _bound(engine: Engine, step: Step, held: dict[str, Memory]) -> Callable[[], Any]:
    """Return what enqueues *step* with its tensors among *held*, to which it adds the tables."""
    assert isinstance(step, Launch)
    args: list[Any] = []
    for argument in step.args:
        if isinstance(argument, Table):
            held[f"table{len(held)}"] = memory = engine.upload(np.array(argument.values, np.int32), "a table")
            args.append(memory)
        elif isinstance(argument, str):
            args += [held.get(argument, held["out0"]), np.int64(0)]
        else:
            args.append(np.float32(argument) if isinstance(argument, float) else np.int32(argument))
    kernel = engine.kernel(f"{step.jit}{kernel_text(step.source)}", step.entry, args)
    return kernel.on(engine.stream, step.grid, step.group)


def _why_not(engine: Engine) -> str | None:
    missing = SM80 - engine.info.features
    return f"not asked: the device has no {', '.join(sorted(missing))}" if missing else None


def _read(engine: Engine, held: Any, dtype: Any, count: int) -> Any:
    array = np.empty(count, dtype)
    engine.stream.read(held, 0, array)
    return array


def write(folder: Path, about: Mapping[str, Any], answers: Mapping[str, list[str]]) -> Path:
    """Write the answers with the conditions they were given under; return the file's path."""
    folder.mkdir(parents=True, exist_ok=True)
    device = "".join(c if c.isalnum() else "-" for c in about["device"].split()[0]).strip("-")
    path = folder / f"{about['date'][:19].replace(':', '')}-{device}-probe.json"
    path.write_text(json.dumps({"conditions": about, "answers": answers}, indent=1) + "\n", encoding="utf-8")
    return path


QUESTIONS: dict[str, Callable[[Engine, bool], list[str]]] = {
    "local": local_memory,
    "grid": grids,
    "launch": launches,
    "rounding": rounding,
    "build": builds,
    "tiles": tiles,
}
"""By the name that ``--only`` takes."""
