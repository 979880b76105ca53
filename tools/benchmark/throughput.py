"""Requests a second of many clients: streams and batches beside onnxruntime's threads and OpenVINO's throughput hint.

A closed loop: as many clients as given send a request when they have the results of the one before. Every setting of
every runtime is measured in turn, several rounds; its best round counts, and the best setting of a runtime. An open
loop: requests come by chance at 0.7 times the best rate of onnxruntime, to the best setting of each.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import onnx

import clgraph
from clgraph.cli.progress import working
from clgraph.errors import OptionError
from clgraph.throughput.load import Load, Run, closed_loop, open_loop
from tests.support.zoo_text import MINILM_L6, encoder, tokens
from tools.benchmark.cases import Feeds, load
from tools.benchmark.measuring import Schedule
from tools.benchmark.peers import Options, onnxruntime_options

GOAL = 1.3
"""Requests a second, of the best setting of onnxruntime."""
SHARE = 0.7
"""The rate of the open loop, of onnxruntime's best in the closed one."""
REQUESTS = 64
"""Different ones of each model."""
SHORTEST, LONGEST = 8, 128
"""Lengths of the texts; short ones are more frequent, as in what is searched for: their logarithms are even."""


def _pictures(name: str) -> tuple[onnx.ModelProto, list[Feeds]]:
    model, feeds = load(name)
    random = np.random.default_rng(0)
    return model, [{n: random.standard_normal(a.shape).astype(a.dtype) for n, a in feeds.items()} for _ in range(4)]


def _texts() -> tuple[onnx.ModelProto, list[Feeds]]:
    random = np.random.default_rng(0)
    lengths = np.exp(random.uniform(np.log(SHORTEST), np.log(LONGEST), REQUESTS)).astype(int)
    feeds = [tokens(1, int(n), MINILM_L6.vocabulary, seed=seed) for seed, n in enumerate(lengths)]
    return encoder(MINILM_L6, "batch", "sequence"), feeds


THROUGHPUT: dict[str, Callable[[], tuple[onnx.ModelProto, list[Feeds]]]] = {
    "resnet50": lambda: _pictures("resnet50"),
    "mobilenet_v2": lambda: _pictures("mobilenet_v2"),
    "minilm, mixed lengths": _texts,
}

PAD = {"input_ids": 0, "attention_mask": 0, "token_type_ids": 0}


@dataclass
class ThroughputFigures:
    """What was measured of one model.

    Attributes:
        closed: By runtime and setting, what its best round showed.
        open: By runtime, its best setting and what it showed at ``rate`` requests a second.
    """

    model: str
    threads: int
    clients: int
    closed: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    open: dict[str, tuple[str, dict[str, float]]] = field(default_factory=dict)
    rate: float = 0.0

    def best(self, runtime: str) -> str:
        """Return the setting of *runtime* that served most requests."""
        settings = self.closed[runtime]
        return max(settings, key=lambda name: settings[name]["requests_per_second"])

    def ratio(self, peer: str) -> float:
        """Return clgraph's best rate in times that of *peer*."""
        mine, theirs = (self.closed[r][self.best(r)]["requests_per_second"] for r in ("clgraph", peer))
        return mine / theirs


def measure_throughput(name: str, against: Sequence[str], base: Options, schedule: Schedule) -> ThroughputFigures:
    """Return the figures of the model *name* of ``THROUGHPUT`` with every setting of clgraph and of *against*."""
    model, feeds = THROUGHPUT[name]()
    found = ThroughputFigures(name, base.threads, 4 * base.threads)
    seconds = 5 * schedule.seconds
    with ExitStack() as stack:
        runs = {
            (runtime, setting): run
            for runtime in ("clgraph", *against)
            for setting, run in SETTINGS[runtime](model, feeds, base, stack)
        }
        for (runtime, setting), run in runs.items():
            with working(f"{name}: starting {runtime}, {setting}"):
                for one in feeds:
                    run(one)
                closed_loop(run, feeds, found.clients, seconds / 2)
        loads: dict[tuple[str, str], list[Load]] = {key: [] for key in runs}
        for number in range(min(schedule.rounds, 5)):
            for key in list(runs)[:: 1 if number % 2 else -1]:
                with working(f"{name}: {', '.join(key)}"):
                    loads[key].append(closed_loop(runs[key], feeds, found.clients, seconds))
        for (runtime, setting), each in loads.items():
            best = max(each, key=lambda one: one.requests_per_second)
            found.closed.setdefault(runtime, {})[setting] = asdict(best)
        slowest = "onnxruntime" if "onnxruntime" in against else "clgraph"
        found.rate = SHARE * found.closed[slowest][found.best(slowest)]["requests_per_second"]
        for runtime in found.closed:
            setting = found.best(runtime)
            with working(f"{name}: {runtime}, {found.rate:.1f} requests a second"):
                found.open[runtime] = setting, asdict(open_loop(runs[runtime, setting], feeds, found.rate, 4 * seconds))
    return found


Settings = Iterator[tuple[str, Run]]


def _of_clgraph(model: onnx.ModelProto, feeds: Sequence[Feeds], base: Options, stack: ExitStack) -> Settings:
    """Yield streams of one thread and of all, with and without batches."""
    mixed = len({tuple(a.shape for a in one.values()) for one in feeds}) > 1
    batches = {"": None, ", batches of 4": clgraph.Batching(maximum=4, wait_ms=1)}
    if mixed:
        batches[", batches of 4 filled up to multiples of 8"] = clgraph.Batching(4, 1, PAD, 8)
    for streams in sorted({1, base.threads}):
        for told, batching in batches.items():
            try:
                served = clgraph.compile(
                    model.SerializeToString(),
                    device=base.device,
                    threads=base.threads,
                    hint="throughput",
                    streams=streams,
                    batching=batching,
                )
            except OptionError:
                continue  # its requests cannot be joined
            yield f"{streams} streams{told}", stack.enter_context(served).run


def _of_onnxruntime(model: onnx.ModelProto, feeds: Sequence[Feeds], base: Options, _: ExitStack) -> Settings:
    """Yield one and all threads for an operator, one session and several, one request at a time and as many as run."""
    import onnxruntime

    data = model.SerializeToString()

    def session(threads: int, *, parallel: bool = False) -> Any:
        options = onnxruntime_options(Options(base.device, threads, base.spinning))
        if parallel:
            options.execution_mode, options.inter_op_num_threads = onnxruntime.ExecutionMode.ORT_PARALLEL, base.threads
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])

    def limited(sessions: Sequence[Any], at_once: int | None) -> Run:
        free: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if at_once is None:
            return lambda one: sessions[0].run(None, dict(one))
        for number in range(at_once):
            free.put(sessions[number % len(sessions)])

        def run(one: Mapping[str, Any]) -> Any:
            taken = free.get()
            try:
                return taken.run(None, dict(one))
            finally:
                free.put(taken)

        return run

    cores = base.threads
    whole, single = session(cores), session(1)
    yield f"{cores} threads, one at a time", limited([whole], 1)
    yield f"{cores} threads, all clients at once", limited([whole], None)
    yield f"{cores} threads, operators in parallel", limited([session(cores, parallel=True)], 1)
    if cores > 1:
        yield f"1 thread, {cores} at once", limited([single], cores)
        yield "1 thread, all clients at once", limited([single], None)
        yield f"1 thread, {cores} sessions", limited([single, *(session(1) for _ in range(cores - 1))], cores)


def _of_openvino(model: onnx.ModelProto, feeds: Sequence[Feeds], base: Options, _: ExitStack) -> Settings:
    """Yield the throughput hint, with as many requests at once as it asks for."""
    import openvino

    core = openvino.Core()
    config = {
        "PERFORMANCE_HINT": "THROUGHPUT",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": base.threads,
    }
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", config)
    count = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
    free: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for _number in range(count):
        free.put(compiled.create_infer_request())
    lock = threading.Lock()

    def run(one: Mapping[str, Any]) -> Any:
        with lock:
            taken = free.get()
        try:
            return [np.array(array) for array in taken.infer(dict(one), share_inputs=True).values()]
        finally:
            free.put(taken)

    yield f"throughput hint, {count} requests", run


SETTINGS: dict[str, Callable[[onnx.ModelProto, Sequence[Feeds], Options, ExitStack], Settings]] = {
    "clgraph": _of_clgraph,
    "onnxruntime": _of_onnxruntime,
    "openvino": _of_openvino,
}


def throughput_markdown(found: Sequence[ThroughputFigures]) -> str:
    """Return a table of the closed loop, with every setting, and one of the open loop."""
    return "\n".join([*_closed(found), "", *_open(found)])


def _closed(found: Sequence[ThroughputFigures]) -> Iterator[str]:
    yield "| model | runtime | setting | requests/s | p50 ms | p99 ms | CPU ms | of onnxruntime's best |"
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        peer = max((s["requests_per_second"] for s in one.closed.get("onnxruntime", {}).values()), default=0.0)
        for runtime, settings in one.closed.items():
            for setting, load_of in settings.items():
                rate = load_of["requests_per_second"]
                ratio = rate / peer if peer else 0.0
                shown = f"{ratio:.2f}" if ratio >= GOAL or runtime != "clgraph" else f"**{ratio:.2f}** (≥ {GOAL})"
                best = "" if setting != one.best(runtime) else shown
                name = f"{one.model}, {one.threads} threads, {one.clients} clients"
                yield (
                    f"| {name} | {runtime} | {setting} | {rate:.1f} | "
                    f"{load_of['p50'] * 1e3:.1f} | {load_of['p99'] * 1e3:.1f} | {load_of['cpu_seconds'] * 1e3:.2f} | "
                    f"{best} |"
                )


def _open(found: Sequence[ThroughputFigures]) -> Iterator[str]:
    yield "| model | requests/s that come by chance | runtime | setting | served/s | p50 ms | p99 ms |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        for runtime, (setting, load_of) in one.open.items():
            yield (
                f"| {one.model} | {one.rate:.1f} | {runtime} | {setting} | {load_of['requests_per_second']:.1f} | "
                f"{load_of['p50'] * 1e3:.1f} | {load_of['p99'] * 1e3:.1f} |"
            )
