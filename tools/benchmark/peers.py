"""The runtimes that are compared: each compiles a model and returns a function that runs it once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import clgraph
from clgraph.runtime.device import find_device, with_class
from clgraph.settings import settings
from tools.benchmark.cases import Feeds

Run = Callable[[], list[NDArray[Any]]]


@dataclass(frozen=True)
class Options:
    """How the runtimes are set up.

    Attributes:
        device: clgraph's.
        threads: Of every runtime that computes on a CPU.
        spinning: Whether the peers' idle threads spin for a while, which is their default.
    """

    device: str
    threads: int
    spinning: bool = True

    @property
    def workers(self) -> int | None:
        """What clgraph is told of threads: nothing on a GPU, of which all compute units work."""
        found = with_class(find_device(self.device), settings().device_class)
        return None if found.info.kind == "gpu" else self.threads


def with_clgraph(model: onnx.ModelProto, feeds: Feeds, options: Options) -> Run:
    shapes = {name: array.shape for name, array in feeds.items()}
    compiled = clgraph.compile(model, device=options.device, shapes=shapes, threads=options.workers)
    return lambda: list(compiled.run(feeds).values())


def with_onnxruntime(model: onnx.ModelProto, feeds: Feeds, options: Options) -> Run:
    import onnxruntime

    runtime = onnxruntime.InferenceSession(
        model.SerializeToString(), onnxruntime_options(options), providers=["CPUExecutionProvider"]
    )
    return lambda: runtime.run(None, feeds)


def onnxruntime_options(options: Options) -> Any:
    """Return onnxruntime's session options."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    session = onnxruntime.SessionOptions()
    session.intra_op_num_threads, session.inter_op_num_threads = options.threads, 1
    session.add_session_config_entry("session.intra_op.allow_spinning", "1" if options.spinning else "0")
    return session


def with_openvino(model: onnx.ModelProto, feeds: Feeds, options: Options) -> Run:
    request = openvino_request(model, feeds, options)
    return lambda: [np.array(array) for array in request.infer(feeds).values()]


def openvino_request(model: onnx.ModelProto, feeds: Feeds, options: Options, **more: Any) -> Any:
    """Return OpenVINO's inference request for the shapes of *feeds*; *more* is configuration."""
    import openvino

    core = openvino.Core()
    read = core.read_model(model.SerializeToString())
    read.reshape({name: list(array.shape) for name, array in feeds.items()})
    config = {
        "INFERENCE_NUM_THREADS": options.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    return core.compile_model(read, "CPU", config | more).create_infer_request()


RUNTIMES: dict[str, Callable[[onnx.ModelProto, Feeds, Options], Run]] = {
    "clgraph": with_clgraph,
    "onnxruntime": with_onnxruntime,
    "openvino": with_openvino,
}
PEERS = tuple(name for name in RUNTIMES if name != "clgraph")


def installed(package: str) -> str | None:
    """Return the version of *package*, ``None`` when it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
