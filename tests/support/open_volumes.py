"""Random models of volumes of open sizes: windows of every kind over three axes, one behind the other."""

from __future__ import annotations

import numpy as np
import onnx

from tests.support.open_graphs import OpenGraph

_SHAPE = ("n", 4, "d", "h", 6)


def random_volume_model(seed: int, steps: int = 3) -> onnx.ModelProto:
    """Return a model of volumes ``x`` [n, 4, d, h, 6], with a first convolution and *steps* others between ReLUs."""
    g = OpenGraph(seed)
    value = g.value(_SHAPE, "Conv", g.input("x", *_SHAPE), g.weights(4, 4, 3, 3, 3), pads=[1] * 6)
    for _ in range(steps):
        value = g.value(_SHAPE, "Relu", g.pick.choice(_STEPS)(g, value))
    return g.made()


def _windows(g: OpenGraph) -> dict[str, list[int]]:
    """Draw strides, and pads of less than a window."""
    return {"strides": [g.pick.choice((1, 2)) for _ in range(3)], "pads": [g.pick.choice((0, 1)) for _ in range(6)]}


def _convolved(g: OpenGraph, x: str) -> str:
    groups = g.pick.choice((1, 2, 4))
    more = {"auto_pad": "SAME_UPPER", "strides": [2, 1, 2]} if g.pick.random() < 0.3 else _windows(g)
    return g.add("Conv", x, g.weights(4, 4 // groups, 3, 3, 3), group=groups, **more)


def _pooled(g: OpenGraph, x: str) -> str:
    op, more = g.pick.choice(("MaxPool", "AveragePool")), {"ceil_mode": g.pick.choice((0, 0, 1))}
    if op == "AveragePool":
        more["count_include_pad"] = g.pick.choice((0, 1))
    return g.add(op, x, kernel_shape=[g.pick.choice((2, 3)) for _ in range(3)], **_windows(g), **more)


def _enlarged(g: OpenGraph, x: str) -> str:
    groups = g.pick.choice((1, 1, 4))
    drawn = _windows(g)
    more = [g.pick.choice((0, s - 1)) for s in drawn["strides"]]
    return g.add("ConvTranspose", x, g.weights(4, 4 // groups, 3, 3, 3), group=groups, output_padding=more, **drawn)


def _resized(g: OpenGraph, x: str) -> str:
    scales = g.constant(np.float32([1, 1, *(g.pick.choice((1, 1.5, 2)) for _ in range(3))]))
    return g.add("Resize", x, "", scales, mode=g.pick.choice(("linear", "nearest")))


_STEPS = (_convolved, _pooled, _enlarged, _resized)
