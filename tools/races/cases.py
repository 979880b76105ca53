"""Small problems for every kernel that a GPU may be given: a few groups, tails at every edge, each way through it.

Results are compared with the reference coarsely: bounds are derived in ``tests/ops``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.attention import Attention
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.bits import BitCast
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.box_suppression import BoxSuppression
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.byte_mean import ByteMean
from clgraph.ops.col2im import Col2Im
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.cumulative_product import CumulativeProduct
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.determinant import Determinant
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand, Repeat
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.ops.fill import Fill
from clgraph.ops.gather import Gather
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.gather_nd import GatherND
from clgraph.ops.grid_sample import GridSample
from clgraph.ops.image_planes import ImagePlanes
from clgraph.ops.image_taps import ResizedAxis, packed, taps
from clgraph.ops.integer_convolution import IntegerConvolution
from clgraph.ops.integer_matmul import IntegerMatMul
from clgraph.ops.is_special import IsSpecial
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.linear_attention import LinearAttention
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.max_pool_indices import MaxUnpool
from clgraph.ops.nv12_to_rgb import Nv12ToRgb
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.ops.quantized_pair import QuantizedPair
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.random import KEY_WORDS, Random
from clgraph.ops.recurrent_steps import RecurrentSteps
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.reverse_sequence import ReverseSequence
from clgraph.ops.roi_align import MaxRoiPool, RoiAlign
from clgraph.ops.rotation import Rotation
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.space import Shuffle
from clgraph.ops.split import Split
from clgraph.ops.static_quantize import DequantizeAdd, StaticQuantize
from clgraph.ops.tensor_scatter import TensorScatter
from clgraph.ops.top_k import TopK
from clgraph.ops.transpose import Transpose
from clgraph.ops.trigonometry import Trigonometric
from clgraph.ops.where import Where
from clgraph.ops.winograd_weights import WinogradWeights

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Shape], Any]
F32, F16, I8, I32, I64, U8, U32 = DType.F32, DType.F16, DType.I8, DType.I32, DType.I64, DType.U8, DType.U32
BOOL = DType.BOOL
RELU = (Activation("relu"), [], 0)


@dataclass(frozen=True)
class Case:
    """A problem, as :func:`tests.support.check_op.check_op` takes it."""

    primitive: Primitive
    shapes: tuple[Shape, ...]
    dtype: DType | Sequence[DType] = F32
    constant: tuple[int, ...] = ()
    draw: Mapping[int, Draw] = field(default_factory=dict)
    fused: Sequence[tuple[Primitive, Sequence[Shape], int]] = ()

    def __str__(self) -> str:
        return f"{self.primitive} on {', '.join(map(str, self.shapes))}"


def below(*sizes: int) -> Draw:
    """Return how to draw places of axes of these sizes, from the front and from the back."""
    ends = np.array(sizes if len(sizes) > 1 else sizes[0])
    return lambda rng, shape: rng.integers(-ends, ends, shape)


def _of(number: float) -> Draw:
    return lambda _, shape: np.full(shape, number)


def _centred_boxes(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(1, 9, shape)


def _bytes(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(-100, 100, shape)


def _colours(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(0, 256, shape)


def _words(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(0, 1 << 32, shape)


def _places(rng: np.random.Generator, shape: Shape) -> Any:
    """Draw for each a flat index of its own window of 2 x 2."""
    images, rows, columns = shape[0] * shape[1], shape[2], shape[3]
    image, row, column = np.mgrid[:images, :rows, :columns]
    down, right = rng.integers(0, 2, (2, images, rows, columns))
    return (((image * rows + row) * 2 + down) * columns * 2 + column * 2 + right).reshape(shape)


def _records(rng: np.random.Generator, shape: Shape) -> Any:
    packed = rng.integers(0, 256, (68, 32)).astype(np.uint8)
    return RECORDS.pack(packed, np.full((68, 2), 1 / 8, np.float32))


def _powers(rng: np.random.Generator, shape: Shape) -> Any:
    return 2.0 ** rng.integers(-4, 0, shape)


def _quarters(rng: np.random.Generator, shape: Shape) -> Any:
    return rng.integers(-99, 99, shape) / 4


def _conv(pads: Sequence[tuple[int, int]], groups: int = 1, strides: Shape = (1, 1)) -> Convolution:
    return Convolution(strides, (1, 1), tuple(pads), groups)


ONE, NONE = ((1, 1), (1, 1)), ((0, 0), (0, 0))
FLOATS = (F32, F16)
QUANTISED = (I8, I8, I32, F32, F32)
QUANTISED_DRAW: Mapping[int, Draw] = {0: _bytes, 1: _bytes, 2: _bytes, 3: _powers}
RECORDS = Records(4, 32, zeros=False)
TAPS = packed(*(taps(ResizedAxis(n, s, 0, s), "linear", "pillow", reduces=True) for n, s in ((13, 7), (37, 19))))
REGIONS = np.array([[0, 0, 7, 8], [3, 2, 12, 9], [-4, -3, 5, 4]], np.float32)


def cases() -> list[Case]:
    """Return every problem."""
    return [*_elementwise(), *_moving(), *_rows(), *_windows(), *_products(), *_quantised(), *_picking()]


def _elementwise() -> list[Case]:
    shape, row = (2, 8, 3, 5), (8, 1, 1)
    return [
        *(Case(Activation("tanh"), (shape,), d, fused=[(Eltwise("add"), [row], 0)]) for d in FLOATS),
        Case(Activation("relu"), ((3, 67),), I32),
        *(Case(Eltwise("sub"), (shape, row), d, fused=[RELU]) for d in FLOATS),
        Case(Eltwise("add"), ((4, 17), (17,)), I64),
        Case(Eltwise("less"), ((4, 17), (17,))),
        Case(Trigonometric("atan"), ((3, 67),)),
        Case(IsSpecial(nan=True), ((3, 67),)),
        Case(Where(), ((3, 1), (3, 67), (67,)), (BOOL, F32, F32)),
        Case(BatchNormalization(1e-5), (shape, *[(8,)] * 4), draw={4: _powers}),
        Case(Fill(3.0, F32, (5, 67)), ()),
        Case(BitCast(U32), ((3, 67),), I32),
        Case(
            Random(True, 0.0, 1.0, (5, 67)), ((KEY_WORDS,),), U32, draw={0: lambda rng, s: rng.integers(0, 1 << 32, s)}
        ),
    ]


def _moving() -> list[Case]:
    shape = (2, 12, 3, 5)
    return [
        Case(Concat(1), (shape, (2, 4, 3, 5))),
        Case(Concat(3), (shape, shape)),
        Case(Split(1, (4, 8)), (shape,)),
        Case(Slice((1, 2), (12, 3), (2, 1), (1, 2)), (shape,)),
        Case(Transpose((0, 2, 3, 1)), (shape,)),
        Case(Transpose((1, 0)), ((33, 40),), F16),
        Case(Reshape((2, 180)), (shape,)),
        Case(Expand((4, 3, 17)), ((3, 1),)),
        Case(Repeat((2, 3)), ((3, 17),)),
        Case(Pad(((0, 1), (2, 1), (0, 3)), "reflect", 2.0), ((2, 3, 4),)),
        Case(Shuffle(2, False, True), (shape,)),
        Case(ReverseSequence(), ((5, 3, 7), (3,)), (F32, I64), draw={1: lambda rng, s: rng.integers(0, 6, s)}),
        Case(
            TensorScatter(-2),
            ((3, 9, 5), (3, 2, 5), (3,)),
            (F32, F32, I64),
            draw={2: lambda rng, s: rng.integers(0, 8, s)},
        ),
        Case(Reorder(F16), (shape,)),
    ]


def _rows() -> list[Case]:
    return [
        *(Case(Softmax((1,)), ((3, n),), d) for d in FLOATS for n in (65, 72)),
        Case(Softmax((1,)), ((2, 2501),)),
        Case(Softmax((1,), log=True), ((3, 8, 5),)),
        *(Case(LayerNormalization(-1), ((3, n), (n,), (n,)), d) for d in FLOATS for n in (65, 72)),
        *(Case(Rotation(p), ((2, 3, 5, 66), (2, 1, 5, 32), (2, 1, 5, 32)), d) for p in (False, True) for d in FLOATS),
        *(Case(Reduce(f, (1,)), ((3, 72),)) for f in ("sum", "max", "prod")),
        Case(Reduce("mean", (2,), keepdims=False), ((2, 3, 130),), F16),
        Case(Reduce("mean", (2, 3)), ((2, 8, 5, 7),)),
        Case(Reduce("max", (0,)), ((5, 3),), I32),
        Case(ArgExtremum(False, 1, True), ((3, 9, 5),)),
        Case(CumulativeSum(1), ((2, 9, 5),)),
        Case(CumulativeProduct(1), ((2, 9, 5),)),
        Case(Determinant(), ((5, 4, 4),)),
        Case(
            BoxSuppression(True, 18),
            ((2, 40, 4), (2, 3, 40), (1,), (1,), (1,)),
            (F32, F32, I64, F32, F32),
            draw={0: _centred_boxes, 2: _of(17), 3: _of(0.3), 4: _of(0.0)},
        ),
        *(Case(TopK(-1, True, 4), ((2, 70),), d) for d in FLOATS),
        Case(TopK(1, False, 3), ((3, 37, 2),), I64),
    ]


def _windows() -> list[Case]:
    image = (1, 8, 7, 6)
    sizes = {"shape": (1, 8, 9, 12), "scales": (1.0, 1.0, 9 / 7, 2.0)}
    return [
        *(Case(Pooling(f, (3, 3), (2, 2), pads=ONE), (image,), d) for f in ("max", "average") for d in FLOATS),
        Case(Lrn(3, 0.01, 0.75, 2.0), (image,)),
        Case(MaxUnpool((2, 2), (2, 2)), ((1, 3, 4, 5), (1, 3, 4, 5)), (F32, I64), draw={1: _places}),
        Case(Col2Im((6, 7), (2, 3)), ((2, 18, 25),)),
        *(Case(Resize(m, **sizes), (image,), d) for m in ("nearest", "linear", "cubic") for d in FLOATS),
        Case(Nv12ToRgb(), ((2, 9, 10),), U8, draw={0: _colours}),
        Case(
            ImagePlanes((7, 19), 114.0),
            ((2, 13, 37, 3), TAPS.shape, (3, 4)),
            (U8, F32, F32),
            (1, 2),
            {0: _colours, 1: lambda rng, s: TAPS},
        ),
        Case(GridSample("linear"), ((2, 3, 5, 4), (2, 3, 5, 2)), draw={1: lambda rng, s: rng.uniform(-1.5, 1.5, s)}),
        Case(
            RoiAlign((3, 2), 2, 0.5),
            ((2, 19, 9, 8), (3, 4), (3,)),
            (F32, F32, I64),
            draw={1: lambda rng, s: REGIONS, 2: lambda rng, s: np.array([0, 1, 0])},
        ),
        Case(
            MaxRoiPool((3, 2), 0.5),
            ((2, 3, 9, 8), (3, 5)),
            draw={1: lambda rng, s: np.concatenate([[[0], [1], [0]], REGIONS], axis=1)},
        ),
    ]


def _products() -> list[Case]:
    weights = (1, 2)
    found = [
        # Two tiles of 64 along either axis, and two steps of 16 along the sum.
        *(Case(MatMul(), ((68, 20), (20, 68), (68,)), d, fused=[RELU]) for d in FLOATS),
        Case(MatMul(transpose_b=True), ((68, 20), (68, 20))),
        Case(MatMul(), ((3, 5, 36), (36, 12))),
        Case(MatMul(), ((5, 17), (17, 9)), I32),
        Case(MatMul(), ((2, 7, 9), (2, 9, 5))),
        Case(BlockMatMul(68, 64, 4, 32), ((3, 64), RECORDS.shape(68, 64)), (F32, U8), (1,), {1: _records}),
        *(Case(_conv(ONE), ((1, 8, 9, 8), (12, 8, 3, 3), (12,)), d, weights, fused=[RELU]) for d in FLOATS),
        Case(_conv(NONE), ((1, 20, 9, 8), (68, 20, 1, 1), (68,)), constant=weights),
        Case(_conv(ONE, 2, (2, 2)), ((1, 8, 7, 6), (8, 4, 3, 3), (8,)), constant=weights),
        Case(_conv(ONE, 12), ((1, 12, 7, 6), (12, 1, 3, 3), (12,)), constant=weights),
        Case(_conv(ONE), ((1, 3, 7, 6), (5, 3, 3, 3), (5,)), constant=weights),
        Case(ConvTranspose((2, 2), (1, 1), ONE), ((1, 3, 5, 4), (3, 5, 3, 3), (5,)), constant=weights),
        Case(WinogradWeights(0), ((7, 5, 3, 3),)),
        Case(
            Bottleneck(_conv(ONE, 12)),
            ((1, 4, 6, 5), (12, 4, 1, 1), (12,), (12, 1, 3, 3), (12,), (5, 12, 1, 1), (5,)),
            constant=tuple(range(1, 7)),
        ),
        *(Case(Attention(0.5, key), _attention(key, 33, 20, 8, 12), d) for key in (False, True) for d in FLOATS),
        *(Case(Attention(0.5, True), (*_attention(True, 9, 33, 64, 64), bias)) for bias in ((33,), (9, 33))),
    ]
    for rule in ("linear", "gated_delta"):
        made = LinearAttention(2, 4, rule)
        found.append(Case(made, ((3, 5, 14), (3, 5, 14), (3, 5, 36), (3, 4, 7, 9), (3, 5, 4), (3, 5, 1))))
    for cell, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        # More states than one work-item multiplies, and more sequences than share weights.
        for batch, hidden in ((2, 20), (9, 70)):
            shapes = ((3, batch, gates * hidden), (1, gates * hidden, hidden))
            found.append(Case(RecurrentSteps(cell, hidden), shapes))
    found.append(Case(RecurrentSteps("gru", 20), ((3, 2, 60), (1, 60, 20)), DType.F64))
    return found


def _attention(by_key: bool, queries: int, keys: int, depth: int, width: int) -> tuple[Shape, ...]:
    return (2, queries, depth), (2, keys, depth) if by_key else (2, depth, keys), (2, keys, width)


def _quantised() -> list[Case]:
    whole: Mapping[int, Draw] = {0: _bytes, 1: _bytes, 2: below(9), 3: below(9)}
    types = (I8, I8, I8, I8)
    matrix = QuantizedMatMul()
    convolution = QuantizedConvolution((1, 1), (1, 1), ONE, zero=-3)
    strided = QuantizedConvolution((2, 2), (1, 1), ONE, 2, zero=7)
    constant = (1, 2, 3, 4)
    return [
        Case(Quantize(1), ((2, 3, 65), (3,)), draw={1: _powers}),
        Case(Dequantize(1), ((2, 3, 65), (3,)), (I8, F32), draw={0: _bytes, 1: _powers}),
        Case(QuantizedSum((0.5, 0.25, 0.25), (0, 0, 0)), ((4, 17), (17,)), draw={0: _quarters, 1: _quarters}),
        Case(QuantizedProduct((0.25, 0.25, 0.0625), (0, 0, 0)), ((4, 17), (17,)), draw={0: _quarters, 1: _quarters}),
        Case(
            QuantizedPair("mul", (0.5, 0.25, 0.25), (3, 4, 5)), ((4, 17), (17,)), (I8, I8), draw={0: _bytes, 1: _bytes}
        ),
        Case(StaticQuantize(0.5, -3), ((2, 3, 5, 7),), draw={0: _quarters}),
        Case(DequantizeAdd(0.5, 9), ((2, 3, 5, 7), (3, 1, 7)), (F32, I8), draw={1: below(99)}),
        Case(IntegerMatMul(), ((5, 20), (20, 9), (), ()), types, draw=whole),
        Case(IntegerConvolution((1, 1), (1, 1), ONE), ((1, 4, 6, 5), (6, 4, 3, 3), (), ()), types, draw=whole),
        Case(matrix, ((68, 48), (48, 68), *[(68,)] * 3), QUANTISED, constant, QUANTISED_DRAW),
        Case(matrix, ((3, 80), (80, 8), *[(8,)] * 3), QUANTISED, constant, QUANTISED_DRAW),
        Case(convolution, ((1, 16, 7, 6), (68, 16, 3, 3), *[(68,)] * 3), QUANTISED, constant, QUANTISED_DRAW),
        Case(strided, ((1, 40, 6, 6), (16, 20, 3, 3), *[(16,)] * 3), QUANTISED, constant, QUANTISED_DRAW),
    ]


def _ascending(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    return np.sort(rng.integers(0, 3, shape))


def _picking() -> list[Case]:
    shape = (4, 5, 6)
    # BufferTable that repeat would be added up in any order, and race with one another where they replace.
    once: Mapping[int, Draw] = {1: lambda rng, s: np.stack([rng.permutation(4)[: s[0]], rng.permutation(5)[: s[0]]], 1)}
    each: Mapping[int, Draw] = {1: lambda rng, s: np.argsort(rng.random(shape), axis=0)[: s[0]]}
    return [
        Case(Gather(1), (shape, (2, 3)), (F32, I64), draw={1: below(5)}),
        Case(ByteLookup(), ((3, 67), (256,)), U8, draw={0: _bytes, 1: _bytes}),
        Case(ByteMean(1, 3, 0.25, 7), ((3, 5, 6, 2),), U8, draw={0: _bytes}),
        Case(Gather(0), ((9, 64), (7,)), (F32, I64), draw={1: below(9)}),
        Case(
            ExpertMatMul(),
            ((9, 20), (3, 20, 12), (9,)),
            (F32, F32, I64),
            draw={2: _ascending},
        ),
        Case(GatherElements(1), (shape, (4, 2, 6)), (F32, I64), draw={1: below(5)}),
        Case(GatherND(), (shape, (3, 2)), (F32, I64), draw={1: below(4, 5)}),
        Case(ScatterElements(0), (shape, (2, 5, 6), (2, 5, 6)), (F32, I64, F32), draw=each),
        Case(ScatterND("add"), (shape, (3, 2), (3, 6)), (F32, I64, F32), draw=once),
    ]
