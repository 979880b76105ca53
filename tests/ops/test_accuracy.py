"""How exact tiles are at the sizes that networks have: the worst error, relative to the largest result.

``pytest tests/ops/test_accuracy.py -rP`` prints the figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.attention import AttentionRows
from clgraph.implementations.cpu.attention_columns import AttentionColumns
from clgraph.implementations.cpu.block_matmul import BlockMatMulRows
from clgraph.implementations.cpu.block_matmul_digits import BlockMatMulDigits, BlockMatMulPairs
from clgraph.implementations.cpu.bottleneck import BottleneckFsv16
from clgraph.implementations.cpu.conv_transpose import ConvTransposeFsv16
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_depthwise import DepthwiseFsv16
from clgraph.implementations.cpu.convolution_planar import ConvPlanar
from clgraph.implementations.cpu.convolution_staged import ConvStaged
from clgraph.implementations.cpu.convolution_strassen import ConvStrassen
from clgraph.implementations.cpu.convolution_windows import ConvWindows
from clgraph.implementations.cpu.convolution_winograd import ConvWinograd
from clgraph.implementations.cpu.cumulative_sum import CumulativeSumElements, CumulativeSumPlanes
from clgraph.implementations.cpu.expert_matmul import ExpertMatMulRows
from clgraph.implementations.cpu.layer_normalization import NormalizeRows
from clgraph.implementations.cpu.lrn import LrnFsv16
from clgraph.implementations.cpu.matmul import MatMulRows
from clgraph.implementations.cpu.pooling import PoolFsv16
from clgraph.implementations.cpu.reduce import ReduceSpatialFsv16
from clgraph.implementations.cpu.reduce_elements import ReduceElements
from clgraph.implementations.cpu.resize import ResizeFsv16
from clgraph.implementations.cpu.softmax import SoftmaxPlanes, SoftmaxRows
from clgraph.ops.activation import Activation
from clgraph.ops.attention import Attention
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.block_records import Records
from clgraph.ops.bottleneck import Bottleneck
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.softmax import Softmax
from clgraph.selector.implementation import IMPLEMENTATIONS
from tests.support.features import serves
from tests.support.run_tiles import pose, run_tiles, wanted

BOUND = 1e-4
"""What every tile is to keep of the largest result."""

EXACT = {
    "activation", "concat", "dequantize", "eltwise", "expand", "gather", "gather_elements", "gather_nd", "pad",
    "quantize", "reorder", "repeat", "shuffle", "slice", "split", "static_quantize", "transpose", "where",
    "byte_lookup", "quantized_convolution", "quantized_conv_transpose", "quantized_matmul", "quantized_sum",
    "quantized_pair", "quantized_product",
    "integer_matmul", "integer_convolution",
    "arg", "is_special", "top_k", "nv12_to_rgb", "trigonometry", "empty_note", "noted_extreme",
    "box_suppression", "byte_mean", "cache_join", "max_roi_pool", "random",
    "sum_extremes", "max_pool_indices", "max_unpool", "reshape", "reverse_sequence", "tensor_scatter",
}  # fmt: skip
"""Kinds whose tiles move elements, apply one operation to each, or add up integers: their tests count its roundings."""
OTHER = {
    "cached_attention", "col2im", "cumulative_product", "grid_sample", "image_planes", "recurrent_stack",
    "recurrent_steps", "rotation", "scatter_elements", "scatter_nd", "strassen_weights", "support_vector_classifier",
    "support_vector_regressor", "tree_classifier", "tree_ensemble", "winograd_weights",
}  # fmt: skip
"""Kinds whose own tests have the bounds: of run-time lengths, of a product, of places, of bytes, of a recurrence, of
two products, of sums of few updates, of those that windows overlap in, and of sums in double."""
SAME = {
    "matmul.narrow", "pooling.bytes_fsv16", "pooling.channels", "pooling.elements", "resize.bytes_fsv16",
    "resize.nearest",
}  # fmt: skip
"""Tiles whose results are another's, or their inputs', bit by bit, which their own tests compare."""


ROUNDED = {"convolution.bf16_pairs", "matmul.bf16_pairs"}
"""Tiles that round their inputs because an option says so: their own tests bound the sums of what is rounded."""

MIXED = {"pooling.planes", "resize.elements", "resize.rows", "roi_align.rows"}
"""What mixes a few elements by weights: the tests of their operators have the bounds."""

TYPED = {
    "layer_normalization.doubles",
    "layer_normalization.halves",
    "matmul.doubles",
    "matmul.integers",
    "reduce.exponentials",
    "softmax.doubles",
}
"""Tiles of doubles, halves or integers alone: their own tests count each rounding, of which integers have none."""


@dataclass(frozen=True)
class Case:
    """A problem as large as networks have them; inputs in *constant* are scaled so that results are about 1."""

    implementation: Any
    primitive: Primitive
    shapes: tuple[tuple[int, ...], ...]
    constant: tuple[int, ...] = ()
    fused: tuple[Fused, ...] = ()
    arity: int | None = None

    def arrays(self, rng: np.random.Generator) -> list[Any]:
        """Return the inputs."""
        made: list[Any] = [rng.standard_normal(s).astype(np.float32) for s in self.shapes]
        for slot in self.constant:
            made[slot] /= np.float32(np.sqrt(made[slot][0].size))
        if isinstance(self.primitive, ExpertMatMul):
            made[1] *= np.float32(np.sqrt(made[1].shape[2]))
            made[2] = np.sort(rng.integers(0, len(made[1]), made[2].shape))
        if isinstance(p := self.primitive, BlockMatMul):
            packed = rng.integers(0, 256, (p.columns, p.depth * p.bits // 8)).astype(np.uint8)
            scales = np.full((p.columns, p.depth // p.block), 2.0 ** (1 - p.bits) / np.sqrt(p.depth))
            made.append(Records(p.bits, p.block, p.zeros).pack(packed, scales))
        return made


def convolution(side: int, strides: int = 1, groups: int = 1) -> Convolution:
    return Convolution((strides, strides), (1, 1), ((side // 2, side // 2),) * 2, groups)


GATE = (Fused(Activation("relu"), where="pre"),)
WIDE = (240, 40, 1, 1), (240,), (240, 1, 5, 5), (240,), (40, 240, 1, 1), (40,)
CASES = {
    "bottleneck": Case(
        BottleneckFsv16, Bottleneck(convolution(5, 1, 240)), ((1, 40, 28, 28), *WIDE), (1, 2, 3, 4, 5, 6)
    ),
    "7x7 of 512": Case(ConvFsv16, convolution(3), ((1, 512, 7, 7), (512, 512, 3, 3), (512,)), (1, 2)),
    "point of 2048": Case(ConvFsv16, convolution(1), ((1, 2048, 7, 7), (512, 2048, 1, 1), (512,)), (1, 2)),
    "image": Case(ConvPlanar, convolution(7, 2), ((1, 3, 224, 224), (64, 3, 7, 7), (64,)), (1, 2)),
    "waveform": Case(
        ConvWindows, Convolution((160,), (1,), ((0, 0),), 1), ((1, 1, 16000), (257, 1, 512), (257,)), (1, 2)
    ),
    "staged": Case(ConvStaged, convolution(1), ((1, 480, 28, 28), (128, 480, 1, 1)), (1,), GATE),
    "depthwise": Case(DepthwiseFsv16, convolution(5, 1, 240), ((1, 240, 28, 28), (240, 1, 5, 5), (240,)), (1, 2)),
    "winograd": Case(ConvWinograd, convolution(3), ((1, 512, 14, 14), (512, 512, 3, 3), (512,)), (1, 2)),
    "strassen": Case(ConvStrassen, convolution(1), ((1, 512, 12, 12), (512, 512, 1, 1), (512,)), (1, 2)),
    "transposed": Case(
        ConvTransposeFsv16,
        ConvTranspose((2, 2), (1, 1), ((1, 1), (1, 1)), (0, 0)),
        ((1, 256, 28, 28), (256, 64, 4, 4)),
        (1,),
    ),
    "matmul": Case(MatMulRows, MatMul(), ((128, 3072), (3072, 768), (768,)), (1, 2)),
    "row by digits": Case(BlockMatMulDigits, BlockMatMul(1024, 4864, 4, 32), ((1, 4864),)),
    "row by pairs of bytes": Case(BlockMatMulPairs, BlockMatMul(1024, 4864, 4, 32), ((1, 4864),)),
    "rows by digits": Case(BlockMatMulDigits, BlockMatMul(192, 4096, 8, 128), ((24, 4096),)),
    "row by weights of 4 bits": Case(BlockMatMulRows, BlockMatMul(1024, 4864, 4, 32), ((1, 4864),)),
    "rows by weights of 2 bits": Case(BlockMatMulRows, BlockMatMul(192, 4096, 2, 64), ((24, 4096),)),
    "matmul of two tensors": Case(MatMulRows, MatMul(), ((12, 128, 128), (12, 128, 64))),
    "rows of experts": Case(ExpertMatMulRows, ExpertMatMul(), ((128, 3072), (4, 3072, 192), (128,)), (1,)),
    "attention": Case(AttentionRows, Attention(0.125, by_key=True), ((12, 512, 64),) * 3),
    "attention by lanes": Case(AttentionColumns, Attention(0.125, by_key=True), ((12, 512, 64),) * 3),
    "layer normalization": Case(NormalizeRows, LayerNormalization(1), ((512, 768), (768,), (768,)), (1, 2)),
    "softmax": Case(SoftmaxRows, Softmax((1,)), ((40, 6625),)),
    "softmax over channels": Case(SoftmaxPlanes, Softmax((1,)), ((1, 16, 4, 2100),)),
    "average": Case(PoolFsv16, Pooling("average", (7, 7), (1, 1), (1, 1), ((0, 0), (0, 0))), ((1, 512, 14, 14),)),
    "mean of a plane": Case(ReduceSpatialFsv16, Reduce("mean", (2, 3)), ((1, 480, 56, 56),)),
    "mean of a row": Case(ReduceElements, Reduce("mean", (1,)), ((64, 60000),)),
    "mean of columns": Case(ReduceElements, Reduce("mean", (0,)), ((60000, 64),)),
    "interpolation": Case(ResizeFsv16, Resize("linear", scales=(1.0, 1.0, 2.0, 2.0)), ((1, 96, 40, 40),)),
    "running sum of rows": Case(CumulativeSumElements, CumulativeSum(1), ((8, 60000),)),
    "running sum": Case(CumulativeSumPlanes, CumulativeSum(1), ((4, 400, 96),)),
    "local response": Case(LrnFsv16, Lrn(5, 1e-4, 0.75, 1.0), ((1, 96, 54, 54),)),
}


def test_every_tile_that_adds_up_has_a_case() -> None:
    own = [i for i in IMPLEMENTATIONS.values() if i.__module__.startswith("clgraph.implementations.cpu.")]
    assert {i.name for i in own if i.primitive.kind not in EXACT | OTHER} - SAME - ROUNDED - MIXED - TYPED == {
        c.implementation.name for c in CASES.values()
    }


@pytest.mark.opencl
@pytest.mark.parametrize("name", CASES)
def test_the_worst_error_is_small_beside_the_largest_result(engine, name) -> None:
    case, rng = CASES[name], np.random.default_rng(0)
    serves(engine, case.implementation)
    arrays = case.arrays(rng)
    layouts = [Layout.of(a) for a in arrays]
    primitive = case.primitive.bind(layouts, [None] * len(layouts)).primitive
    arity = len(arrays)
    q = pose(
        engine.info, case.implementation, primitive, layouts, arity=arity, fused=case.fused, constant=case.constant
    )
    given = list(arrays)
    unpacked = replace(q, primitive=primitive).with_layouts((q.inputs[0], *layouts[1:]), q.outputs)
    for slot, asked in case.implementation.weights(unpacked).items():
        if isinstance(asked, Primitive):
            (given[slot],) = asked.reference(given[slot])
    got = run_tiles(engine, case.implementation, q, given).astype(np.float64)
    want = wanted(unpacked, arrays)
    scale = np.abs(want).max()
    error = np.abs(got - want).max() / scale
    print(f"{case.implementation.name:28}{name:24}{error:.1e} of {scale:.3g}")
    assert error <= BOUND
