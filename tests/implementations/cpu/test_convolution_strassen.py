"""1x1 convolutions by Strassen's algorithm against float64: sizes, batches, halos and lists of post-operations."""

import numpy as np
import pytest

import clgraph
from clgraph.compilation.context import context_of, for_families
from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.implementations.cpu.convolution import ConvFsv16
from clgraph.implementations.cpu.convolution_strassen import ConvStrassen
from clgraph.implementations.cpu.strassen_weights import PackStrassen
from clgraph.ops.convolution import Convolution
from clgraph.ops.strassen_convolution import StrassenConvolution
from clgraph.ops.strassen_weights import StrassenWeights, weights_of
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo, Query
from clgraph.settings import Settings
from tests.support.run_tiles import POSTS, any_halo, check_tiles, post_list
from tests.support.strassen import strassen

PADS = ((0, 0), (0, 0))


def magnitudes(x, w, vectors):
    """Return the size of what is added up for each element of the convolution."""
    n, c, height, width = x.shape
    outputs, lanes = len(w), 16 * vectors
    rows = x.reshape(n, 2, c // 2, height // 2, 2, width).transpose(4, 1, 0, 3, 5, 2).reshape(2, 2, -1, c // 2)
    quarters = w.reshape(-1, 2, lanes, 2, c // 2).transpose(3, 1, 4, 0, 2).reshape(2, 2, c // 2, -1)
    size = strassen(rows, quarters, magnitude=True)
    size = size.reshape(2, 2, n, height // 2, width, -1, lanes).transpose(2, 5, 1, 6, 3, 0, 4)
    return size.reshape(n, outputs, height, width)


def check_strassen(engine, seed, shape, outputs, stride=1):
    rng = np.random.default_rng(seed)
    arrays = [
        rng.standard_normal(s).astype(np.float32)
        for s in (shape, (outputs, shape[1], 1, 1), (outputs,))[: 2 + int(rng.integers(2))]
    ]
    primitive, arity = Convolution((stride, stride), (1, 1), PADS), len(arrays)
    out = primitive.infer([Layout.of(a) for a in arrays])[0].shape
    read, w = arrays[0][:, :, ::stride, ::stride].astype(np.float64), arrays[1].astype(np.float64)
    size = magnitudes(read, w, 2 if engine.info.simd >= 16 else 1)
    fused, slope = post_list(POSTS[seed], out, arrays, rng)
    # The header's bound and second-order terms; a bias, a residual and each operation of the list add a rounding or a
    # few of the value they make.
    check_tiles(
        engine,
        ConvStrassen,
        primitive,
        arrays,
        slope * (1.5 * shape[1] + 7 + 1 + 20),
        arity=arity,
        size=size + 4,
        constant=tuple(range(1, arity)),
        fused=fused,
        out_halo=any_halo(rng, 4),
    )


@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(len(POSTS)))
def test_strassen_convolutions_agree_with_float64(engine, seed):
    rng = np.random.default_rng(3000 + seed)
    wide = int(rng.choice([8, 10, 12, 14] if engine.info.simd >= 16 else [4, 5, 6]))
    stride, odd = 1 + seed % 3 // 2, seed % 2
    height, width = 2 * int(rng.integers(1, 5)), wide * (1 + odd)
    shape = (
        int(rng.integers(1, 4)),
        32 * int(rng.integers(1, 5)),
        stride * height - odd * (stride - 1),
        stride * width,
    )
    check_strassen(engine, seed, shape, 64 * int(rng.integers(1, 10)), stride)


def test_seven_products_make_the_quarters(rng):
    a, b = rng.standard_normal((2, 2, 3, 5)), rng.standard_normal((2, 2, 5, 4))
    whole = np.block([[a[0, 0], a[0, 1]], [a[1, 0], a[1, 1]]]) @ np.block([[b[0, 0], b[0, 1]], [b[1, 0], b[1, 1]]])
    np.testing.assert_allclose(np.block([list(row) for row in strassen(a, b)]), whole, atol=1e-13)


def test_the_bound_in_the_header_is_the_largest():
    """Ones everywhere: no sum of products is larger than 9 for each channel."""
    assert strassen(np.ones((2, 2, 1, 1)), np.ones((2, 2, 1, 1)), magnitude=True).max() == 2 * 9


@pytest.mark.opencl
@pytest.mark.parametrize("vectors", [1, 2])
def test_the_device_adds_weights_up_and_rounds_once(engine, rng, vectors):
    w = rng.standard_normal((192, 70, 1, 1)).astype(np.float32)
    primitive = StrassenWeights(vectors)
    # Half an ulp of a sum of up to four weights; what doubles round is 2^-52 of that.
    size = np.full(primitive.infer([Layout.of(w)])[0].shape, 4.1 * np.abs(w).max())
    check_tiles(engine, PackStrassen, primitive, [w], 1.0, size=size)


def test_the_weights_can_be_computed_back(rng):
    w = rng.standard_normal((128, 34, 1, 1))
    (u,) = StrassenWeights(2).reference(w)
    assert u.shape == (2, 7, 17, 32)
    np.testing.assert_allclose(weights_of(u), w, atol=1e-15)
    x = rng.standard_normal((2, 34, 3, 5))
    (expected,) = Convolution((1, 1), (1, 1), PADS).reference(x, w)
    np.testing.assert_allclose(StrassenConvolution().reference(x, u)[0], expected, atol=1e-13)
    assert StrassenConvolution(2).infer([Layout.of(x), Layout.of(u)])[0].shape == (2, 128, 2, 3)
    with pytest.raises(ShapeError, match="192"):
        StrassenWeights(6).infer([Layout.of(w)])
    with pytest.raises(ShapeError, match="do not fit"):
        StrassenConvolution().infer([Layout.of(x[:, :32]), Layout.of(u)])


@pytest.mark.parametrize(
    ("channels", "outputs", "cached", "fewer"),
    [(1024, 512, 2.5e10, False), (256, 1024, 2.5e10, True), (1024, 512, 2e11, True)],
)
def test_sums_that_a_core_does_not_keep_cost_as_much_as_the_product_saves(channels, outputs, cached, fewer):
    """Each group of outputs reads the pixels and their sums again: 1.6 MB of 1024 channels, 0.4 MB of 256."""
    device = DeviceInfo("pocl:0", simd=16, workers=2, rates=Rates(1.8e11, ((2, 2.6e10),), cached=cached))
    x, y = (Layout(DType.F32, (1, c, 14, 14), feature_blocked(4)) for c in (channels, outputs))
    w = Layout(DType.F32, (outputs, channels, 1, 1))
    q = Query(Convolution((1, 1), (1, 1), PADS), (x, w), (y,), device, 2, constant=frozenset({1}))
    assert (ConvStrassen.cost(q) < ConvFsv16.cost(q)) == fewer


def test_maps_of_any_size_and_the_option_of_winograd_keep_them_direct():
    """Members of a family with an odd row would be compiled whole; a batch of any size changes nothing."""
    context = context_of({"": DeviceInfo()}, Settings(device="host"))
    for shape, direct in ((("n", 256, 14, 14), False), ((1, 256, "h", 14), True), ((1, 256, 14, None), True)):
        topology = clgraph.Topology()
        topology.input("x", shape)
        assert ConvStrassen.is_denied(for_families(context, topology).denied) == direct
    assert not ConvStrassen.is_denied(context.denied)
    assert ConvStrassen.is_denied(context_of({"": DeviceInfo()}, Settings(device="host", winograd=False)).denied)
