"""Random nets: of joined, cut and reshaped tensors, and of the operators of image models."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.convolution import Convolution
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from tests.support.programs import ADD, MUL, RELU, Net


@st.composite
def joined(draw):
    """Nets with concats, cuts and reshapes, nested and with several readers, of convolutions and activations.

    On integers, sums of a tensor with itself stand for both: at most six in a row, so that 3 * 2**6 fits in a byte.
    """
    net = Net()
    size, batch = draw(st.integers(1, 9)), draw(st.sampled_from([1, 1, 1, 2]))
    dtype = draw(st.sampled_from([np.float32] * 3 + [np.int32, np.uint8, np.int64]))
    floating = dtype == np.float32

    def made(name, x):
        return net.add(name, RELU, x) if floating else net.add(name, ADD, x, x)

    values = {}
    for i in range(draw(st.integers(2, 5))):
        channels = draw(st.one_of(st.integers(1, 260), st.sampled_from([16, 32, 48, 64])))
        x = net.input(f"x{i}", (batch, channels, size, size), dtype)
        plain = not floating or draw(st.booleans())
        name = made(f"p{i}", x) if plain else net.conv(f"p{i}", x, channels, channels)
        values[name] = (batch, channels, size, size)
    for i in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["concat", "concat", "split", "reshape", "conv", "relu"]))
        name, shape = draw(st.sampled_from(sorted(values.items())))
        if kind == "concat":
            axis = draw(st.sampled_from([1, 1, 1, 0, 2]))
            fits = [n for n, s in values.items() if s[:axis] + s[axis + 1 :] == shape[:axis] + shape[axis + 1 :]]
            chosen = draw(st.lists(st.sampled_from(sorted(fits)), min_size=1, max_size=5))
            total = sum(values[n][axis] for n in chosen)
            values[net.concat(f"c{i}", *chosen, axis=axis)] = (*shape[:axis], total, *shape[axis + 1 :])
        elif kind == "split" and shape[1] > 1:
            cut = draw(st.one_of(st.integers(1, shape[1] - 1), st.just(min(16, shape[1] - 1))))
            net.add(f"s{i}", Split(1, (cut, shape[1] - cut)), name, outputs=(f"s{i}a", f"s{i}b"))
            values[f"s{i}a"] = (shape[0], cut, *shape[2:])
            values[f"s{i}b"] = (shape[0], shape[1] - cut, *shape[2:])
        elif kind == "reshape":
            net.add(f"r{i}", Reshape((shape[0], shape[1], 1, shape[2] * shape[3])), name)
            values[f"r{i}"] = (shape[0], shape[1], 1, shape[2] * shape[3])
        elif kind == "conv" and floating:
            values[net.conv(f"v{i}", name, shape[1], shape[1], kernel=draw(st.sampled_from([1, 3])))] = shape
        else:
            values[made(f"a{i}", name)] = shape
    read = {n for layer in net.layers for n in layer.inputs}
    return net, [n for n in values if n not in read] or [sorted(values)[0]]


@st.composite
def networks(draw):
    """Nets of the operators of image models, with odd sizes, pads, strides, several readers and several outputs."""
    net = Net()
    size = draw(st.integers(3, 14))
    channels = draw(st.sampled_from([1, 3, 8, 16, 17, 32, 48]))
    shape = (draw(st.sampled_from([1, 1, 2])), channels, size, draw(st.integers(3, 14)))
    values = {net.input("x", shape): shape}
    for i in range(draw(st.integers(1, 9))):
        name, shape = draw(st.sampled_from(list(values.items())[-4:]))
        kind = draw(st.sampled_from(_KINDS))
        values.update(_layer(draw, net, values, f"n{i}", kind, name, shape))
    read = {n for layer in net.layers for n in layer.inputs}
    outputs = [n for n in values if n not in read and n != "x"]
    extra = draw(st.lists(st.sampled_from([n for n in values if n != "x"]), max_size=1)) if len(values) > 1 else []
    return net, list(dict.fromkeys([*outputs, *extra])) or ["x"]


_KINDS = ("conv", "conv", "conv", "depthwise", "pool", "mean", "relu", "unary", "add", "gate", "norm", "concat", "turn")
_UNARY = (
    Activation("hard_swish", 1 / 6, 0.5),
    Activation("swish", 1.0),
    Activation("sigmoid"),
    Activation("clip", 0.0, 6.0),
)


def _layer(draw, net: Net, values, label: str, kind: str, name: str, shape) -> dict[str, tuple[int, ...]]:
    n, c, h, w = shape
    if kind == "conv":
        out, k, s = (
            draw(st.sampled_from([1, 8, 16, 20, 32])),
            draw(st.sampled_from([1, 3, 5])),
            draw(st.sampled_from([1, 1, 2])),
        )
        pads = tuple((draw(st.integers(0, k // 2)), draw(st.integers(0, k // 2 + 1))) for _ in range(2))
        if min(h + sum(pads[0]), w + sum(pads[1])) < k:
            return {}
        weights = [net.data(f"{label}_w", out, c, k, k)] + (
            [net.data(f"{label}_b", out)] if draw(st.booleans()) else []
        )
        net.add(label, Convolution((s, s), (1, 1), pads), name, *weights)
        sizes = ((d + sum(p) - k) // s + 1 for d, p in zip((h, w), pads, strict=True))
        return {label: (n, out, *sizes)}
    if kind == "depthwise":
        net.add(label, Convolution((1, 1), (1, 1), ((1, 1), (1, 1)), c), name, net.data(f"{label}_w", c, 1, 3, 3))
        return {label: shape}
    if kind == "pool" and min(h, w) >= 2:
        function = draw(st.sampled_from(["max", "average"]))
        net.add(label, Pooling(function, (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), name)
        return {label: (n, c, h // 2, w // 2)}
    if kind == "mean":
        net.add(label, Reduce("mean", (2, 3)), name)
        return {label: (n, c, 1, 1)}
    if kind in ("relu", "unary"):
        net.add(label, RELU if kind == "relu" else draw(st.sampled_from(_UNARY)), name)
        return {label: shape}
    if kind == "add":
        other = draw(st.sampled_from([v for v, s in values.items() if s == shape]))
        net.add(label, ADD, name, other)
        return {label: shape}
    if kind == "gate":
        gate = net.add(f"{label}_s", Activation("sigmoid"), net.add(f"{label}_m", Reduce("mean", (2, 3)), name))
        net.add(label, MUL, name, gate)
        return {label: shape}
    if kind == "norm":
        statistics = [net.data(f"{label}_{v}", c) for v in "sbm"]
        net.add(label, BatchNormalization(), name, *statistics, net.data(f"{label}_v", c, low=0.5))
        return {label: shape}
    if kind == "concat":
        fits = [v for v, s in values.items() if (s[0], *s[2:]) == (n, h, w)]
        parts = draw(st.lists(st.sampled_from(fits), min_size=1, max_size=3))
        net.concat(label, name, *parts)
        return {label: (n, c + sum(values[p][1] for p in parts), h, w)}
    if kind == "turn":
        net.add(label, Transpose((0, 1, 3, 2)), name)
        return {label: (n, c, w, h)}
    return {}
