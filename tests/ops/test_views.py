"""General implementations read tensors with halos and write into parts of larger buffers, and nothing beside them."""

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.packing import pack
from clgraph.graph.topology import Topology
from clgraph.implementations.portable.convolution import ConvolutionGpuTiled
from clgraph.implementations.portable.matmul import MatMulGpuTiled
from clgraph.network.network import Network
from clgraph.network.tensors import gather
from clgraph.ops.activation import Activation, ActivationRef
from clgraph.ops.arg import ArgExtremum, ArgRef
from clgraph.ops.batch_normalization import BatchNormalization, BatchNormalizationRef
from clgraph.ops.concat import Concat, ConcatRef
from clgraph.ops.conv_transpose import ConvTranspose, ConvTransposeRef
from clgraph.ops.convolution import Convolution, ConvolutionRef
from clgraph.ops.cumulative_sum import CumulativeSum, CumulativeSumRef
from clgraph.ops.eltwise import Eltwise, EltwiseCompareRef, EltwiseIntRef, EltwiseRef
from clgraph.ops.expand import Expand, ExpandRef, Repeat, RepeatRef
from clgraph.ops.gather import Gather, GatherRef
from clgraph.ops.layer_normalization import LayerNormalization, LayerNormalizationRef
from clgraph.ops.lrn import Lrn, LrnRef
from clgraph.ops.matmul import MatMul, MatMulRef
from clgraph.ops.pad import Pad, PadRef
from clgraph.ops.pooling import Pooling, PoolingRef
from clgraph.ops.reduce import Reduce, ReduceRef
from clgraph.ops.reorder import Reorder, ReorderRef
from clgraph.ops.reshape import Reshape, ReshapeRef
from clgraph.ops.resize import Resize, ResizeRef
from clgraph.ops.slice import Slice, SliceRef
from clgraph.ops.softmax import Softmax, SoftmaxRef
from clgraph.ops.space import Shuffle, ShuffleRef
from clgraph.ops.split import Split, SplitRef
from clgraph.ops.transpose import Transpose, TransposeRef
from clgraph.ops.where import Where, WhereRef
from clgraph.passes.base import Context
from clgraph.passes.manager import PassManager
from clgraph.passes.pipeline import required_pipeline
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.query import Query
from tests.support.check_op import run_raw
from tests.support.onnx_case import reference_outputs

pytestmark = pytest.mark.opencl
X = (2, 9, 5, 6)
SQUARE = ((1, 1), (1, 1))
CASES = [
    (ActivationRef, Activation("relu"), [X]),
    (EltwiseRef, Eltwise("add"), [X, (9, 1, 1)]),
    (EltwiseIntRef, Eltwise("add"), [(4, 5), (5,)]),
    (EltwiseCompareRef, Eltwise("less"), [X, X]),
    (ConvolutionRef, Convolution((1, 1), (1, 1), SQUARE), [X, (8, 9, 3, 3), (8,)]),
    (ConvolutionGpuTiled, Convolution((1, 1), (1, 1), SQUARE), [X, (8, 9, 3, 3), (8,)]),
    (ConvTransposeRef, ConvTranspose((2, 2), (1, 1), SQUARE, (0, 0)), [X, (9, 4, 2, 2), (4,)]),
    (PoolingRef, Pooling("average", (3, 3), (2, 2), (1, 1), SQUARE), [X]),
    (MatMulRef, MatMul(), [(2, 3, 4, 5), (3, 5, 6), (6,)]),
    (MatMulGpuTiled, MatMul(), [(2, 3, 4, 5), (3, 5, 6), (6,)]),
    (ReduceRef, Reduce("sum", (1, 3)), [X]),
    (SoftmaxRef, Softmax((1,)), [X]),
    (BatchNormalizationRef, BatchNormalization(), [X, (9,), (9,), (9,), (9,)]),
    (LayerNormalizationRef, LayerNormalization(3), [X, (6,), (6,)]),
    (LrnRef, Lrn(3, 0.01), [X]),
    (ResizeRef, Resize("linear", shape=(2, 9, 7, 9), scales=(1, 1, 1.4, 1.5)), [X]),
    (TransposeRef, Transpose((0, 2, 3, 1)), [X]),
    (SliceRef, Slice((0, 8, 1, 0), (2, 0, 5, 6), (1, -3, 2, 1)), [X]),
    (SplitRef, Split(1, (4, 5)), [X]),
    (ConcatRef, Concat(1), [X, (2, 3, 5, 6)]),
    (ExpandRef, Expand((2, 9, 5, 6)), [(9, 1, 6)]),
    (RepeatRef, Repeat((1, 2, 3, 1)), [X]),
    (ReshapeRef, Reshape((9, 10, 6)), [X]),
    (ShuffleRef, Shuffle(3), [X]),
    (PadRef, Pad(((0, 0), (1, 0), (0, 2), (3, 1)), "reflect"), [X]),
    (ReorderRef, Reorder(DType.F16), [X]),
    (ArgRef, ArgExtremum(axis=1), [X]),
    (CumulativeSumRef, CumulativeSum(2), [X]),
]


def around(layout):
    """The layout with a halo on every axis."""
    return layout.with_halo(((1, 2),) * layout.rank)


def inside(layout):
    """The layout as a part of a buffer that is larger along every axis."""
    return layout.with_pitches(Layout(layout.dtype, tuple(d + 3 for d in layout.shape)).dense_pitches)


@pytest.mark.parametrize(("implementation", "primitive", "shapes"), CASES, ids=[c[0].name for c in CASES])
def test_halos_are_read_over_and_pitches_kept(implementation, primitive, shapes, engine):
    rng = np.random.default_rng(0)
    dtype = DType.I32 if implementation is EltwiseIntRef else DType.F32
    arrays = [(rng.random(s) * 8).astype(dtype.numpy) for s in shapes]
    check(engine, implementation, primitive, arrays)


def test_conditions_and_indices_may_have_halos_too(engine):
    rng = np.random.default_rng(0)
    x = rng.random(X).astype(np.float32)
    check(engine, WhereRef, Where(), [rng.random((9, 1, 6)) < 0.5, x, -x])
    check(engine, GatherRef, Gather(1), [x, rng.integers(-9, 9, (3, 2))])


def test_elementwise_kernels_and_operands_of_fused_operations_may_be_overwritten(engine):
    topology = Topology()
    x = topology.input("x", (1, 9, 5, 6))
    weights = topology.constant("w", np.random.default_rng(1).random((9, 9, 1, 1)).astype(np.float32))
    left = topology.add("left", Activation("linear", 2.0, 1.0), x)
    right = topology.add("right", Activation("relu"), topology.add("before", Activation("neg"), left))
    convolution = topology.add("convolution", Convolution(), topology.add("abs", Activation("abs"), x), weights)
    topology.output(
        "y", topology.add("sum", Eltwise("add"), convolution, topology.add("more", Eltwise("sub"), left, right))
    )
    program = topology.build()
    program.fuse(program["sum"], program["convolution"])
    place = engine.info.name
    special = frozenset(n for n in IMPLEMENTATIONS if not IMPLEMENTATIONS[n].general)
    PassManager(required_pipeline()).run(program, Context(devices={place: engine.info}, denied=special))
    buffers = {node.name: node.output.buffer for node in program}
    assert buffers["right"] is buffers["before"]
    assert buffers["before"] is not buffers["left"], "left is read later"
    assert buffers["convolution"] is buffers["more"]
    feed = np.random.default_rng(0).standard_normal((1, 9, 5, 6)).astype(np.float32)
    (want,) = reference_outputs(topology.build(), {"x": feed})
    got = Network(program, {place: engine}).run({"x": feed})["y"]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def check(engine, implementation, primitive, arrays):
    inputs = [around(Layout.of(a)) for a in arrays]
    outputs = tuple(inside(x) for x in primitive.infer([Layout.of(a) for a in arrays]))
    query = Query(primitive, tuple(inputs), outputs, engine.info, len(inputs))
    packed = [pack(a, x) for a, x in zip(arrays, inputs, strict=True)]
    for memory, layout, want in zip(
        run_raw(engine, implementation, query, packed), outputs, primitive.reference(*arrays), strict=True
    ):
        # The references are float32 too; sums of at most 81 products of numbers below 8.
        np.testing.assert_allclose(gather(memory, layout), want, rtol=1e-4)
        written = np.zeros(memory.size, bool)
        places = np.array([layout.offset(at) for at in np.ndindex(*layout.shape)])
        written[places] = True
        assert (memory[~written].view(np.uint8) == 0x5B).all(), "wrote beside its part of the buffer"
