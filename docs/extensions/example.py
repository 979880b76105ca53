"""The model of the page on passes: small, and something for most passes to do."""

from __future__ import annotations

import numpy as np

from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose

SHAPES = {"x": (1, 32, 32, 3)}


def example() -> Topology:
    """Return a classifier of pictures with channels last, as exporters write them."""
    random = np.random.default_rng(0)
    t = Topology()

    def weights(name: str, *shape: int) -> str:
        drawn = random.standard_normal(shape) / np.prod(shape[1:]) ** 0.5
        return t.constant(name, drawn.astype(np.float32))

    def convolution(name: str, x: str, outputs: int, inputs: int, size: int = 3) -> str:
        pads = ((size // 2, size // 2),) * 2
        return t.add(name, Convolution(pads=pads), x, weights(f"{name}/w", outputs, inputs, size, size))

    x = t.add("nchw", Transpose((0, 3, 1, 2)), t.input("x", ("batch", 32, 32, 3)))
    x = convolution("stem", x, 32, 3)
    statistics = [t.constant(f"norm/{n}", random.uniform(0.5, 1.5, 32).astype(np.float32)) for n in "sbmv"]
    x = t.add("norm", BatchNormalization(), x, *statistics)
    x = stem = t.add("swish", Eltwise("mul"), x, t.add("gate", Activation("sigmoid"), x))
    x = t.add("sum", Eltwise("add"), convolution("block", x, 32, 32), stem)
    x = t.add("relu", Activation("relu"), x)
    x = t.add("both", Concat(1), convolution("left", x, 16, 32, 1), convolution("right", x, 16, 32))
    x = t.add("mean", Reduce("mean", (2, 3)), x)
    x = t.add("flat", Reshape((-1, 32)), x)
    x = t.add("dense", MatMul(), x, weights("dense/w", 32, 10))
    t.output("y", t.add("softmax", Softmax((1,)), x))
    return t
