"""Winograd convolutions of GPUs against float64: sizes, pads, fused operations, and on which products they rest."""

from dataclasses import replace

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.convolution_winograd import ConvolutionGpuWinograd
from clgraph.implementations.matrix_units.nvidia.convolution import ConvolutionNvidiaF32
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.winograd_weights import WinogradWeights, WinogradWeightsRef
from clgraph.selector.query import Query
from tests.support.check_op import check_op
from tests.support.gpus import H200
from tests.support.winograd import winograd

NAME = "convolution.gpu_winograd"


def _conv(pads):
    return Convolution((1, 1), (1, 1), pads)


def _magnitude(pads):
    """What the header's bound is in units of; a bias adds itself."""
    return lambda x, w, *bias: winograd(x, w, pads, magnitude=True) + (np.abs(bias[0])[:, None, None] if bias else 0)


def _check(engine, x, outputs, pads, *, fused=(), scale=None, extra=0, families=("normal", "wide")):
    w = (outputs, x[1], 3, 3)
    found = check_op(
        engine,
        _conv(pads),
        *(x, w, (outputs,)),
        # The header's bound, n + 15; a unit of the second order, and one for the bias.
        ulps=x[1] + 15 + 2 + extra,
        scale=scale or _magnitude(pads),
        constant=(1, 2),
        fused=fused,
        families=families,
        only=[NAME],
    )
    assert NAME in found


PADS = [((1, 1), (1, 1)), ((0, 0), (0, 0)), ((0, 2), (1, 0)), ((3, 1), (2, 3))]


@pytest.mark.opencl
@pytest.mark.parametrize("height", [1, 6, 3, 8])
def test_every_remainder_of_the_tiles_is_right(height, gpu_engine):
    for width in (5, 2, 7, 4):
        pads = PADS[(height + width) % len(PADS)]
        size = (max(n, 3 - sum(p)) for n, p in zip((height, width), pads, strict=True))
        _check(gpu_engine, (2, 8, *size), 12, pads, families=("normal",))


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("x", "outputs"),
    [((1, 4, 70, 1), 4), ((1, 12, 1, 70), 8), ((3, 20, 33, 18), 36), ((1, 64, 13, 14), 72), ((5, 16, 7, 7), 132)],
)
@pytest.mark.parametrize("pads", [PADS[0], PADS[3]])
def test_sizes_and_channels_are_within_the_bound(x, outputs, pads, gpu_engine):
    _check(gpu_engine, x, outputs, pads)


@pytest.mark.slow
@pytest.mark.opencl
@pytest.mark.parametrize("seed", range(40))
def test_any_size_and_pads_are_within_the_bound(seed, gpu_engine):
    rng = np.random.default_rng(seed)
    pads = tuple((int(a), int(b)) for a, b in rng.integers(0, 4, (2, 2)))
    sides = (max(int(n), 3 - sum(p)) for n, p in zip(rng.integers(1, 71, 2), pads, strict=True))
    channels, outputs = (4 * int(n) for n in rng.integers(1, 24, 2))
    _check(gpu_engine, (int(rng.integers(1, 4)), channels, *sides), outputs, pads, families=("normal",))


@pytest.mark.opencl
@pytest.mark.parametrize(("x", "outputs"), [((2, 8, 9, 6), 12), ((1, 36, 22, 21), 72)])
def test_on_nvidia_the_products_are_those_of_its_pipeline(x, outputs, nvidia_engine):
    count = len(nvidia_engine.ran)
    _check(nvidia_engine, x, outputs, PADS[2], families=("normal",))
    assert {entry for entry, _, _ in nvidia_engine.ran[count:]} == {"matmul_nvidia"}


@pytest.mark.opencl
def test_bias_residual_and_activation_are_applied_in_order(gpu_engine):
    pads, shape = PADS[0], (2, 12, 6, 7)
    fused = [(Eltwise("add"), [shape], 1), (Activation("relu"), [], 0), (Eltwise("mul"), [(12, 1, 1)], 0)]
    # The residual is part of the sum; the addition and the product round once each.
    scale = lambda x, w, b, r, m: (_magnitude(pads)(x, w, b) + np.abs(r)) * np.abs(m)  # noqa: E731
    _check(gpu_engine, (2, 8, 6, 7), 12, pads, fused=fused, scale=scale, extra=2)


@pytest.mark.opencl
def test_weights_are_transformed_on_the_device(gpu_engine):
    # Rounding once is half an ulp; sums of doubles that cancel add 2^-50 of the largest weight.
    scale = lambda w: np.abs(WinogradWeights(0).reference(w)[0]) + 2.0**-26 * np.abs(w).max()  # noqa: E731
    check_op(gpu_engine, WinogradWeights(0), (7, 5, 3, 3), ulps=1, scale=scale, only=[WinogradWeightsRef.name])


def _refusal(x=(1, 8, 9, 8), w=(12, 8, 3, 3), primitive=None, device=H200, dtype=DType.F32):
    last, primitive = channels_last(len(x)), primitive or _conv(PADS[0])
    layouts = (Layout(dtype, x, last), Layout(dtype, w))
    y = primitive.infer([v.plain() for v in layouts])[0].with_format(last)
    return ConvolutionGpuWinograd.refusal(Query(primitive, layouts, (y,), device, 2, constant=frozenset({1})))


def test_what_it_does_not_compute_is_refused_with_the_reason():
    assert _refusal() is None
    assert _refusal(dtype=DType.F16) == "serves f32, not f16"
    assert "3x3 windows" in str(_refusal(w=(12, 8, 5, 5)))
    assert "without stride" in str(_refusal(primitive=Convolution((2, 1), (1, 1), PADS[0])))
    assert "without stride" in str(_refusal(primitive=Convolution((1, 1), (1, 2), PADS[0])))
    assert "without stride" in str(_refusal(w=(12, 4, 3, 3), primitive=Convolution((1, 1), (1, 1), PADS[0], 2)))
    assert "rounds otherwise" in str(_refusal(primitive=replace(_conv(PADS[0]), exact=True)))
    assert "multiple of 4 channels" in str(_refusal(w=(10, 8, 3, 3)))
    assert "allocations of more than" in str(_refusal(device=replace(H200, max_alloc=36 * 6 * 12 * 4 - 1)))
    # There are products that want no local memory.
    assert _refusal(device=replace(H200, local_bytes=4 << 10)) is None


def _model(rng, channels, side, batch):
    topology = clgraph.Topology()
    w = topology.constant("w", rng.standard_normal((channels, channels, 3, 3)).astype(np.float32))
    x = topology.input("x", (batch, channels, side, side))
    topology.output("y", topology.add("conv", _conv(PADS[0]), x, w))
    return topology


def _estimates(channels, side, batch):
    last = channels_last(4)
    x, w = Layout(DType.F32, (batch, channels, side, side), last), Layout(DType.F32, (channels, channels, 3, 3))
    q = Query(_conv(PADS[0]), (x, w), (x,), H200, 2, constant=frozenset({1}))
    return ConvolutionGpuWinograd.predicted(q), ConvolutionNvidiaF32.predicted(q)


def test_large_problems_are_left_to_it_and_small_ones_to_direct_convolution():
    for channels, side in ((128, 28), (256, 14), (512, 7)):
        fast, direct = _estimates(channels, side, 64)
        assert fast < direct
        slow, direct = _estimates(channels, side, 1)
        assert slow > direct


@pytest.mark.opencl
def test_a_model_says_what_its_convolution_has_become_and_can_do_without(rng, device):
    topology, x = _model(rng, 8, 9, 1), rng.standard_normal((1, 8, 9, 9)).astype(np.float32)
    found = {}
    for on in (True, False):
        config = {"winograd": on, "force_kernels": {"conv": NAME}} if on else {"winograd": False}
        model = clgraph.compile(
            topology, device=device, config={"device_class": "gpu", "verify_passes": True, **config}
        )
        report = model.explain()["conv"]
        assert (report.implementation == NAME) is on
        if on:
            assert report.primitive == "winograd_convolution(pads=((1, 1), (1, 1)), outputs=8)"
            assert report.steps[0] == "winograd_input_gpu_vectors"
            assert report.steps[-1] == "winograd_output_gpu_vectors"
        found[on] = model.run({"x": x})["y"]
    bound = 2.0**-24 * (8 + 17 + 72) * winograd(x, topology.constants["w"], PADS[0], magnitude=True)
    assert (np.abs(found[True] - found[False]) <= bound).all()


@pytest.mark.opencl
def test_images_do_not_reach_into_each_other(gpu_engine):
    draw = {0: lambda rng, shape: rng.standard_normal(shape) * np.array([1e6, 1.0, 1e6])[:, None, None, None]}
    pads = PADS[3]
    check_op(
        gpu_engine,
        _conv(pads),
        *((3, 4, 6, 6), (4, 4, 3, 3)),
        ulps=4 + 16,
        scale=_magnitude(pads),
        constant=(1,),
        draw=draw,
        families=("normal",),
        only=[NAME],
    )
