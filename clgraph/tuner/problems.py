"""The problems that are tuned: those of a model, or a standard set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.fusing.fuse_pre_operations import FusePreOperations
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.selection import plain_query
from clgraph.selector.choose import candidates
from clgraph.selector.query import Query, problem_key

_LAST = FusePreOperations.name
"""The pass behind which a program's nodes are the problems, on plain layouts; formats are chosen next."""


def problems(program: Program, context: Context) -> list[Query[Any]]:
    """Return what the nodes of *program*, as it was built, ask of the device's kernels, each problem once.

    The first part of the pipeline is run on *program*. Problems of the host, of general kernels alone and of tensors
    without elements are left out: there is nothing to choose.

    Raises:
        ClgraphError: The program cannot be compiled.
    """
    passes = default_pipeline()
    place = next(i for i, p in enumerate(passes) if p.name == _LAST) + 1
    PassManager(passes[:place]).run(program, context)
    found: dict[str, Query[Any]] = {}
    for node in program:
        q = plain_query(context.query(node))
        sized = all(x.count for x in (*q.inputs, *q.outputs))
        if sized and not node.in_place and not node.primitive.updates and any(not c.general for c in candidates(q)):
            found.setdefault(problem_key(q), q)
    return sorted(found.values(), key=lambda q: -q.primitive.flops(q.own, q.outputs))


def standard() -> Iterator[Topology]:
    """Yield small topologies whose problems show every part of a cost model, what tells most first."""
    yield _convolution(64, 64, (56, 56), 3)
    yield _one(MatMul(), (128, 768), weights=(768, 768))
    yield _convolution(256, 256, (14, 14), 1)
    yield _one(Activation("relu"), (1 << 24,))
    yield _one(Softmax((1,)), (512, 512))
    yield _one(LayerNormalization(-1), (128, 768), weights=(768,))
    yield _one(Pooling("max", (3, 3), (2, 2), (1, 1), ((1, 1), (1, 1))), (1, 64, 112, 112))
    yield _one(Reduce("mean", (2, 3)), (1, 1024, 14, 14))
    yield _one(Transpose((0, 2, 1, 3)), (1, 128, 12, 64))
    yield _one(Eltwise("add"), (1, 256, 56, 56), weights=(1, 256, 1, 1))
    yield _one(Activation("relu"), (1, 64, 56, 56))
    yield _convolution(144, 144, (56, 56), 3, groups=144)
    yield _convolution(3, 32, (224, 224), 3, stride=2)
    yield _one(MatMul(), (1, 2048), weights=(2048, 1024))
    yield _convolution(512, 512, (7, 7), 3)
    yield _convolution(128, 128, (28, 28), 3)
    yield _convolution(128, 128, (56, 56), 3, stride=2)
    yield _convolution(64, 64, (56, 56), 1)


def _convolution(
    channels: int, outputs: int, size: tuple[int, int], window: int, stride: int = 1, groups: int = 1
) -> Topology:
    pad = (window // 2, window // 2)
    p = Convolution((stride, stride), (1, 1), (pad, pad), groups)
    return _one(p, (1, channels, *size), weights=(outputs, channels // groups, window, window))


def _one(primitive: Primitive, shape: tuple[int, ...], weights: tuple[int, ...] | None = None) -> Topology:
    topology = Topology()
    names = [topology.input("x", shape)]
    if weights is not None:
        names.append(topology.constant("w", np.ones(weights, np.float32)))
    topology.output(topology.add("y", primitive, *names))
    return topology
