"""Estimates are no ten times off: choices follow them. Where one is, its formula or the kernel is at fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.network.profile import is_far_off
from tests.support.graph_writer import GraphWriter

pytestmark = [pytest.mark.opencl, pytest.mark.slow]

RUNS = 9
"""The shortest time counts: the machine does other things, too."""

BY_TRAFFIC = ("pad.ref ", "reorder.ref ", "shuffle.ref ")
"""General kernels that are known to take longer than the traffic that all general kernels are estimated by."""

Write = Callable[[GraphWriter, str, int], str]
"""Adds an operator behind a tensor of [1, 32, s, s] floats; *s* comes last."""


def _slice(starts: list[int], ends: list[int], steps: list[int]) -> Write:
    def write(w: GraphWriter, x: str, s: int) -> str:
        axes = range(4 - len(starts), 4)
        return w.add("Slice", x, *(w.integers(*v) for v in (starts, ends, axes, steps)))

    return write


def _node(op_type: str, **attributes: object) -> Write:
    return lambda w, x, s: w.add(op_type, x, **attributes)


def _pair(op_type: str, *shape: int) -> Write:
    """Return a writer of *op_type* on x and a constant of *shape*, in which -1 stands for the size."""
    return lambda w, x, s: w.add(op_type, x, w.constant(np.full([s if n < 0 else n for n in shape], 0.5, np.float32)))


END = 1 << 30
OPERATORS: dict[str, Write] = {
    **{kind: _node(kind) for kind in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sqrt", "HardSwish", "Softplus", "Sin")},
    **{f"{kind} of rows": _pair(kind, -1) for kind in ("Add", "Mul", "Max", "Pow")},
    "Add of channels": _pair("Add", 1, 32, 1, 1),
    "Mul of columns": _pair("Mul", 1, 1, -1, 1),
    "Slice of every second element": _slice([0], [END], [2]),
    "Slice of every second pixel": _slice([0, 0], [END, END], [2, 2]),
    "Slice backwards": _slice([-1], [-END], [-1]),
    "Slice of channels": _slice([4, 0, 0], [20, END, END], [1, 1, 1]),
    "Slice of columns": _slice([1], [4], [1]),
    "Split": lambda w, x, s: w.split("Split", x, results=4, axis=1)[1],
    "Concat of channels": lambda w, x, s: w.add("Concat", x, w.add("Relu", x), axis=1),
    "Concat of columns": lambda w, x, s: w.add("Concat", x, w.add("Relu", x), axis=3),
    "Transpose of rows and columns": _node("Transpose", perm=[0, 1, 3, 2]),
    "Transpose to channels last": _node("Transpose", perm=[0, 2, 3, 1]),
    "Transpose of the first axes": _node("Transpose", perm=[2, 1, 0, 3]),
    "Pad": lambda w, x, s: w.add("Pad", x, w.integers(0, 0, 1, 2, 0, 0, 3, 4)),
    "Pad by reflection": lambda w, x, s: w.add("Pad", x, w.integers(0, 0, 1, 2, 0, 0, 3, 4), mode="reflect"),
    "Tile": lambda w, x, s: w.add("Tile", x, w.integers(1, 1, 2, 2)),
    "Expand": lambda w, x, s: w.add("Expand", x, w.integers(4, 32, s, s)),
    "Gather of rows": lambda w, x, s: w.add("Gather", x, w.integers(*range(0, s, 2)), axis=2),
    "Gather of columns": lambda w, x, s: w.add("Gather", x, w.integers(*range(0, s, 2)), axis=3),
    "Softmax": _node("Softmax", axis=-1),
    "Softmax of channels": _node("Softmax", axis=1),
    "LayerNormalization": lambda w, x, s: w.add(
        "LayerNormalization", x, w.constant(np.ones(s, np.float32)), w.constant(np.ones(s, np.float32))
    ),
    "InstanceNormalization": lambda w, x, s: w.add("InstanceNormalization", x, w.factor(32), w.bias(32)),
    "LRN": _node("LRN", size=5),
    "ReduceMean of pixels": _node("ReduceMean", axes=[2, 3]),
    "ReduceMean of rows": _node("ReduceMean", axes=[3]),
    "ReduceMax of channels": _node("ReduceMax", axes=[1]),
    "ArgMax of channels": lambda w, x, s: w.add("Cast", w.add("ArgMax", x, axis=1), to=1),
    "CumSum": lambda w, x, s: w.add("CumSum", x, w.constant(np.array(3, np.int64))),
    "MaxPool": _node("MaxPool", kernel_shape=[3, 3], strides=[2, 2]),
    "AveragePool": _node("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "GlobalAveragePool": _node("GlobalAveragePool"),
    "Conv 1x1": lambda w, x, s: w.conv(x, 32, 64),
    "Conv 3x3": lambda w, x, s: w.conv(x, 32, 32, kernel=3),
    "Conv 5x5 with stride": lambda w, x, s: w.conv(x, 32, 32, kernel=5, stride=2),
    "Conv depthwise": lambda w, x, s: w.conv(x, 32, 32, kernel=3, groups=32),
    "Conv of groups": lambda w, x, s: w.conv(x, 32, 32, kernel=3, groups=4),
    "ConvTranspose": lambda w, x, s: w.add(
        "ConvTranspose", x, w.weight(32, 16, 2, 2, fan_in=32), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "MatMul": lambda w, x, s: w.add("MatMul", x, w.weight(s, 64, fan_in=s)),
    "Resize to twice": lambda w, x, s: w.add(
        "Resize", x, "", w.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest"
    ),
    "Resize linear": lambda w, x, s: w.add(
        "Resize", x, "", w.constant(np.array([1, 1, 2, 2], np.float32)), mode="linear"
    ),
    "DepthToSpace": _node("DepthToSpace", blocksize=2),
    "SpaceToDepth": _node("SpaceToDepth", blocksize=2),
    "Where": lambda w, x, s: w.add("Where", w.add("Greater", x, w.number(0.5)), x, w.number(0.0)),
    "Cast to int32 and back": lambda w, x, s: w.add("Cast", w.add("Cast", x, to=6), to=1),
    "TopK": lambda w, x, s: w.split("TopK", x, w.integers(4), results=2, axis=3)[0],
}


def _model(write: Write, size: int) -> onnx.ModelProto:
    w = GraphWriter("one_operator")
    return w.model(write(w, w.input("x", (1, 32, size, size)), size))


def _far_off(model: clgraph.Model, feeds: dict[str, np.ndarray]) -> Iterator[str]:
    """Say which nodes take ten times more or less than was estimated, in the best of several runs."""
    best: dict[str, float] = {}
    for _ in range(RUNS):
        profile = model.profile(feeds)
        best |= {node: min(s, best.get(node, s)) for node, s in profile.by_node().items()}
    named = {c.node: c for c in profile.commands}
    for node, seconds in best.items():
        estimate = named[node].estimate
        if estimate is not None and is_far_off(seconds, estimate):
            yield f"{named[node].implementation} takes {seconds * 1e6:.1f} us, estimated {estimate * 1e6:.1f}"


@pytest.mark.parametrize("size", [8, 32, 128], ids=["small", "medium", "large"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_no_estimate_is_ten_times_off(operator: str, size: int, device: str) -> None:
    model = clgraph.compile(_model(OPERATORS[operator], size), device=device)
    x = np.abs(np.random.default_rng(0).standard_normal((1, 32, size, size))).astype(np.float32)
    found = list(_far_off(model, {"x": x}))
    if found and all(line.startswith(BY_TRAFFIC) for line in found):
        pytest.xfail(f"general kernels are estimated by their traffic, not their index arithmetic: {found}")
    assert found == []
