"""Cold starts: what a fresh process takes from its start to the first result of a model, and how much memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

import clgraph
from clgraph.compilation.cache_files import SETTLED_SECONDS
from clgraph.errors import ClgraphError
from tools.benchmark.cases import load
from tools.benchmark.peers import Options

_ROOT = Path(__file__).resolve().parents[2]

_COMPILE = {
    "clgraph": """
import clgraph
shapes = {name: array.shape for name, array in feeds.items()}
config = {"model_cache": 0}
compiled = clgraph.compile(model, device=device, shapes=shapes, threads=workers, config=config)
compiled.run(feeds)
""",
    "clgraph cached": """
import clgraph
shapes = {name: array.shape for name, array in feeds.items()}
clgraph.compile(model, device=device, shapes=shapes, threads=workers).run(feeds)
""",
    "clgraph saved": """
import clgraph
clgraph.load(model + ".clg", device=device, threads=workers).run(feeds)
""",
    "onnxruntime": """
import onnxruntime
onnxruntime.set_default_logger_severity(3)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)
""",
    "openvino": """
import openvino
core = openvino.Core()
read = core.read_model(model)
read.reshape({name: list(array.shape) for name, array in feeds.items()})
config = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
core.compile_model(read, "CPU", config).create_infer_request().infer(feeds)
""",
}

_CHILD = """
import json, sys, time
import numpy as np
model, inputs, device = sys.argv[1:4]
threads, workers = int(sys.argv[4]), int(sys.argv[5]) or None
feeds = dict(np.load(inputs))
{compile}
result_at = time.time()
status = open("/proc/self/status", encoding="utf-8").read() if sys.platform == "linux" else ""
peak = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0)
print(json.dumps([result_at, peak]))
"""


@dataclass(frozen=True)
class Start:
    """Cold starts of one runtime.

    Attributes:
        seconds, best: Median and best of the processes' wall clocks, until they have ended.
        peak_bytes: Their peak memory.
        to_result: Median of the wall clock until the first result is there, without the end of the process, in which
            Python takes down all that was imported; 0 where it was not measured.
    """

    model: str
    runtime: str
    seconds: float
    best: float
    peak_bytes: int
    to_result: float = 0.0


CLGRAPH = ("clgraph", "clgraph cached", "clgraph saved")
"""clgraph's ways: from the ``.onnx`` file, from the same file in the automatic model cache, from a saved model."""


def cold_starts(name: str, runtimes: Sequence[str], options: Options, repeats: int = 5) -> list[Start]:
    """Return the starts of *runtimes* with one model from its file, in turn; the first of each is not counted.

    What clgraph keeps in its cache folder is there from the first on: its library of kernels and, for the way that uses
    it, the compiled model.

    Raises:
        ClgraphError: The model cannot be had, or a process fails; its last line is in the message.
    """
    model, feeds = load(name)
    with tempfile.TemporaryDirectory() as folder:
        path, inputs = Path(folder, "model.onnx"), Path(folder, "inputs.npz")
        onnx.save(model, path)
        np.savez(inputs, allow_pickle=False, **feeds)
        # The model cache serves files that have been left alone for a while.
        time.sleep(SETTLED_SECONDS + 0.1)
        if "clgraph saved" in runtimes:
            shapes = {name: array.shape for name, array in feeds.items()}
            made = clgraph.compile(str(path), device=options.device, shapes=shapes, threads=options.workers)
            made.save(f"{path}.clg")
            made.close()
        del model
        arguments = [str(path), str(inputs), options.device, str(options.threads), str(options.workers or 0)]
        times: dict[str, list[float]] = {r: [] for r in runtimes}
        results: dict[str, list[float]] = {r: [] for r in runtimes}
        peaks = dict.fromkeys(runtimes, 0)
        for _ in range(repeats + 1):
            for runtime in runtimes:
                begun, start = time.time(), time.perf_counter()
                result_at, peak = _run(runtime, arguments)
                times[runtime].append(time.perf_counter() - start)
                results[runtime].append(result_at - begun)
                peaks[runtime] = max(peaks[runtime], peak)
    median = statistics.median
    return [
        Start(name, r, median(t[1:]), min(t[1:]), peaks[r], to_result=median(results[r][1:])) for r, t in times.items()
    ]


def _run(runtime: str, arguments: Sequence[str]) -> tuple[float, int]:
    """Run a fresh process; return when it had its result, in seconds of ``time.time``, and its peak memory."""
    code = _CHILD.format(compile=_COMPILE[runtime])
    # Without compiled modules on disk, Python takes longer for its own than what is measured.
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=_ROOT, check=False)
    if done.returncode:
        raise ClgraphError(f"a fresh process of {runtime} failed: {done.stderr.strip().splitlines()[-1:]}")
    result_at, peak = json.loads(done.stdout.splitlines()[-1])
    return float(result_at), int(peak)


def starts_markdown(starts: Sequence[Start]) -> str:
    """Return the starts as a table, with clgraph's time and memory relative to onnxruntime's."""
    lines = [
        "| model | runtime | seconds | best | of onnxruntime's | to the result | of onnxruntime's | peak MiB "
        "| of onnxruntime's |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    theirs = {s.model: s for s in starts if s.runtime == "onnxruntime"}
    for s in starts:
        peer = theirs.get(s.model)
        peak = f"{s.peak_bytes / 2**20:.0f}" if s.peak_bytes else ""
        other = peer is not None and s is not peer
        ratio = f"{s.seconds / peer.seconds:.2f}" if other and peer else ""
        memory = f"{s.peak_bytes / peer.peak_bytes:.2f}" if other and peer and peer.peak_bytes else ""
        first = f"{s.to_result:.2f}" if s.to_result else ""
        firsts = f"{s.to_result / peer.to_result:.2f}" if other and peer and peer.to_result else ""
        lines.append(
            f"| {s.model} | {s.runtime} | {s.seconds:.2f} | {s.best:.2f} | {ratio} | {first} | {firsts} | {peak} "
            f"| {memory} |"
        )
    return "\n".join(lines)
