"""Transposed convolution."""

import numpy as np
import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.ops.activation import Activation
from clgraph.ops.conv_transpose import ConvTranspose
from tests.support.check_op import check_op
from tests.support.onnx_case import agree, one_node, onnxruntime_outputs

CASES = {
    "doubling": ((1, 3, 5, 4), (3, 4, 2, 2), {"strides": [2, 2]}),
    "overlapping": ((2, 3, 5, 4), (3, 4, 3, 3), {"strides": [2, 1], "pads": [1, 0, 1, 1]}),
    "output_padding": ((1, 3, 5, 4), (3, 4, 3, 3), {"strides": [3, 2], "output_padding": [1, 1]}),
    "dilated": ((1, 3, 5, 4), (3, 2, 3, 2), {"dilations": [2, 2]}),
    "groups": ((1, 6, 5, 4), (6, 2, 3, 3), {"group": 3, "strides": [2, 2]}),
    "same_upper": ((1, 3, 5, 4), (3, 4, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same_lower": ((1, 3, 5, 4), (3, 4, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "output_shape": ((1, 3, 5, 4), (3, 4, 3, 3), {"output_shape": [10, 8], "strides": [2, 2]}),
    "one_axis": ((1, 3, 7), (3, 2, 4), {"strides": [2]}),
}


@pytest.mark.parametrize(
    "attributes",
    [{"strides": (2,)}, {"output_padding": (1,)}, {"output_shape": (9,)}, {"pads": ((0, 0),)}, {"groups": 0}],
)
def test_refuses_attributes_that_do_not_fit_the_axes(attributes):
    inputs = [Layout(DType.F32, (1, 3, 5, 4)), Layout(DType.F32, (3, 4, 3, 3))]
    with pytest.raises(ShapeError):
        ConvTranspose(**attributes).bind(inputs, [None, None]).primitive.infer(inputs)


@pytest.mark.parametrize("opset", [7, 11, 22])
@pytest.mark.parametrize("case", CASES)
def test_import_and_reference_agree_with_onnxruntime(case, opset, rng):
    x, w, attributes = CASES[case]
    bias = (w[1] * attributes.get("group", 1),)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in (x, w, bias)]
    agree("ConvTranspose", arrays, opset=opset, **attributes)
    agree("ConvTranspose", arrays[:2], opset=opset, **attributes)


DEVICE_CASES = {
    "doubling": ((1, 17, 5, 4), (17, 9, 2, 2), ConvTranspose((2, 2))),
    "overlapping": ((2, 3, 5, 4), (3, 4, 3, 3), ConvTranspose((2, 1), (1, 1), ((1, 1), (0, 1)))),
    "dilated": ((1, 3, 5, 4), (3, 2, 3, 2), ConvTranspose((3, 2), (2, 2), output_padding=(1, 0))),
    "groups": ((1, 6, 5, 4), (6, 2, 3, 3), ConvTranspose((2, 2), groups=3)),
    "one_axis": ((1, 3, 7), (3, 2, 4), ConvTranspose((2,))),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", DEVICE_CASES)
def test_every_implementation_is_within_the_bound_of_its_sum(case, engine):
    x, w, primitive = DEVICE_CASES[case]
    shapes = (x, w, (w[1] * primitive.groups,))
    bound = primitive.bind([Layout(DType.F32, s) for s in shapes], [None] * 3).primitive
    scale = lambda *arrays: bound.reference(*map(np.abs, arrays))[0]  # noqa: E731
    # At most every product of a channel's window, and the bias.
    length = w[0] * int(np.prod(w[2:])) + 1
    fused = [(Activation("leaky_relu", 0.25), [], 0)]
    check_op(engine, primitive, *shapes, ulps=length, scale=scale, constant=(1, 2))
    check_op(engine, primitive, *shapes, ulps=length + 1, scale=scale, constant=(1, 2), fused=fused)
    check_op(engine, primitive, *shapes, ulps=length, scale=scale, dtype=DType.F16)


SPREAD = {
    "tile": ((1, 20, 5, 6), (20, 33, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "tile_one_axis": ((2, 5, 4), (5, 40, 5), {"strides": [2]}),
    "tile_dilated": ((1, 17, 3, 5), (17, 20, 3, 3), {"dilations": [2, 2], "strides": [1, 2]}),
    "overlapping_windows": ((1, 16, 5, 6), (16, 2, 4, 4), {"strides": [2, 2]}),
    "a_convolution_a_phase": ((1, 16, 5, 6), (16, 1, 3, 3), {"strides": [2, 2], "group": 16}),
    "volume": ((1, 4, 3, 4, 5), (4, 5, 3, 3, 3), {"strides": [2, 2, 2]}),
}


@pytest.mark.opencl
@pytest.mark.parametrize("case", SPREAD)
def test_weights_that_are_not_finite_meet_elements_of_the_input_alone(case, device, rng):
    x, w, attributes = SPREAD[case]
    arrays = [rng.uniform(0.5, 1, s).astype(np.float32) for s in (x, w)]
    arrays[1].ravel()[:: np.prod(w[1:])] = np.inf  # of each channel the element in the corner
    arrays[1][1].ravel()[-1] = np.nan
    model, feeds = one_node("ConvTranspose", arrays, opset=17, constant=(1,), **attributes)
    (want,) = onnxruntime_outputs(model, feeds)
    assert {True, False} == {*np.isinf(want).ravel().tolist()}
    (got,) = clgraph.compile(model, device=device).run(feeds).values()
    # Sums of positive products: each rounding is of a part of the result.
    np.testing.assert_allclose(got, want, rtol=2 * (np.prod(w) // w[1] + 1) * 2**-24)
