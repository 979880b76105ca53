"""3x3 convolutions on GPUs by Winograd's F(4x4, 3x3): into the transform, a batch of matrix products, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.convolution_vectors import ConvolutionVectors
from clgraph.implementations.gpu.vectors import LANES, VECTORS, WIDE_RANK, vector_jit, wide_view
from clgraph.implementations.gpu.windows import bias_of, wide_posts
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.winograd_convolution import WinogradConvolution
from clgraph.ops.winograd_weights import POSITIONS, WinogradWeights
from clgraph.selector.general import launch, table
from clgraph.selector.implementation import IMPLEMENTATIONS, ORDERED_F32, WINOGRAD, Implementation, implements
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query

EDGE = 4
"""Pixels of the result along a tile; the tile of the input has two more."""
_BANDWIDTH = 0.6
"""Share of the memory's rate that the transforms reach. An estimate."""
_ROLES = {"in0": "scratch0", "in1": "in1", "out0": "scratch1", "scratch0": "scratch2"}
"""What the tensors of the matrix products are called among those of the convolution."""


@implements(
    Convolution,
    name="convolution.gpu_winograd",
    serves=replace(VECTORS, dtypes=frozenset({DType.F32})),
    tags={WINOGRAD},
)
class ConvolutionGpuWinograd(ConvolutionVectors):
    """Tiles of 4x4 pixels with a quarter of the products; 3x3 windows without stride, dilation and groups."""

    @classmethod
    def further_limits(cls, q: Query[Convolution]) -> str | None:
        p, x = q.primitive, q.own[0]
        if not isinstance(p, WinogradConvolution):
            if x.rank != 4 or q.own[1].shape[2:] != (3, 3):
                return f"serves 3x3 windows, not {list(q.own[1].shape[2:])}"
            if p.strides != (1, 1) or p.dilations != (1, 1) or p.groups != 1:
                return "serves windows without stride, dilation and groups"
            if p.exact:
                return "rounds otherwise than the sum of the products"
        if reason := super().further_limits(q):
            return reason
        product, most = _product(q), q.device.max_alloc
        if max(v.nbytes for v in (product.own[0], product.outputs[0])) > most:
            return f"requires transformed tiles in allocations of more than {most} bytes, which is what the device has"
        if any(v.span >= 2**31 for v in (*product.inputs, *product.outputs)):
            return "counts elements in 32 bits"
        reasons = [m.refusal(product) for m in _products()]
        return None if None in reasons else "; ".join(sorted({str(reason) for reason in reasons}))

    @classmethod
    def group_limits(cls, f: Convolution, w: Layout) -> str | None:
        return None

    @classmethod
    def weights(cls, q: Query[Convolution]) -> Mapping[int, Format | Primitive]:
        return {} if isinstance(q.primitive, WinogradConvolution) else {1: WinogradWeights(0)}

    @classmethod
    def transformed(cls, q: Query[Convolution]) -> Primitive:
        return WinogradConvolution(q.primitive.pads, q.outputs[0].shape[1])

    @classmethod
    def cost(cls, q: Query[Convolution]) -> float:
        product = _product(q)
        transformed = product.own[0].nbytes + product.outputs[0].nbytes
        moved = transformed + sum(x.nbytes for x in (q.inputs[0], *q.inputs[q.arity :], *q.outputs))
        transforms = 2 * q.device.launch_seconds + moved / (q.device.bytes_per_second * _BANDWIDTH)
        return transforms + _cheapest(product).predicted(product)

    @classmethod
    def plan(cls, q: Query[Convolution]) -> Plan:
        x, (y,), product = q.own[0], q.outputs, _product(q)
        before = [b for b, _ in q.primitive.pads]
        tiles = _tiles(y)
        (_, count, channels), (_, _, outputs) = product.own[0].shape, product.outputs[0].shape
        dims = (*tiles, channels // LANES, 1)
        numbers = table(dims, wide_view(x, x.shape), x.shape[2:], before, count * channels)
        jit = vector_jit(y.dtype, WIDE_RANK)
        into = launch("convolution/winograd_input_gpu_vectors", jit, prod(dims), "in0", "scratch0", numbers)
        made = _cheapest(product).plan(product)
        dims = (*tiles, outputs // LANES, 1)
        numbers = table(dims, wide_view(y, y.shape), y.shape[2:], count * outputs, bias_of(q))
        arguments = ("scratch1", q.role(2), "out0", numbers, *wide_posts(q))
        back = launch("convolution/winograd_output_gpu_vectors", jit, prod(dims), *arguments)
        scratch = (product.own[0].nbytes, product.outputs[0].nbytes, *made.scratch)
        return Plan((into, *(_renamed(step) for step in made.steps if isinstance(step, Launch)), back), scratch)


def _tiles(y: Layout) -> tuple[int, int, int]:
    """Return images, rows of tiles, tiles of a row."""
    return (y.shape[0], -(-y.shape[2] // EDGE), -(-y.shape[3] // EDGE))


def _product(q: Query[Convolution]) -> Query[MatMul]:
    """Return the matrix products: of each position the tiles by the weights of the outputs, both along the channels."""
    x, (y,) = q.own[0], q.outputs
    shapes = [(POSITIONS, rows, x.shape[1]) for rows in (prod(_tiles(y)), y.shape[1])]
    layouts = tuple(Layout(DType.F32, shape) for shape in shapes)
    primitive = MatMul(transpose_b=True)
    return Query(primitive, layouts, primitive.infer(layouts), q.device, 2, constant=frozenset({1}))


def _products() -> list[type[Implementation[Any]]]:
    """Return what makes the matrix products, whichever serves and is cheapest."""
    return [m for m in IMPLEMENTATIONS.of(MatMul.kind, "gpu") if ORDERED_F32 in m.tags]


def _cheapest(product: Query[MatMul]) -> type[Implementation[Any]]:
    able = [m for m in _products() if m.refusal(product) is None]
    return min(able, key=lambda m: m.predicted(product))


def _renamed(step: Launch) -> Launch:
    return replace(step, args=tuple(_ROLES.get(a, a) if isinstance(a, str) else a for a in step.args))
