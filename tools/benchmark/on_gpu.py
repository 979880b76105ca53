"""Measuring on a GPU: models beside torch in the same process, and matrix products; an error beside every time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

import clgraph
from clgraph.debugging.compare import relative_distance
from clgraph.errors import ClgraphError
from clgraph.runtime.device import find_device
from clgraph.selector.query import PTX, SM80
from tests.support.zoo_text import BERT_BASE, encoder, tokens
from tools.benchmark.bandwidth import read_bandwidth
from tools.benchmark.cases import Feeds, load
from tools.benchmark.measuring import usable_cores
from tools.benchmark.on_torch import to_torch
from tools.benchmark.peers import installed
from tools.benchmark.quantised import INT8, by_onnxruntime, load_int8

Run = Callable[[], None]
"""Runs a model once on what lies on the device; returns when it is done."""
PRECISIONS = ("f32", "tf32x3", "f16x3", "f16")
_NEEDED = {"tf32x3": SM80, "f16x3": PTX}
TORCH = ("eager", "graph", "compiled")
FIRST = (
    *("resnet50@64x3x224x224 f32", "resnet50@64x3x224x224 f16", "resnet50@1x3x224x224 f16", "bert_base_32x128 f16"),
    *("resnet50-int8@64x3x224x224 f16", "gemm_8192 f16", "gemm_8192 f32", "nbits_16384x1 f16"),
)
"""Cases with goals: they are measured first, because time on a GPU may end early."""
_PACKED_BYTES = 4 / 8 + 4 / 32
"""Of a weight of 4 bits, with its part of a scale in float32."""


@dataclass(frozen=True)
class Case:
    """One model, what it computes in, and the arithmetic of a run, or the bytes it reads, where that is the question.

    Attributes:
        read: Bytes of weights that a run reads at least, where it hardly does more.
    """

    name: str
    precision: str
    flops: float = 0.0
    read: float = 0.0

    @property
    def title(self) -> str:
        """Name and precision."""
        return f"{self.name} {self.precision}"


@dataclass(frozen=True)
class Timed:
    """What was measured of one case: seconds a run by runtime, and the errors of their results.

    Attributes:
        missing: Why a runtime has no figure.
        bandwidth: Bytes a second that the device reads from its memory, where the case reads mostly.
    """

    case: Case
    seconds: dict[str, float]
    errors: dict[str, float]
    missing: dict[str, str] = field(default_factory=dict)
    bandwidth: float = 0.0


def cases(quick: bool, only: str = "") -> list[Case]:
    """Return what is measured: ResNet-50, also in 8 bits, BERT, square products, rows times weights of 4 bits.

    Those with goals come first; with *quick*, the smallest of each.

    Args:
        only: A title, or a part of some.
    """
    batches, sizes = ((1,), (256,)) if quick else ((1, 8, 64), (4096, 8192))
    found = [Case(f"resnet50@{n}x3x224x224", p) for n in batches for p in PRECISIONS]
    if not quick:
        found += [Case("bert_base_32x128", p) for p in PRECISIONS]
    found += [Case(f"gemm_{n}", p, 2.0 * n**3) for n in sizes for p in PRECISIONS]
    found += [Case(f"resnet50-int8@{n}x3x224x224", p) for n in batches for p in ("f32", "f16")]
    # Of one row, also weights that no cache holds.
    for size, rows in [(sizes[0], 1)] if quick else [(4096, 1), (16384, 1), (4096, 128)]:
        read = _PACKED_BYTES * size**2 if rows == 1 else 0.0
        found += [Case(f"nbits_{size}x{rows}", p, 2.0 * rows * size**2, read) for p in ("f32", "f16")]
    found.sort(key=lambda case: FIRST.index(case.title) if case.title in FIRST else len(FIRST))
    return [case for case in found if case.title == only] or [case for case in found if only in case.title]


def taken(found: Sequence[Case], device: str) -> list[Case]:
    """Return the cases whose precision *device* has: two are about matrix units of NVIDIA's."""
    features = find_device(device).info.features
    return [case for case in found if features >= _NEEDED.get(case.precision, frozenset())]


def load_case(case: Case) -> tuple[onnx.ModelProto, Feeds]:
    """Return the model and its inputs."""
    kind, _, rest = case.name.partition("_")
    if kind == "gemm":
        return product_of(int(rest), np.dtype(np.float16 if case.precision == "f16" else np.float32))
    if kind == "nbits":
        size, _, rows = rest.partition("x")
        return packed_product_of(int(size), int(rows))
    if kind == "bert":
        return encoder(BERT_BASE, 32, 128), tokens(32, 128)
    if case.name.partition("@")[0].endswith(INT8):
        return load_int8(case.name)
    return load(case.name)


def product_of(size: int, dtype: np.dtype[Any]) -> tuple[onnx.ModelProto, Feeds]:
    """Return a model that multiplies a square matrix by a constant one; both and the result are of *dtype*."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((size, size)) / size**0.5).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    values = [helper.make_tensor_value_info(n, kind, [size, size]) for n in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model, {"x": rng.standard_normal((size, size)).astype(dtype)}


def packed_product_of(size: int, rows: int) -> tuple[onnx.ModelProto, Feeds]:
    """Return a model that multiplies *rows* of floats by a square matrix of 4 bits, a scale for each 32 of a column."""
    rng = np.random.default_rng(0)
    packed = rng.integers(0, 256, (size, size // 32, 16)).astype(np.uint8)
    scales = rng.uniform(0.1, 0.3, (size, size // 32)).astype(np.float32) / np.float32(size**0.5)
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [rows, size]) for n in "xy"]
    attributes = {"K": size, "N": size, "bits": 4, "block_size": 32, "domain": "com.microsoft"}
    node = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], **attributes)
    held = [numpy_helper.from_array(packed, "w"), numpy_helper.from_array(scales, "s")]
    graph = helper.make_graph([node], "packed", values[:1], values[1:], held)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return model, {"x": rng.standard_normal((rows, size)).astype(np.float32)}


def measure_case(case: Case, device: str, rounds: int, torch_device: str = "cuda") -> Timed:
    """Return the times of *case* with clgraph and, where torch is installed, with torch's three ways, in turn.

    Raises:
        ClgraphError: clgraph does not run it; what torch does not run is noted.
    """
    model, feeds = load_case(case)
    runs: dict[str, Run] = {}
    results: dict[str, list[NDArray[Any]]] = {}
    missing: dict[str, str] = {}
    runs["clgraph"], results["clgraph"] = _with_clgraph(model, feeds, case.precision, device)
    if installed("torch") is None:
        missing = dict.fromkeys(TORCH, "torch is not installed")
    else:
        for way in TORCH:
            try:
                runs[way], results[way] = _with_torch(model, feeds, case.precision, way, torch_device)
            except (RuntimeError, ClgraphError) as error:
                missing[way] = str(error).splitlines()[0]
    times: dict[str, list[float]] = {name: [] for name in runs}
    for i in range(rounds):
        for name in list(runs) if i % 2 == 0 else list(runs)[::-1]:
            times[name].append(_seconds(runs[name]))
    exact = _exact(model, feeds, case, results)
    errors = {} if exact is None else {name: _error(found, exact) for name, found in results.items()}
    bandwidth = read_bandwidth(device, usable_cores()) if case.read else 0.0
    return Timed(case, {name: statistics.median(t) for name, t in times.items()}, errors, missing, bandwidth)


def _with_clgraph(model: onnx.ModelProto, feeds: Feeds, precision: str, device: str) -> tuple[Run, list[NDArray[Any]]]:
    """Return how to run on tensors that stay on the device, and the results."""
    shapes = {name: array.shape for name, array in feeds.items()}
    compiled = clgraph.compile(model, device=device, shapes=shapes, precision=precision)
    held = {name: clgraph.Tensor(array, device) for name, array in feeds.items()}
    results = list(compiled.run(feeds).values())
    places = compiled.run(held, tensors=True)

    def run() -> None:
        compiled.run(held, places, tensors=True)

    return run, results


def _with_torch(
    model: onnx.ModelProto, feeds: Feeds, precision: str, way: str, device: str
) -> tuple[Run, list[NDArray[Any]]]:
    """Return how to run, and the results; float32 is strict, as clgraph's is, but for ``tf32x3``."""
    import torch

    half = precision == "f16"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32x3"
    torch.backends.cudnn.benchmark = True
    torch.set_default_dtype(torch.float16 if half else torch.float32)
    inputs = []
    for array in feeds.values():
        tensor = torch.from_numpy(array).to(device)
        tensor = tensor.half() if half and tensor.is_floating_point() else tensor
        inputs.append(tensor.contiguous(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor)
    function = to_torch(model, torch, device=device, half=half)
    if way == "compiled":
        function = torch.compile(function, mode="max-autotune")
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.inference_mode():
        for _ in range(3):
            found = function(*inputs)
    once = _captured(torch, function, inputs) if way == "graph" else lambda: function(*inputs)

    def run() -> None:
        with torch.inference_mode():
            once()
        wait()

    return run, [y.float().cpu().numpy() for y in found]


def _captured(torch: Any, function: Any, inputs: list[Any]) -> Run:
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        function(*inputs)
    replay: Run = graph.replay
    return replay


def _seconds(run: Run) -> float:
    """Return the median time of runs that last a fifth of a second together, after two that do not count."""
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.2 and len(times) < 500):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def _exact(model: onnx.ModelProto, feeds: Feeds, case: Case, results: dict[str, Any]) -> list[NDArray[Any]] | None:
    """Return what results are compared with: NumPy's float64 for products, ONNX Runtime's for 8 bits, else torch's."""
    if case.flops:
        weights = _weights(model)
        (x,) = feeds.values()
        return [x[:64].astype(np.float64) @ weights]
    if case.name.partition("@")[0].endswith(INT8):
        return by_onnxruntime(model, feeds)
    found: list[NDArray[Any]] | None = results.get("eager")
    return found


def _weights(model: onnx.ModelProto) -> NDArray[Any]:
    """Return the weights ``[K, N]`` of a product in float64; those of 4 bits are low-order bits first, around 8."""
    weights, *scales = (numpy_helper.to_array(i) for i in model.graph.initializer)
    if not scales:
        return weights.astype(np.float64)
    whole = np.stack([weights & 15, weights >> 4], -1).reshape(*weights.shape[:2], -1).astype(np.float64) - 8
    floats: NDArray[Any] = (whole * scales[0][..., None]).reshape(len(weights), -1).T
    return floats


def _error(found: Sequence[NDArray[Any]], exact: Sequence[NDArray[Any]]) -> float:
    """Return the largest difference, relative to the largest value, in the rows that *exact* has."""
    return max(relative_distance(np.asarray(a)[: len(b)], b) for a, b in zip(found, exact, strict=True))


def gpu_markdown(found: Sequence[Timed]) -> str:
    """Return a table: milliseconds, for products TFLOP/s, shares of the memory's bandwidth, and the errors."""
    names = ["clgraph", *TORCH]
    lines = ["| model | precision | " + " | ".join(names) + " |", "|---" * (2 + len(names)) + "|"]
    for timed in found:
        cells = []
        for name in names:
            if name not in timed.seconds:
                cells.append(timed.missing.get(name, "not measured"))
                continue
            seconds = timed.seconds[name]
            rate = f", {timed.case.flops / seconds / 1e12:.1f} TFLOP/s" if timed.case.flops else ""
            if timed.bandwidth:
                read = timed.case.read / seconds
                share = f"{read / timed.bandwidth:.0%} of {timed.bandwidth / 1e9:.1f}"
                rate += f", {read / 1e9:.1f} GB/s of weights, {share}"
            error = f", error {timed.errors[name]:.1e}" if name in timed.errors else ""
            cells.append(f"{seconds * 1e3:.3f} ms{rate}{error}")
        lines.append(f"| {timed.case.name} | {timed.case.precision} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
