"""Fourier transforms: the references against ONNX Runtime, the products that stand for them on the device."""

import numpy as np
import pytest

import clgraph
from clgraph import Topology
from clgraph.ops.fourier_products import divides
from clgraph.ops.fourier_transform import FourierTransform, ShortTimeFourierTransform
from tests.support.onnx_case import agree, one_node

TRANSFORMS = {
    "complex": ((2, 12, 2), FourierTransform(axis=1)),
    "of a prime": ((3, 13, 2), FourierTransform(axis=1, inverse=True)),
    "one-sided": ((2, 3, 15, 1), FourierTransform(axis=2, onesided=True)),
    "along the first axis": ((9, 4, 2), FourierTransform(axis=0)),
    "cut": ((2, 12, 1), FourierTransform(7, axis=1)),
    "filled": ((2, 12, 2), FourierTransform(17, axis=1, inverse=True)),
    "back to real": ((2, 6, 2), FourierTransform(axis=1, inverse=True, onesided=True)),
    "back to an odd length": ((2, 6, 2), FourierTransform(11, axis=1, inverse=True, onesided=True)),
    "split": ((2, 576, 2), FourierTransform(axis=1)),
    "split twice": ((1, 2**19 + 2**18, 1), FourierTransform(axis=1)),
    "split, one-sided": ((1, 1025, 1), FourierTransform(axis=1, onesided=True)),
    "split, back to real": ((2, 400, 2), FourierTransform(1024, axis=1, inverse=True, onesided=True)),
    "split, real spectrum": ((1, 400, 1), FourierTransform(798, axis=1, inverse=True, onesided=True)),
}


def compiled(primitive, *shapes):
    topology = Topology()
    for i, shape in enumerate(shapes):
        topology.input(f"x{i}", shape)
    topology.output("y", topology.add("y", primitive, *topology.inputs))
    return clgraph.compile(topology)


def bound(x, axis, length, scale=1.0):
    """Of a float32 result: products in three stages at most, of sums of at most 1024 numbers, three roundings each."""
    stages = 3 * min(2 * length, 3 * 1024) + 9
    return stages * 2.0**-24 * scale * np.abs(x).sum(axis=(axis, -1)).max()


@pytest.mark.opencl
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_products_on_the_device(name, rng, monkeypatch):
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    shape, transform = TRANSFORMS[name]
    x = rng.standard_normal(shape).astype(np.float32)
    (want,) = transform.reference(x.astype(np.float64))
    (got,) = compiled(transform, shape).run(x0=x).values()
    length = max(transform.length or 0, shape[transform.axis], want.shape[transform.axis])
    np.testing.assert_allclose(got, want, atol=bound(x, transform.axis, length, 2 / length if transform.inverse else 1))


FRAMES = {
    "one-sided": ((2, 160, 1), (20,), 8, True),
    "complex": ((1, 64, 2), (16,), 16, False),
    "complex, one-sided": ((1, 64, 2), (16,), 16, True),
    "no window": ((1, 70, 1), None, 3, True),
    "long": ((1, 4096, 1), (2048,), 512, True),
}


@pytest.mark.opencl
@pytest.mark.parametrize("known", [True, False], ids=["known window", "window fed"])
@pytest.mark.parametrize("name", FRAMES)
def test_transforms_of_frames_are_products_on_the_device(name, known, rng, monkeypatch):
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    shape, window, step, onesided = FRAMES[name]
    x = rng.standard_normal(shape).astype(np.float32)
    w = None if window is None else np.hanning(*window).astype(np.float32)
    length = None if w is not None else np.array(12, np.int64)
    model, feeds = one_node(
        "STFT",
        [x, np.array(step, np.int64), w, length],
        opset=17,
        constant=(1, 2, 3) if known else (1, 3),
        onesided=int(onesided),
    )
    (got,) = clgraph.compile(model).run(feeds).values()
    size = 12 if w is None else len(w)
    arrays = [x.astype(np.float64)] + ([] if w is None else [w.astype(np.float64)])
    (want,) = ShortTimeFourierTransform(onesided, (), step, size).reference(*arrays)
    frames = np.lib.stride_tricks.sliding_window_view(np.abs(x).sum(-1), size, axis=1)
    np.testing.assert_allclose(got, want, atol=bound(frames[..., None], 2, size))


@pytest.mark.opencl
@pytest.mark.parametrize("known", [True, False], ids=["known window", "window fed"])
@pytest.mark.parametrize("length", [20, 2048])
def test_the_mean_and_the_highest_frequency_of_a_real_signal_are_real(length, known, rng):
    x, w = rng.standard_normal((1, 2 * length)).astype(np.float32), np.hanning(length).astype(np.float32)
    arrays = [x, np.array(length // 2), w]
    model, feeds = one_node("STFT", arrays, opset=17, constant=(1, 2) if known else (1,))
    (got,) = clgraph.compile(model).run(feeds).values()
    # An angle spelled by a comparison of the imaginary part with 0 would turn by 360 degrees with the sign of an error.
    np.testing.assert_array_equal(got[:, :, [0, -1], 1], 0)


@pytest.mark.opencl
def test_frames_of_doubles_are_a_product(rng):
    x, w = rng.standard_normal((2, 160, 1)), np.hanning(20)
    model, feeds = one_node("STFT", [x, np.array(8), w], opset=17, constant=(1, 2))
    compiled = clgraph.compile(model)
    (got,) = compiled.run(feeds).values()
    assert "matmul" in {node.primitive.kind for node in compiled.program}
    (want,) = ShortTimeFourierTransform(True, (), 8, 20).reference(x, w)
    # 20 products, one rounding each for window, matrix, product and sum; NumPy's transforms are nearer than that.
    np.testing.assert_allclose(got, want, atol=2 * 4 * 20 * 2.0**-53 * 20 * np.abs(x).max())


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("inverse", [0, 1])
def test_dft_agrees_with_onnxruntime(onesided, inverse, rng):
    pair = 1 if onesided and not inverse else 2
    x = rng.standard_normal((2, 9, pair)).astype(np.float32)
    if onesided and inverse:
        x[:, 0, 1] = 0  # of a real signal
    # 2 * 18 products below 4 in float32, by Bluestein's algorithm in ONNX Runtime: 9e-6 at the very worst.
    agree("DFT", [x], opset=17, inverse=inverse, onesided=onesided, axis=1, atol=1e-5, by_definition=False)


def test_stft_agrees_with_onnxruntime(rng):
    window = np.hanning(16).astype(np.float32)
    for shape in ((2, 64, 1), (2, 64), (2, 64, 2)):
        x = rng.standard_normal(shape).astype(np.float32)
        agree("STFT", [x, np.array(8), window], opset=17, constant=(1, 2), atol=1e-5, by_definition=False)


@pytest.mark.opencl
@pytest.mark.parametrize(("dtype", "inside"), [(np.float16, 2.0**-24), (np.float64, 2.0**-53)])
def test_narrow_and_wide_floats_keep_their_type(dtype, inside, rng):
    x = rng.standard_normal((2, 24, 1)).astype(dtype)
    model, feeds = one_node("DFT", [x], opset=17, axis=1, onesided=1)
    (got,) = clgraph.compile(model).run(feeds).values()
    assert got.dtype == dtype
    want = FourierTransform(axis=1, onesided=True).reference(x.astype(np.float64))[0]
    # Sums of 24 products, three roundings each, and the last one to the type.
    sums = 3 * 24 * inside * np.abs(x.astype(np.float64)).sum(axis=1).max()
    np.testing.assert_allclose(got, want, rtol=np.finfo(dtype).eps / 2, atol=sums)


@pytest.mark.opencl
def test_a_large_prime_is_left_to_the_host():
    assert all(map(divides, (400, 1021, 2 * 1021)))
    assert not divides(2 * 5003)
    model = compiled(FourierTransform(axis=1), (1, 5003, 2))
    assert [str(node.placement) for node in model.program] == ["host"]


@pytest.mark.opencl
def test_signals_of_any_length_are_bound_to_one_family(rng):
    topology = Topology()
    topology.input("x", (1, "samples", 1))
    topology.constant("w", np.hanning(16).astype(np.float32))
    stft = ShortTimeFourierTransform(True, (), 4, 16)
    topology.output("y", topology.add("y", stft, "x", "w"))
    model = clgraph.compile(topology)
    for samples in (64, 80, 35, 16):
        x = rng.standard_normal((1, samples, 1)).astype(np.float32)
        (got,) = model.run(x=x).values()
        (want,) = stft.reference(x.astype(np.float64), np.hanning(16))
        np.testing.assert_allclose(got, want, atol=bound(x, 1, 16))


@pytest.mark.parametrize("periodic", [0, 1])
@pytest.mark.parametrize("size", [1, 7])
def test_windows_of_any_size_agree_with_onnxruntime(size, periodic):
    agree("HannWindow", [np.array(size)], opset=17, constant=(0,), periodic=periodic)
