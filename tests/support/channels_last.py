"""Graphs as exporters from TensorFlow write them: NHWC tensors, and each convolution between two transposes."""

from __future__ import annotations

import random

import numpy as np

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from tests.support.programs import Net

TO_NCHW, TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)
KINDS = ("block", "block", "pool", "joined", "cut", "padded", "larger", "gate", "added", "softmax", "scaled")
KINDS += ("quantized", "turned")


class ChannelsLast(Net):
    """A net of NHWC tensors; every method takes and returns the name of one, of which ``shapes`` has the shape."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self._count = 0
        self.shapes = {self.input("x", shape): shape}

    def name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def between(self, x: str, inner) -> str:
        """Wrap *inner*, which takes and returns NCHW, in a pair of transposes."""
        made = inner(self.add(self.name("to_nchw"), Transpose(TO_NCHW), x))
        return self.add(self.name("to_nhwc"), Transpose(TO_NHWC), made)

    def block(self, x: str, out: int, kernel: int = 3) -> str:
        """Add convolution, bias and relu."""
        n, h, w, c = self.shapes[x]
        made = self.between(x, lambda v: self.conv(self.name("conv"), v, c, out, kernel))
        made = self.add(self.name("bias"), Eltwise("add"), made, self.data(self.name("b"), out))
        return self.keep(self.add(self.name("relu"), Activation("relu"), made), (n, h, w, out))

    def pool(self, x: str) -> str:
        n, h, w, c = self.shapes[x]
        pool = Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0)))
        return self.keep(self.between(x, lambda v: self.add(self.name("pool"), pool, v)), (n, h // 2, w // 2, c))

    def joined(self, *parts: str) -> str:
        shapes = [self.shapes[p] for p in parts]
        made = self.add(self.name("concat"), Concat(3), *parts)
        return self.keep(made, (*shapes[0][:3], sum(s[3] for s in shapes)))

    def cut(self, x: str, first: int) -> tuple[str, str]:
        shape = self.shapes[x]
        a, b = self.name("cut"), self.name("cut")
        self.add(self.name("split"), Split(3, (first, shape[3] - first)), x, outputs=(a, b))
        return self.keep(a, (*shape[:3], first)), self.keep(b, (*shape[:3], shape[3] - first))

    def padded(self, x: str) -> str:
        n, h, w, c = self.shapes[x]
        made = self.add(self.name("pad"), Pad(((0, 0), (1, 0), (2, 1), (0, 0))), x)
        return self.keep(made, (n, h + 1, w + 3, c))

    def larger(self, x: str) -> str:
        n, h, w, c = self.shapes[x]
        resize = Resize("nearest", shape=(n, 2 * h, 2 * w, c), scales=(1.0, 2.0, 2.0, 1.0))
        return self.keep(self.add(self.name("resize"), resize, x), (n, 2 * h, 2 * w, c))

    def gate(self, x: str) -> str:
        """Multiply by the sigmoid of the mean over height and width."""
        mean = self.add(self.name("mean"), Reduce("mean", (1, 2)), x)
        sigmoid = self.add(self.name("sigmoid"), Activation("sigmoid"), mean)
        return self.keep(self.add(self.name("gate"), Eltwise("mul"), x, sigmoid), self.shapes[x])

    def added(self, a: str, b: str) -> str:
        return self.keep(self.add(self.name("add"), Eltwise("add"), a, b), self.shapes[a])

    def softmax(self, x: str) -> str:
        """Softmax over the channels."""
        return self.keep(self.add(self.name("softmax"), Softmax((3,)), x), self.shapes[x])

    def scaled(self, x: str) -> str:
        """Multiply by a constant of rank 1 and one of rank 3."""
        _, h, _, c = self.shapes[x]
        made = self.add(self.name("mul"), Eltwise("mul"), self.data(self.name("k"), c), x)
        made = self.add(self.name("mul"), Eltwise("mul"), made, self.data(self.name("k"), h, 1, 1))
        return self.keep(made, self.shapes[x])

    def quantized(self, x: str) -> str:
        """Round to 8 bits and back, as a QDQ model does beside every operator."""
        scale = self.constant(self.name("scale"), np.array(0.05, np.float32))
        zero = self.constant(self.name("zero"), np.array(3, np.int8))
        whole = self.add(self.name("q"), Quantize(1, dtype=DType.I8), x, scale, zero)
        return self.keep(self.add(self.name("dq"), Dequantize(), whole, scale, zero), self.shapes[x])

    def classes(self, x: str, count: int) -> str:
        """Add global mean, squeeze, product and softmax: the end of a classifier."""
        n, _, _, c = self.shapes[x]
        flat = self.add(self.name("squeeze"), Reshape((n, c)), self.add(self.name("mean"), Reduce("mean", (1, 2)), x))
        made = self.add(self.name("shift"), Eltwise("add"), flat, self.data(self.name("b"), c))
        return self.keep(self.add(self.name("softmax"), Softmax((1,)), made), (n, c))

    def keep(self, name: str, shape: tuple[int, ...]) -> str:
        self.shapes[name] = shape
        return name


def random_net(seed: int) -> tuple[ChannelsLast, list[str]]:
    """Return a net of random blocks, and results of it."""
    pick = random.Random(seed)
    net = ChannelsLast(pick.choice([1, 2]), pick.choice([4, 6]), pick.choice([4, 8]), pick.choice([1, 3, 5]))
    for _ in range(pick.randrange(1, 10)):
        x = pick.choice(list(net.shapes)[-3:])
        if len(net.shapes[x]) != 4:
            continue
        n, h, w, c = net.shapes[x]
        kind = pick.choice(KINDS)
        if kind == "block":
            net.block(x, pick.choice([2, 4]), pick.choice([1, 3]))
        elif kind == "cut" and c > 1:
            net.cut(x, pick.randrange(1, c))
        elif kind == "pool" and min(h, w) >= 2:
            net.pool(x)
        elif kind in ("joined", "added"):
            same = 3 if kind == "joined" else 4
            alike = [v for v, s in net.shapes.items() if len(s) == 4 and s[:same] == (n, h, w, c)[:same]]
            getattr(net, kind)(x, pick.choice(alike))
        elif kind == "turned":
            axes = pick.choice([TO_NCHW, TO_NHWC, (0, 2, 1, 3)])
            net.keep(net.add(net.name("turn"), Transpose(axes), x), tuple(net.shapes[x][a] for a in axes))
        elif kind == "larger" and h * w < 200:
            net.larger(x)
        elif kind in ("padded", "gate", "softmax", "scaled", "quantized"):
            getattr(net, kind)(x)
    read = {n for layer in net.layers for n in layer.inputs}
    ends = [n for n in net.shapes if n not in read and n != "x"]
    return net, ends or [net.block("x", 2)]
