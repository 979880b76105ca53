"""Small models, whose latency is what a run costs beside its kernels: voice activity, wake words, recurrent layers.

They have the shapes of models that programs run every 10 to 80 ms, with random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Array = NDArray[Any]
Made = tuple[onnx.ModelProto, dict[str, Array]]

OPSET = 17
RATE = 16000
"""Samples a second at which the voice detector takes its first branch."""


class _Graph:
    """Nodes and constants in the order they are added; names begin with *prefix*."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix, self.nodes, self.constants = prefix, list[onnx.NodeProto](), list[onnx.TensorProto]()
        self._rng = np.random.default_rng(0)

    def weights(self, *shape: int, terms: int = 0) -> str:
        """Add random numbers that keep sums of so many *terms*, those of the last axis by default, near 1."""
        return self.constant((self._rng.standard_normal(shape) / np.sqrt(terms or shape[-1])).astype(np.float32))

    def constant(self, array: Array) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(array, f"{self.prefix}c{len(self.constants)}"))
        return str(self.constants[-1].name)

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or the names of its *outputs*."""
        names = [f"{self.prefix}v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def recurrent(
        self, x: str, inputs: int, hidden: int, op_type: str = "LSTM", state: Sequence[str] = ()
    ) -> list[str]:
        """Add a recurrent layer of one direction over x [steps, batch, inputs]; return all and the last states."""
        gates, states = (4, 3) if op_type == "LSTM" else (3, 2)
        weights = [self.weights(1, gates * hidden, n) for n in (inputs, hidden)]
        given = [x, *weights, self.weights(1, 2 * gates * hidden), *([""] if state else []), *state]
        every, *last = self.node(op_type, *given, outputs=states, hidden_size=hidden)
        return [self.node("Squeeze", every, self.constant(np.array([1]))), *last]

    def model(self, feeds: dict[str, Array], results: dict[str, str]) -> Made:
        """Return the model that makes *results*, names of values by outputs' names, of *feeds*."""
        for name, value in results.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self.nodes,
            "small",
            [_declared(n, array) for n, array in feeds.items()],
            [onnx.ValueInfoProto(name=name) for name in results],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        inferred = onnx.shape_inference.infer_shapes(model)
        for made, found in zip(model.graph.output, inferred.graph.output, strict=True):
            made.CopyFrom(found)
        return model, feeds


def _declared(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _normal(*shape: int) -> Array:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def recurrent(op_type: str, steps: int, batch: int = 1, hidden: int = 128, layers: int = 2) -> Made:
    """Return recurrent layers over [steps, batch, 64]."""
    graph, x, inputs = _Graph(), "x", 64
    for _ in range(layers):
        x, inputs = graph.recurrent(x, inputs, hidden, op_type)[0], hidden
    return graph.model({"x": _normal(steps, batch, 64)}, {"y": x})


def voice_detector() -> Made:
    """Return one step of a voice detector: filters and a cell whose state goes round, once for each rate of samples."""
    branches = [_detector(f"{rate}_", window) for rate, window in (("wide", 256), ("narrow", 128))]
    graph = _Graph()
    whole = graph.node("Equal", "rate", graph.constant(np.array(RATE)))
    probability, h, c = graph.node("If", whole, outputs=3, then_branch=branches[0], else_branch=branches[1])
    feeds = {"samples": _normal(1, 576), "h": _normal(1, 1, 128), "c": _normal(1, 1, 128), "rate": np.array(RATE)}
    return graph.model(feeds, {"probability": probability, "next_h": h, "next_c": c})


def _detector(prefix: str, window: int) -> onnx.GraphProto:
    graph = _Graph(prefix)
    x = graph.node("Unsqueeze", "samples", graph.constant(np.array([1])))
    x = graph.node("Conv", x, graph.weights(window + 2, 1, window), strides=[window // 2])
    channels = window + 2
    for made, stride in ((128, 1), (64, 2), (64, 2), (128, 1)):
        filtered = graph.node(
            "Conv",
            x,
            graph.weights(made, channels, 3, terms=3 * channels),
            graph.weights(made),
            pads=[1, 1],
            strides=[stride],
        )
        x, channels = graph.node("Relu", filtered), made
    mean = graph.node("ReduceMean", x, axes=[2], keepdims=0)
    step = graph.node("Unsqueeze", mean, graph.constant(np.array([0])))
    _, h, c = graph.recurrent(step, channels, 128, state=("h", "c"))
    flat = graph.node("Relu", graph.node("Squeeze", h, graph.constant(np.array([0]))))
    probability = graph.node("Sigmoid", graph.node("Gemm", flat, graph.weights(1, 128), graph.weights(1), transB=1))
    outputs = [onnx.ValueInfoProto(name=name) for name in (probability, h, c)]
    return helper.make_graph(graph.nodes, prefix, [], outputs, graph.constants)


def wake_word(layers: int = 3, width: int = 128) -> Made:
    """Return a classifier of 16 embeddings of 96 numbers: products, each normalised, and a probability."""
    graph, inputs = _Graph(), 16 * 96
    x = graph.node("Reshape", "x", graph.constant(np.array([-1, inputs])))
    for _ in range(layers):
        x = graph.node("Gemm", x, graph.weights(width, inputs), graph.weights(width), transB=1)
        inputs = width
        x = graph.node("LayerNormalization", x, graph.weights(width), graph.weights(width))
        x = graph.node("Relu", x)
    probability = graph.node("Sigmoid", graph.node("Gemm", x, graph.weights(1, width), graph.weights(1), transB=1))
    return graph.model({"x": _normal(1, 16, 96)}, {"probability": probability})


def _cases() -> Iterator[tuple[str, Callable[[], Made]]]:
    yield "voice detector", voice_detector
    yield "wake word", wake_word
    for steps in (16, 50, 100):
        yield f"LSTM 2x128, {steps} steps", lambda n=steps: recurrent("LSTM", n)
    yield "LSTM 2x128, 100 steps of 8", lambda: recurrent("LSTM", 100, 8)
    yield "GRU 2x128, 50 steps", lambda: recurrent("GRU", 50)


SMALL: dict[str, Callable[[], Made]] = dict(_cases())
"""What makes a model and its inputs, by title."""
