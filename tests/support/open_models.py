"""Models whose sizes are open, or decided by the value of an input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.graphs import FLOAT, INT, graph, model


def open_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str] | None]],
    constants: Mapping[str, Any] | None = None,
) -> onnx.ModelProto:
    """Return a model of *nodes* with result ``y``, of *inputs* with element types and shapes."""
    given = [(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
    return model(graph(nodes, given, [("y", FLOAT, None)], **dict(constants or {})), opset=18)


def reshaping() -> onnx.ModelProto:
    """The shape of a Reshape is an input."""
    return open_model(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Reshape", ["r", "shape"], ["y"])],
        {"x": (FLOAT, ("n", 6)), "shape": (INT, ("k",))},
    )


def convolutions(size: Any = "h") -> onnx.ModelProto:
    """Convolutions with normalizations, as matrices and as depthwise: all kinds of packed weights."""
    random = np.random.default_rng(0)
    channels = 48
    constants: dict[str, Any] = {
        "w0": random.standard_normal((channels, 3, 3, 3)),
        "w1": random.standard_normal((channels, channels, 3, 3)) / 20,
        "w2": random.standard_normal((channels, 1, 3, 3)) / 3,
        "w3": random.standard_normal((2 * channels, channels, 1, 1)) / 7,
        "scale": random.uniform(0.5, 1.5, channels),
        "shift": random.standard_normal(channels),
        "mean": random.standard_normal(channels),
        "var": random.uniform(0.5, 1.5, channels),
        "m": random.standard_normal((2 * channels, 40)) / 10,
    }
    node = helper.make_node
    return open_model(
        [
            node("Conv", ["x", "w0"], ["c0"], pads=[1] * 4),
            node("BatchNormalization", ["c0", "scale", "shift", "mean", "var"], ["b0"]),
            node("Relu", ["b0"], ["r0"]),
            node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4),
            node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["b1"]),
            node("Conv", ["b1", "w2"], ["c2"], pads=[1] * 4, group=channels),
            node("Conv", ["c2", "w3"], ["c3"]),
            node("GlobalAveragePool", ["c3"], ["g"]),
            node("Flatten", ["g"], ["f"]),
            node("MatMul", ["f", "m"], ["y"]),
        ],
        {"x": (FLOAT, ("n", 3, size, "w"))},
        constants={n: a.astype(np.float32) for n, a in constants.items()},
    )


def shapes_of(seed: int, count: int) -> list[tuple[int, ...]]:
    """Return random shapes of the input of :func:`convolutions`."""
    random = np.random.default_rng(seed)
    return [(int(random.integers(1, 3)), 3, *(int(d) for d in random.integers(1, 40, 2))) for _ in range(count)]
