"""One-node models on scalars, on tensors without elements and on tensors of eight axes, of every operator they fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

SHAPES: tuple[tuple[int, ...], ...] = (
    (),
    (0,),
    (1,),
    (3, 0),
    (0, 4, 5),
    (1,) * 8,
    (2, 1, 3, 1, 2, 1, 2, 3),
    (2, 3, 0, 2, 1, 1, 2, 2),
)
PAIRS: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((), ()),
    ((), (0,)),
    ((0,), (1,)),
    ((3, 0), (1, 1)),
    ((2, 1, 0), (3, 1)),
    ((1,) * 8, (2, 1, 3, 1, 2, 1, 2, 3)),
    ((2, 1, 3, 1, 2, 1, 2, 3), (3,)),
    ((2, 1, 3, 1, 2, 1, 2, 3), (1, 4, 1, 2, 1, 3, 1, 1)),
    ((2, 3), ()),
)
"""Shapes that broadcast."""

UNARY = [
    "Abs",
    "Acos",
    "Asinh",
    "Atan",
    "Ceil",
    "Celu",
    "Cos",
    "Cosh",
    "Dropout",
    "Elu",
    "Erf",
    "Exp",
    "Flatten",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "LogSoftmax",
    "LpNormalization",
    "Mish",
    "Neg",
    "NonZero",
    "Relu",
    "Round",
    "Selu",
    "Shape",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Size",
    "Softmax",
    "Softplus",
    "Softsign",
    "Squeeze",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
    "Transpose",
    "ReduceMax",
    "ReduceMean",
    "ReduceProd",
    "ReduceL2",
    "ReduceLogSumExp",
    "ReduceSum",
    "ArgMax",
    "ArgMin",
]
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Equal", "Less", "GreaterOrEqual"]


@dataclass(frozen=True)
class Case:
    """A node: its operator, inputs (those at *constant* are initializers), opset and attributes."""

    op: str
    inputs: list[Any]
    opset: int = 18
    constant: tuple[int, ...] = ()
    outputs: int = 1
    attributes: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op} {[None if a is None else np.shape(a) for a in self.inputs]} {self.attributes}"


class _Cases:
    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.found: list[Case] = []

    def add(
        self,
        op: str,
        *inputs: Any,
        opset: int = 18,
        constant: tuple[int, ...] = (),
        outputs: int = 1,
        **attributes: Any,
    ) -> None:
        self.found.append(Case(op, list(inputs), opset, constant, outputs, attributes))

    def floats(self, *shape: int) -> Any:
        return np.asarray(self.random.standard_normal(shape), np.float32)

    def positive(self, *shape: int) -> Any:
        return np.asarray(self.random.uniform(0.5, 2, shape), np.float32)

    def ints(self, *shape: int, below: int = 4) -> Any:
        return np.asarray(self.random.integers(0, below, shape), np.int64)

    def bools(self, *shape: int) -> Any:
        return np.asarray(self.random.integers(0, 2, shape), bool)


def cases() -> dict[str, list[Case]]:
    """Return the cases of every operator."""
    c = _Cases()
    for shape in SHAPES:
        _elementwise(c, shape)
        if shape:
            _moving(c, shape)
    for pair in PAIRS:
        _broadcast(c, *pair)
    _products(c)
    _windows(c)
    _rest(c)
    return {op: [case for case in c.found if case.op == op] for op in sorted({case.op for case in c.found})}


def _elementwise(c: _Cases, shape: tuple[int, ...]) -> None:
    for op in UNARY:
        x = np.tanh(c.floats(*shape)) if op == "Acos" else c.floats(*shape)
        c.add(op, x)
        if len(shape) > 1 and op in ("Softmax", "LogSoftmax", "Hardmax"):
            c.add(op, x, axis=0)
        if len(shape) > 1 and op in ("ArgMax", "ArgMin"):
            c.add(op, x, axis=1, keepdims=0)
    for op in ("Sqrt", "Reciprocal", "Log"):
        c.add(op, c.positive(*shape))
    c.add("Not", c.bools(*shape))
    c.add("Cast", c.floats(*shape), to=7)
    c.add("Cast", c.ints(*shape), to=1)
    c.add("Clip", c.floats(*shape), np.float32(-0.5), np.float32(0.5))
    c.add("Gelu", c.floats(*shape), opset=20)
    c.add("QuantizeLinear", c.floats(*shape), np.float32(0.1), np.uint8(3))
    c.add("DequantizeLinear", c.ints(*shape).astype(np.uint8), np.float32(0.1), np.uint8(3))
    c.add("Reshape", c.floats(*shape), np.array([-1 if np.prod(shape) else 0]), constant=(1,), allowzero=1)
    if len(shape) < 8:
        c.add("Unsqueeze", c.floats(*shape), np.array([0]), constant=(1,))
        c.add("OneHot", c.ints(*shape), np.array(3), c.floats(2), constant=(1,))


def _moving(c: _Cases, shape: tuple[int, ...]) -> None:
    rank, first = len(shape), shape[0]
    x = c.floats(*shape)
    none = np.zeros((0, *shape[1:]), np.int64)
    c.add("Transpose", x, perm=[int(a) for a in np.roll(range(rank), 1)])
    c.add("ReduceSum", x, np.array([rank - 1]), constant=(1,), keepdims=0)
    c.add("CumSum", x, np.array(rank - 1), constant=(1,))
    c.add("Concat", x, c.floats(*shape), axis=0)
    c.add("Concat", x, c.floats(*shape), axis=-1)
    c.add("Tile", x, np.array([2] * rank), constant=(1,))
    c.add("Tile", x, np.array([0] + [1] * (rank - 1)), constant=(1,))
    c.add("Gather", x, c.ints(0), axis=0, constant=(1,))
    c.add("Gather", x, c.ints(0), axis=0)
    if shape[-1]:
        c.add("Gather", x, c.ints(below=shape[-1]), axis=-1)
    if first:
        c.add("Gather", x, c.ints(2, below=first), axis=0)
    c.add("Slice", x, np.array([0]), np.array([0]), constant=(1, 2))
    c.add("Slice", x, *(np.array([i]) for i in (-1, -100, 0, -1)), constant=(1, 2, 3, 4))
    c.add("Pad", x, np.array([1] * (2 * rank)), np.float32(2), constant=(1, 2))
    c.add("Split", x, np.array([0, first]), outputs=2, constant=(1,), axis=0)
    c.add("GatherElements", x, none, axis=0)
    c.add("ScatterElements", x, none, none.astype(np.float32), axis=0)
    c.add("TopK", x, np.array([0]), outputs=2, constant=(1,))
    c.add("Compress", x, c.bools(first), axis=0)
    if shape[-1]:
        c.add("LayerNormalization", x, c.floats(shape[-1]), c.floats(shape[-1]), axis=-1)
    if rank > 1:
        c.add("Trilu", x)
    if rank > 1 and first:
        c.add("ReverseSequence", x, np.ones(shape[1], np.int64))


def _broadcast(c: _Cases, s: tuple[int, ...], t: tuple[int, ...]) -> None:
    for op in BINARY:
        c.add(op, c.positive(*s), c.positive(*t))
    c.add("Mod", c.floats(*s), c.positive(*t), fmod=1)
    for op in ("And", "Or", "Xor"):
        c.add(op, c.bools(*s), c.bools(*t))
    c.add("Where", c.bools(*s), c.floats(*t), c.floats())
    c.add("Sum", c.floats(*s), c.floats(*t), c.floats())
    c.add("Mean", c.floats(*s), c.floats(*t))
    c.add("Expand", c.floats(*s), np.array(np.broadcast_shapes(s, t), np.int64), constant=(1,))
    if np.broadcast_shapes(s, t) == s:
        c.add("PRelu", c.floats(*s), c.floats(*t))


def _products(c: _Cases) -> None:
    shapes = [
        *[((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((5, 0, 3), (3, 2)), ((1, 2, 3), (4, 3, 0))],
        *[((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((0,), (0,)), ((4,), (2, 4, 3))],
        *[((2, 1, 2, 1, 1, 2, 3), (3, 2)), ((2, 1, 2, 1, 1, 2, 2, 3), (2, 3, 2))],
    ]
    for a, b in shapes:
        c.add("MatMul", c.floats(*a), c.floats(*b))
        c.add("MatMul", c.floats(*a), c.floats(*b), constant=(1,))
    for a, b in shapes[:3]:
        c.add("Gemm", c.floats(*a), c.floats(*b), c.floats(b[1]))
        c.add("Gemm", c.floats(*a), c.floats(*b))
        c.add("Einsum", c.floats(*a), c.floats(*b), equation="ij,jk->ik")


def _windows(c: _Cases) -> None:
    for x, w in [
        *[((0, 3, 5, 5), (4, 3, 3, 3)), ((1, 3, 5), (4, 3, 3)), ((0, 3, 5), (4, 3, 3)), ((1, 3, 5, 5), (0, 3, 3, 3))],
        *[((1, 2, 3, 3, 3), (2, 2, 2, 2, 2)), ((1, 2, 3, 3, 3, 3), (2, 2, 1, 1, 1, 1))],
    ]:
        c.add("Conv", c.floats(*x), c.floats(*w), constant=(1,))
    for x, w in [((0, 3, 5, 5), (3, 4, 3, 3)), ((1, 3, 5), (3, 2, 3)), ((1, 2, 3, 3, 3), (2, 2, 2, 2, 2))]:
        c.add("ConvTranspose", c.floats(*x), c.floats(*w), constant=(1,))
    for x in [(0, 3, 5, 5), (1, 3, 5), (1, 0, 4, 4), (1, 2, 3, 3, 3)]:
        n = len(x) - 2
        c.add("BatchNormalization", c.floats(*x), *(c.positive(x[1]) for _ in range(4)), opset=15)
        c.add("InstanceNormalization", c.floats(*x), c.floats(x[1]), c.floats(x[1]))
        c.add("Resize", c.floats(*x), None, np.array([1, 1] + [2] * n, np.float32), mode="nearest", constant=(2,))
        if 0 in x[1:]:
            continue
        for op in ("MaxPool", "AveragePool"):
            c.add(op, c.floats(*x), kernel_shape=[2] * n)
        for op in ("GlobalMaxPool", "GlobalAveragePool"):
            c.add(op, c.floats(*x))
    for op, outputs in (("MaxPool", 1), ("MaxPool", 2), ("AveragePool", 1), ("LpPool", 1)):
        windows = {"kernel_shape": [3, 3], "strides": [3, 2], "opset": 22, "outputs": outputs}
        c.add(op, c.floats(0, 3, 5, 5), **windows)
        c.add(op, c.floats(1, 2, 0, 5), pads=[1, 0, 1, 0], **windows)
        c.add(op, c.floats(1, 2, 5, 5), dilations=[4, 1], **windows)  # of more than the input: none fits
    for x in [(0, 3, 4), (2, 3, 0), (0, 3)]:
        parameters = (c.positive(x[1]) for _ in range(4))
        c.add("BatchNormalization", c.floats(*x), *parameters, opset=15, outputs=3, training_mode=1)
    c.add("LRN", c.floats(0, 3, 5, 5), size=3)
    c.add("DepthToSpace", c.floats(0, 8, 2, 3), blocksize=2)
    c.add("SpaceToDepth", c.floats(1, 0, 4, 4), blocksize=2)


def _rest(c: _Cases) -> None:
    for op, gates in (("LSTM", 4), ("RNN", 1)):  # a GRU of nothing ends ONNX Runtime's process
        for x in [(2, 0, 4), (2, 3, 0), (0, 3, 4)]:
            if op == "LSTM" and x[1] == 0:
                continue  # and so does an LSTM of no sequence
            weights = (c.floats(1, 2 * gates, size) for size in (x[2], 2))
            c.add(op, c.floats(*x), *weights, constant=(1, 2), outputs=2, hidden_size=2)
    for shape in ([0, 3], [2] * 8, []):
        c.add("ConstantOfShape", np.array(shape, np.int64), constant=(0,))
    c.add("GatherND", c.floats(3, 0), c.ints(2, 1, below=3))
    c.add("GatherND", c.floats(2, 3), np.zeros((0, 2), np.int64))
    c.add("ScatterND", c.floats(3, 2), np.zeros((0, 1), np.int64), c.floats(0, 2))
    c.add("Range", *(np.array(i) for i in (3, 3, 1)), constant=(0, 1, 2))
