"""Random models of open sizes, as exporters write them: sizes are read from shapes, computed with, clamped, and fed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.support.graphs import FLOAT, INT, graph, model

Dim = int | str
"""A size, or the name of one that is open."""


class OpenGraph:
    """A graph in the making: values with the open sizes that they have, as far as they are known by name."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self._random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[tuple[str, int, tuple[Dim, ...]]] = []
        self.shapes: dict[str, tuple[Dim, ...]] = {}

    def input(self, name: str, *shape: Dim) -> str:
        self.inputs.append((name, FLOAT, shape))
        self.shapes[name] = shape
        return name

    def constant(self, array: Any) -> str:
        name = f"k{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def weights(self, *shape: int) -> str:
        scale = max(1.0, float(np.prod(shape[1:]) if len(shape) == 4 else shape[0]) ** 0.5)
        return self.constant((self._random.standard_normal(shape) / scale).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def value(self, shape: tuple[Dim, ...], op: str, *inputs: str, **attributes: Any) -> str:
        name = self.add(op, *inputs, **attributes)
        self.shapes[name] = shape
        return name

    def size(self, value: str, axis: int) -> str:
        """Return what holds the size of *axis*, a tensor of one element."""
        return self.add("Gather", self.add("Shape", value), self.ints(axis), axis=0)

    def made(self) -> onnx.ModelProto:
        """Return the model: what nothing reads are its outputs."""
        read = {name for node in self.nodes for name in node.input}
        ends = [name for name in self.shapes if name not in read and name not in {n for n, *_ in self.inputs}]
        whole = graph(self.nodes, self.inputs, [(name, FLOAT, None) for name in ends], **self.constants)
        return model(whole, opset=18)


def random_text_model(seed: int, steps: int = 6) -> onnx.ModelProto:
    """Return a model of a sequence ``x`` [n, s, 24]: products, heads, masks, tables, cuts and joins along the axes."""
    g = OpenGraph(seed)
    g.input("x", "n", "s", 24)
    values = [g.value(("n", "s", 24), "Relu", "x")]
    for _ in range(steps):
        made = g.pick.choice(_TEXT)(g, g.pick.choice(values[-2:]))
        values += [made] if made else []
    return g.made()


def random_picture_model(seed: int, steps: int = 6) -> onnx.ModelProto:
    """Return a model of pictures ``x`` [n, 8, h, w]: windows, resizing to other values' sizes, joins, sequences."""
    g = OpenGraph(seed)
    g.input("x", "n", 8, "h", "w")
    values = [g.value(("n", 8, "h", "w"), "Conv", "x", g.weights(8, 8, 3, 3), pads=[1] * 4)]
    for _ in range(steps):
        values.append(g.pick.choice(_PICTURES)(g, g.pick.choice(values[-2:])))
    if g.pick.random() < 0.5:
        flat = g.add("Reshape", values[-1], g.ints(0, 8, -1))
        g.value(("n", "?", 8), "Softmax", g.add("Transpose", flat, perm=[0, 2, 1]), axis=1)
    return g.made()


def picture_step(g: OpenGraph, x: str) -> str:
    """Add one step of a model of pictures."""
    return g.pick.choice(_PICTURES)(g, x)


def _dense(g: OpenGraph, x: str) -> str:
    y = g.add("MatMul", x, g.weights(24, 24))
    return g.value(g.shapes[x], "Add", y, g.weights(24))


def _normalized(g: OpenGraph, x: str) -> str:
    return g.value(g.shapes[x], "LayerNormalization", x, g.weights(24), g.weights(24), axis=-1)


def _residual(g: OpenGraph, x: str) -> str:
    return g.value(g.shapes[x], "Add", x, g.add("Tanh", x))


def _heads(g: OpenGraph, x: str) -> str:
    """Attention of 3 heads, of shapes that are put together from the sizes."""
    n, s = g.size(x, 0), g.size(x, 1)
    shape = g.add("Concat", n, s, g.ints(3), g.ints(8), axis=0)
    q, k, v = (g.add("Reshape", g.add("MatMul", x, g.weights(24, 24)), shape) for _ in range(3))
    q, v = (g.add("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
    scores = g.add("MatMul", q, g.add("Transpose", k, perm=[0, 2, 3, 1]))
    heads = g.add("MatMul", g.add("Softmax", scores, axis=-1), v)
    back = g.add("Transpose", heads, perm=[0, 2, 1, 3])
    return g.value(g.shapes[x], "Reshape", back, g.add("Concat", n, s, g.ints(24), axis=0))


def _positions(g: OpenGraph, x: str) -> str:
    """A table of positions, cut at the length."""
    most = g.pick.choice([40, 512, 600])
    part = g.add("Slice", g.weights(most, 24), g.ints(0), g.size(x, 1), g.ints(0))
    return g.value(g.shapes[x], "Add", x, part)


def _counted(g: OpenGraph, x: str) -> str:
    """Positions that are counted, looked up, and cast."""
    one = g.constant(np.int64(1))
    length = g.add("Squeeze", g.size(x, 1), g.ints(0))
    places = g.add("Range", g.constant(np.int64(0)), length, one)
    if g.pick.random() < 0.5:
        return g.value(g.shapes[x], "Add", x, g.add("Gather", g.weights(512, 24), places))
    column = g.add("Unsqueeze", g.add("Cast", places, to=FLOAT), g.ints(1))
    return g.value(g.shapes[x], "Mul", x, g.add("Cos", column))


def embedded_step(g: OpenGraph, x: str) -> str:
    """Positions, and the first row of a table of types for every place."""
    sizes = g.add("Concat", g.size(x, 0), g.size(x, 1), axis=0)
    zeros = g.add("ConstantOfShape", sizes, value=helper.make_tensor("v", INT, [1], [0]))
    position = g.add("Slice", g.weights(600, 24), g.ints(0), g.size(x, 1), g.ints(0))
    both = g.value(g.shapes[x], "Add", x, position)
    return g.value(g.shapes[x], "Add", both, g.add("Gather", g.weights(2, 24), zeros))


def _clamped(g: OpenGraph, x: str) -> str:
    """The first 50 places, or 512, and all again behind them."""
    first = g.add("Slice", x, g.ints(0), g.ints(g.pick.choice([50, 512])), g.ints(1))
    both = g.add("Concat", first, x, axis=1)
    return g.value(g.shapes[x], "Slice", both, g.ints(0), g.size(x, 1), g.ints(1))


def _halves(g: OpenGraph, x: str) -> str:
    """Half of the length cut off and put behind the rest."""
    half = g.add("Div", g.size(x, 1), g.ints(2))
    head = g.add("Slice", x, g.ints(0), half, g.ints(1))
    tail = g.add("Slice", x, half, g.ints(1 << 40), g.ints(1))
    return g.value(g.shapes[x], "Concat", tail, head, axis=1)


def _last(g: OpenGraph, x: str) -> str:
    """The last place, repeated for all."""
    end = g.add("Slice", x, g.ints(-1), g.ints(1 << 40), g.ints(1))
    whole = g.add("Expand", end, g.add("Shape", x))
    return g.value(g.shapes[x], "Add", x, whole)


def _masked(g: OpenGraph, x: str) -> str:
    """A mask below the diagonal, made of the length."""
    s = g.size(x, 1)
    ones = g.add("ConstantOfShape", g.add("Concat", s, s, axis=0), value=helper.make_tensor("v", FLOAT, [1], [1.0]))
    lower = g.add("Trilu", ones, upper=0)
    return g.value(g.shapes[x], "MatMul", lower, x)


def _averaged(g: OpenGraph, x: str) -> str:
    """A sum over the length divided by the length."""
    total = g.add("ReduceSum", x, g.ints(1), keepdims=1)
    mean = g.add("Div", total, g.add("Cast", g.size(x, 1), to=FLOAT))
    return g.value(g.shapes[x], "Sub", x, mean)


def _folded(g: OpenGraph, x: str) -> str:
    """Batch and length as one axis, and back."""
    flat = g.add("Reshape", x, g.ints(-1, 24))
    y = g.add("Sigmoid", g.add("MatMul", flat, g.weights(24, 24)))
    return g.value(g.shapes[x], "Reshape", y, g.add("Shape", x))


def _split(g: OpenGraph, x: str) -> str:
    """Cut in three along the features, and joined in another order."""
    names = [f"v{len(g.nodes)}_{i}" for i in range(3)]
    g.nodes.append(helper.make_node("Split", [x], names, axis=2, num_outputs=3))
    return g.value(g.shapes[x], "Concat", *reversed(names), axis=2)


def _tiled(g: OpenGraph, x: str) -> str:
    """Repeated along the batch and cut off again."""
    twice = g.add("Tile", x, g.ints(2, 1, 1))
    return g.value(g.shapes[x], "Slice", twice, g.size(x, 0), g.ints(1 << 40), g.ints(0))


def _padded(g: OpenGraph, x: str) -> str:
    longer = g.add("Pad", x, g.ints(0, 1, 0, 0, 2, 0))
    return g.value(g.shapes[x], "Slice", longer, g.ints(1), g.ints(-2), g.ints(1))


def _scaled(g: OpenGraph, x: str) -> str:
    """Divided by the root of the length."""
    return g.value(g.shapes[x], "Div", x, g.add("Sqrt", g.add("Cast", g.size(x, 1), to=FLOAT)))


_TEXT: tuple[Callable[[OpenGraph, str], str], ...] = (
    _dense, _normalized, _residual, _heads, _heads, _positions, _counted, _clamped, _halves, _last, _masked,
    _averaged, _folded, _split, _tiled, _padded, _scaled,
)  # fmt: skip


def _conv(g: OpenGraph, x: str) -> str:
    k, s = g.pick.choice([(1, 1), (3, 1), (3, 2), (5, 1), (2, 2)])
    y = g.add("Conv", x, g.weights(8, 8, k, k), strides=[s, s], pads=[k // 2] * 4)
    return g.value(("n", 8, "?", "?"), g.pick.choice(["Relu", "Sigmoid", "HardSwish"]), y)


def _depthwise(g: OpenGraph, x: str) -> str:
    k, s = g.pick.choice([(3, 1), (3, 2), (5, 2)])
    w = g.weights(8, 1, k, k)
    return g.value(("n", 8, "?", "?"), "Conv", x, w, strides=[s, s], pads=[k // 2] * 4, group=8)


def _pooled(g: OpenGraph, x: str) -> str:
    op, ceil = g.pick.choice(["MaxPool", "AveragePool"]), g.pick.choice([0, 1])
    return g.value(("n", 8, "?", "?"), op, x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=ceil)


def _gated(g: OpenGraph, x: str) -> str:
    gate = g.add("Conv", g.add("GlobalAveragePool", x), g.weights(8, 8, 1, 1))
    return g.value(g.shapes[x], "Mul", x, g.add("HardSigmoid", gate))


def _resized(g: OpenGraph, x: str) -> str:
    """Twice as large, and back to the size that a value before had."""
    mode = g.pick.choice(["nearest", "linear"])
    twice = g.add("Resize", x, "", g.constant(np.array([1, 1, 2, 2], np.float32)), mode=mode)
    small = g.add("Conv", twice, g.weights(8, 8, 3, 3), pads=[1] * 4)
    sizes = g.add(
        "Concat", g.add("Slice", g.add("Shape", small), g.ints(0), g.ints(2)), g.size(x, 2), g.size(x, 3), axis=0
    )
    return g.value(g.shapes[x], "Resize", small, "", "", sizes, mode=mode)


def _skipped(g: OpenGraph, x: str) -> str:
    """Halved, brought back to the size, and joined with what it was before."""
    down = g.add("Conv", x, g.weights(8, 8, 3, 3), strides=[2, 2], pads=[1] * 4)
    sizes = g.add(
        "Concat", g.add("Slice", g.add("Shape", down), g.ints(0), g.ints(2)), g.size(x, 2), g.size(x, 3), axis=0
    )
    up = g.add("Resize", down, "", "", sizes, mode="nearest")
    both = g.add("Concat", up, x, axis=1)
    return g.value(("n", 8, "?", "?"), "Conv", both, g.weights(8, 16, 1, 1))


def _stripes(g: OpenGraph, x: str) -> str:
    """Attention over all places as one sequence, and back to the sides."""
    sequence = g.add("Transpose", g.add("Reshape", x, g.ints(0, 8, -1)), perm=[0, 2, 1])
    y = g.add("Softmax", g.add("MatMul", sequence, g.weights(8, 8)), axis=-1)
    return g.value(g.shapes[x], "Reshape", g.add("Transpose", y, perm=[0, 2, 1]), g.add("Shape", x))


def _turned(g: OpenGraph, x: str) -> str:
    y = g.add("Softmax", g.add("Transpose", x, perm=[0, 1, 3, 2]), axis=-1)
    return g.value(g.shapes[x], "Mul", x, g.add("Transpose", y, perm=[0, 1, 3, 2]))


def _transposed_conv(g: OpenGraph, x: str) -> str:
    return g.value(("n", 8, "?", "?"), "ConvTranspose", x, g.weights(8, 8, 2, 2), strides=[2, 2])


def _added(g: OpenGraph, x: str) -> str:
    return g.value(g.shapes[x], "Add", x, g.add("Conv", x, g.weights(8, 8, 3, 3), pads=[1] * 4))


def _columns(g: OpenGraph, x: str) -> str:
    """The mean of each column, laid over all rows."""
    return g.value(g.shapes[x], "Mul", x, g.add("ReduceMean", x, g.ints(2), keepdims=1))


_PICTURES: tuple[Callable[[OpenGraph, str], str], ...] = (
    _conv, _conv, _depthwise, _pooled, _gated, _resized, _skipped, _stripes, _turned, _transposed_conv, _added,
    _columns,
)  # fmt: skip
