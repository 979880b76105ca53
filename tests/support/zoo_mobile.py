"""Image classifiers for small devices, as exporters write them, with random weights."""

from __future__ import annotations

import onnx

from tests.support.graph_writer import GraphWriter

V2_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, repeats, stride (Sandler et al. 2018, table 2)."""

V3_SMALL_BLOCKS = (
    (3, 16, 16, True, "Relu", 2),
    (3, 72, 24, False, "Relu", 2),
    (3, 88, 24, False, "Relu", 1),
    (5, 96, 40, True, "HardSwish", 2),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 240, 40, True, "HardSwish", 1),
    (5, 120, 48, True, "HardSwish", 1),
    (5, 144, 48, True, "HardSwish", 1),
    (5, 288, 96, True, "HardSwish", 2),
    (5, 576, 96, True, "HardSwish", 1),
    (5, 576, 96, True, "HardSwish", 1),
)
"""Kernel, expanded channels, channels, squeeze and excitation, activation, stride (Howard et al. 2019, table 2)."""

B0_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)
"""Expansion, channels, repeats, stride, kernel (Tan and Le 2019, table 1)."""


def rounded(channels: float) -> int:
    """Return the multiple of 8 next to *channels*, as these networks are scaled."""
    return max(8, int(channels + 4) // 8 * 8)


def mobilenet_v2(
    size: int = 224, width: float = 1.0, classes: int = 1000, normalized: bool = False, seed: int = 0
) -> onnx.ModelProto:
    """Return MobileNetV2: ReLU6 as Clip, batch normalizations folded or (*normalized*) nodes of their own."""
    g = GraphWriter("mobilenet_v2", seed)

    def relu6(x: str) -> str:
        return g.add("Clip", x, g.number(0), g.number(6))

    channels = rounded(32 * width)
    x = relu6(g.conv(g.input("x", (1, 3, size, size)), 3, channels, 3, 2, normalized=normalized))
    for expansion, base, repeats, first in V2_STAGES:
        for i in range(repeats):
            hidden, outputs, stride = channels * expansion, rounded(base * width), first if i == 0 else 1
            y = x if expansion == 1 else relu6(g.conv(x, channels, hidden, normalized=normalized))
            y = relu6(g.conv(y, hidden, hidden, 3, stride, hidden, normalized=normalized))
            y = g.conv(y, hidden, outputs, gain=1.0, normalized=normalized)
            x = g.add("Add", x, y) if stride == 1 and channels == outputs else y
            channels = outputs
    last = max(1280, rounded(1280 * width)) if width >= 1 else rounded(1280 * width)
    x = relu6(g.conv(x, channels, last, normalized=normalized))
    x = g.add("Flatten", g.add("GlobalAveragePool", x), axis=1)
    return g.model(g.linear(x, last, classes))


def mobilenet_v3_small(
    size: int = 224, width: float = 1.0, classes: int = 1000, spelling: str = "HardSigmoid", seed: int = 0
) -> onnx.ModelProto:
    """Return MobileNetV3-small.

    Args:
        spelling: Of hard swish: the operator ``HardSwish``, ``HardSigmoid`` times x, or ``Clip`` (x * clip(x + 3) / 6).
    """
    g = GraphWriter("mobilenet_v3_small", seed)

    def activation(x: str, function: str) -> str:
        if function == "Relu" or spelling == "HardSwish":
            return g.add(function, x)
        if spelling == "HardSigmoid":
            return g.add("Mul", x, g.add("HardSigmoid", x, alpha=1 / 6))
        gate = g.add("Clip", g.add("Add", x, g.number(3)), g.number(0), g.number(6))
        return g.add("Div", g.add("Mul", x, gate), g.number(6))

    channels = rounded(16 * width)
    x = activation(g.conv(g.input("x", (1, 3, size, size)), 3, channels, 3, 2), "HardSwish")
    for kernel, expanded, base, squeezed, function, stride in V3_SMALL_BLOCKS:
        hidden, outputs = rounded(expanded * width), rounded(base * width)
        y = x if hidden == channels else activation(g.conv(x, channels, hidden), function)
        y = activation(g.conv(y, hidden, hidden, kernel, stride, hidden), function)
        if squeezed:
            inner = rounded(hidden / 4)
            gate = g.add("Relu", g.conv(g.add("GlobalAveragePool", y), hidden, inner))
            y = g.add("Mul", g.add("HardSigmoid", g.conv(gate, inner, hidden), alpha=1 / 6), y)
        y = g.conv(y, hidden, outputs, gain=1.0)
        x = g.add("Add", y, x) if stride == 1 and channels == outputs else y
        channels = outputs
    last, features = rounded(576 * width), rounded(1024 * width)
    x = activation(g.conv(x, channels, last), "HardSwish")
    x = g.add("Flatten", g.add("GlobalAveragePool", x), axis=1)
    x = activation(g.linear(x, last, features), "HardSwish")
    return g.model(g.linear(x, features, classes))


def efficientnet_b0(size: int = 224, width: float = 1.0, classes: int = 1000, seed: int = 0) -> onnx.ModelProto:
    """Return EfficientNet-B0: swish as Sigmoid times x, squeeze and excitation over a ReduceMean."""
    g = GraphWriter("efficientnet_b0", seed)

    def swish(x: str) -> str:
        return g.add("Mul", x, g.add("Sigmoid", x))

    channels = rounded(32 * width)
    x = swish(g.conv(g.input("x", (1, 3, size, size)), 3, channels, 3, 2))
    for expansion, base, repeats, first, kernel in B0_STAGES:
        for i in range(repeats):
            hidden, outputs, stride = channels * expansion, rounded(base * width), first if i == 0 else 1
            y = x if expansion == 1 else swish(g.conv(x, channels, hidden))
            y = swish(g.conv(y, hidden, hidden, kernel, stride, hidden))
            inner = max(1, channels // 4)
            gate = g.add("ReduceMean", y, axes=[2, 3], keepdims=1)
            gate = g.conv(swish(g.conv(gate, hidden, inner)), inner, hidden)
            y = g.conv(g.add("Mul", y, g.add("Sigmoid", gate)), hidden, outputs, gain=1.0)
            x = g.add("Add", y, x) if stride == 1 and channels == outputs else y
            channels = outputs
    last = rounded(1280 * width)
    x = g.add("GlobalAveragePool", swish(g.conv(x, channels, last)))
    return g.model(g.linear(g.add("Flatten", x, axis=1), last, classes))
