"""The models whose plans show what kernels a GPU may be given: networks, products, and a node of each operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from clgraph.compilation.sources import read_source
from clgraph.errors import ClgraphError
from clgraph.graph.topology import Topology
from clgraph.ops.convolution import Convolution
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Quantize
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps
from clgraph.ops.reshape import Reshape
from clgraph.selector.query import DeviceInfo
from clgraph.settings import PRODUCT_PRECISIONS
from tests.support.extreme_shapes import cases
from tests.support.onnx_case import one_node
from tests.support.zoo_text import BERT_BASE, encoder, tokens
from tools.benchmark.cases import load
from tools.gpu_compilers.texts import Text, planned, texts_of

NETWORKS = ("resnet50@1x3x224x224", "resnet50@64x3x224x224", "mobilenet_v3_small", "shufflenet", "yolov8n_320")
SIZES = (64, 256, 1024, 4096)
"""Of square products: small ones are computed in parts."""
STATES = {64: 1, 512: 1, 1024: 8}
"""Of recurrent networks, with their sequences: few states are walked by a group, many made by all."""
Posed = tuple[str, Topology, dict[str, tuple[int, ...]]]


def problems(only: str = "") -> Iterator[Posed]:
    """Yield (name, topology, shapes of inputs), of the names that hold *only*."""
    for name in NETWORKS:
        if only in name:
            model, feeds = load(name)
            yield name, read_source(model, None, None), {n: a.shape for n, a in feeds.items()}
    for heads in (12, 6):
        for batch in (1, 32):
            name = f"encoder_{768 // heads}_{batch}"
            if only in name:
                sizes = replace(BERT_BASE, layers=1, heads=heads, vocabulary=50)
                shapes = {n: a.shape for n, a in tokens(batch, 128, 50).items()}
                yield name, read_source(encoder(sizes, batch, 128), None, None), shapes
    for size in SIZES:
        for kind in ("weights", "rows", "batch"):
            if only in (name := f"gemm_{size}_{kind}"):
                yield name, product_of(size, kind), {}
    for batch in (1, 64):
        if only in (name := f"quantised_{batch}"):
            yield name, quantised(batch), {}
    for cell in ("gru", "lstm"):
        for hidden, batch in STATES.items():
            if only in (name := f"{cell}_{hidden}_{batch}"):
                yield name, recurrent(cell, hidden, batch), {}
    for op, several in cases().items():
        if only in (name := f"operator_{op}"):
            for case in several:
                model, feeds = one_node(
                    op, case.inputs, opset=case.opset, constant=case.constant, outputs=case.outputs, **case.attributes
                )
                yield name, read_source(model, None, None), {n: np.shape(a) for n, a in feeds.items()}


def quantised(batch: int) -> Topology:
    """Return a residual block of convolutions between roundings to 8 bits, and a matrix product behind it."""
    net, rng = Topology(), np.random.default_rng(0)
    net.constant("scale", np.array(0.05, np.float32))
    net.constant("zero", np.array(3, np.int8))

    def rounded(x: str) -> str:
        return net.add(f"{x}_dq", Dequantize(0), net.add(f"{x}_q", Quantize(0), x, "scale", "zero"), "scale", "zero")

    def weights(name: str, *shape: int) -> str:
        net.constant(f"{name}_i", rng.integers(-127, 128, shape, np.int8))
        return net.add(name, Dequantize(0), f"{name}_i", "scale")

    def conv(name: str, x: str, inputs: int, outputs: int, kernel: int) -> str:
        pads = ((kernel // 2,) * 2,) * 2
        w = weights(f"{name}_w", outputs, inputs, kernel, kernel)
        return rounded(net.add(name, Convolution((1, 1), (1, 1), pads), x, w))

    x = rounded(net.input("x", (batch, 256, 28, 28)))
    y = conv("three", conv("one", x, 256, 64, 1), 64, 64, 3)
    x = rounded(net.add("sum", Eltwise("add"), x, conv("wide", y, 64, 256, 1)))
    rows = net.add("rows", Reshape((batch, 256 * 28 * 28)), x)
    net.output(net.add("y", MatMul(), rows, weights("head", 256 * 28 * 28, 64)))
    return net


def recurrent(cell: str, hidden: int, batch: int) -> Topology:
    """Return four tokens of a recurrent network whose inputs are multiplied already."""
    net, rows = Topology(), GATES[cell] * hidden
    ahead = net.input("x", (4, batch, rows))
    r = net.constant("r", np.zeros((1, rows, hidden), np.float32))
    results = ("y", "last", "cells")[: 3 if cell == "lstm" else 2]
    net.add("steps", RecurrentSteps(cell, hidden, linear_before_reset=True), ahead, r, outputs=results)
    for name in results:
        net.output(name)
    return net


def product_of(size: int, kind: str) -> Topology:
    """Return a square product: by constant ``weights``, of two inputs (``rows``), or of two ``batch`` es of them."""
    net = Topology()
    batch = (4,) if kind == "batch" else ()
    a = net.input("a", (*batch, size, size))
    other = np.zeros((size, size), np.float32)
    b = net.constant("b", other) if kind == "weights" else net.input("b", (*batch, size, size))
    net.output(net.add("y", MatMul(), a, b))
    return net


def texts_for(device: DeviceInfo, only: str = "", *, chosen: bool = False) -> Iterator[Text]:
    """Yield the kernels of every problem that such a device takes, in each precision; many come more than once.

    Args:
        chosen: Only those that a model would launch.
    """
    for _, topology, shapes in problems(only):
        for precision in ("f32", "f16", *PRODUCT_PRECISIONS):
            try:
                program = planned(topology, shapes, device, precision)
            except ClgraphError:
                continue
            yield from texts_of(program, chosen=chosen)
