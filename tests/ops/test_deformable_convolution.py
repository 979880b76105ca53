"""Convolutions whose taps are moved: the reference against ONNX Runtime, what stands for it on the device."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import clgraph
from clgraph.errors import ShapeError
from clgraph.ops.deformable_convolution import DeformableConvolution
from tests.support.onnx_case import agree, one_node

CASES = {
    "of pictures": ((2, 4, 6, 7), (3, 4, 3, 3), {"pads": (1, 1, 1, 1)}),
    "with steps": ((1, 2, 9, 8), (4, 2, 2, 3), {"strides": (2, 1), "dilations": (1, 2), "pads": (0, 2, 1, 1)}),
    "in groups": ((1, 6, 5, 5), (4, 3, 2, 2), {"group": 2, "offset_group": 3}),
    "of lines": ((2, 2, 9), (3, 2, 3), {"pads": (1, 1)}),
    "of volumes": ((1, 2, 3, 4, 5), (2, 2, 2, 2, 2), {}),
    "of one row": ((1, 2, 1, 6), (2, 2, 1, 3), {}),
}


def arrays(name, rng, dtype=np.float32, more=True):
    """Return x, w, offset, bias, mask of a case."""
    shape, weights, attributes = CASES[name]
    axes, taps, parts = len(shape) - 2, int(np.prod(weights[2:])), attributes.get("offset_group", 1)
    ones = (1,) * axes
    pads = attributes.get("pads", (0,) * 2 * axes)
    steps, apart = attributes.get("strides", ones), attributes.get("dilations", ones)
    out = [
        (shape[2 + a] + pads[a] + pads[axes + a] - (weights[2 + a] - 1) * apart[a] - 1) // steps[a] + 1
        for a in range(axes)
    ]
    made = [rng.standard_normal(s).astype(dtype) for s in (shape, weights)]
    made.append(rng.uniform(-2, 2, (shape[0], parts * taps * axes, *out)).astype(dtype))
    if more:
        made.append(rng.standard_normal(weights[0]).astype(dtype))
        made.append(rng.uniform(0, 1, (shape[0], parts * taps, *out)).astype(dtype))
    return made


@pytest.mark.opencl
@pytest.mark.parametrize("more", [False, True], ids=["plain", "bias and mask"])
@pytest.mark.parametrize("name", CASES)
def test_the_device_reads_and_multiplies(name, more, rng, monkeypatch):
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    given = arrays(name, rng, more=more)
    model, feeds = one_node("DeformConv", given, opset=19, **CASES[name][2])
    (got,) = clgraph.compile(model).run(feeds).values()
    attributes = CASES[name][2]
    axes = given[0].ndim - 2
    pads = attributes.get("pads", (0,) * 2 * axes)
    bound = DeformableConvolution(
        attributes.get("strides", (1,) * axes),
        attributes.get("dilations", (1,) * axes),
        tuple(zip(pads[:axes], pads[axes:], strict=True)),
        attributes.get("group", 1),
        attributes.get("offset_group", 1),
        ("bias", "mask") if more else (),
    )
    (want,) = bound.reference(*(a.astype(np.float64) for a in given))
    # A place up to 3 + 2 pixels outside of 9 is rounded four times on its way, which moves both shares along each of at
    # most 3 axes, of pixels whose signs may differ. A sum of up to 24 products, two roundings each, and mask and bias.
    places = 4 * 2 * (9 + 5) * axes * 2
    scale = np.abs(given[0]).max() * np.abs(given[1]).reshape(len(given[1]), -1).sum(1).max() + 4
    np.testing.assert_allclose(got, want, rtol=0, atol=(places + 2 * 24 + 2) * 2.0**-24 * scale)


@pytest.mark.opencl
def test_narrow_offsets_are_added_in_float32(rng):
    given = arrays("of pictures", rng, np.float16)
    model, feeds = one_node("DeformConv", given, opset=19, pads=(1, 1, 1, 1))
    (got,) = clgraph.compile(model).run(feeds).values()
    assert got.dtype == np.float16
    bound = DeformableConvolution((1, 1), (1, 1), ((1, 1), (1, 1)), 1, 1, ("bias", "mask"))
    (want,) = bound.reference(*(a.astype(np.float64) for a in given))
    # Pixels, their products with the mask, and the result are rounded to 11 bits.
    scale = np.abs(given[0]).max() * np.abs(given[1]).astype(np.float64).reshape(3, -1).sum(1).max()
    np.testing.assert_allclose(got, want, rtol=2.0**-11, atol=4 * 2.0**-11 * scale)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("of lines", "of volumes")])
def test_the_reference_agrees_with_onnxruntime(name, rng):
    agree("DeformConv", arrays(name, rng), opset=19, **CASES[name][2])


@pytest.mark.opencl
def test_an_infinite_pixel_is_read_where_it_is_alone(device, rng):
    """ONNX Runtime multiplies it by 0 for places beyond the edges, ONNX's reference does not."""
    x, offset = rng.standard_normal((1, 1, 4, 4)), rng.uniform(-3, 3, (1, 2, 4, 4))
    x[0, 0, 0, 0] = np.inf
    given = [a.astype(np.float32) for a in (x, np.ones((1, 1, 1, 1)), offset)]
    model, feeds = one_node("DeformConv", given, opset=19)
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    (got,) = clgraph.compile(model, device=device).run(feeds).values()
    bound = DeformableConvolution((1, 1), (1, 1), ((0, 0), (0, 0)), 1, 1)
    # Along two axes a place below 8 is off by 2^-22, which changes a mixture by twice the largest pixel; four products.
    atol = (2 * 2 * 2.0**-22 + 8 * 2.0**-24) * np.abs(x[np.isfinite(x)]).max()
    for y in (got, *bound.reference(*given)):
        np.testing.assert_allclose(y, want, rtol=0, atol=atol)


def test_offsets_that_do_not_fit_are_refused(rng):
    given = arrays("of pictures", rng, more=False)
    given[2] = given[2][:, :-1]
    model, _ = one_node("DeformConv", given, opset=19, pads=(1, 1, 1, 1))
    with pytest.raises(ShapeError, match=r"offset .* is not"):
        clgraph.compile(model, device="null")
