"""The integers of weights: what their zero points become."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantized_convolution import QuantizedConvolution
from tests.passes.quantization.test_use_integers import CONTEXT, VNNI, Quantised, kinds
from tests.support.programs import run_until


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


@pytest.mark.parametrize(("bits", "zero"), [(np.int8, 0), (np.uint8, 128)])
def test_weights_lose_their_zero_point_and_start_with_that_of_the_input(bits, zero):
    net = Quantised()
    x = net.rounded(net.input("x", (1, 32, 8, 8)), zero=100)
    net.product("c", x, 32, 32, dtype=bits, low=zero - 100, zero=zero)
    program = run_until(net.program("c"), "use_integers", CONTEXT)
    node = program["c"]
    assert isinstance(node.primitive, QuantizedConvolution)
    # An unsigned zero of 100 is a signed one of -28.
    assert node.primitive.zero == -28
    weights, start = node.inputs[1].constant, node.inputs[2].constant
    np.testing.assert_array_equal(weights, net.constants["c_w_i"].astype(np.int16) - zero)
    np.testing.assert_array_equal(start, 28 * weights.astype(int).sum((1, 2, 3)))


@pytest.mark.parametrize("groups", [1, 16])
def test_on_gpus_what_windows_add_up_to_makes_up_for_the_shift_of_weights_around_no_128(groups):
    net = Quantised()
    x = net.rounded(net.input("x", (1, 16, 6, 6)), zero=100)
    y = net.product("c", x, 16, 16, groups=groups, dtype=np.uint8, low=40, zero=90)
    net.constants["c_w_s"][:] = 0.0015
    net.rounded(y)
    forced = replace(CONTEXT, forced={"c": "quantized_convolution.ref"})
    program = run_until(net.program(y), "prepare_primitive_fusing", forced)
    assert kinds(program) == ["static_quantize", "quantized_convolution", "quantized_convolution"]
    _, sums, product = program
    assert [f.primitive for f in product.fused] == [Eltwise("add")]
    assert product.inputs[-1] is sums.output
    shift = net.constants["c_w_i"].max().astype(int) - 90 - 127
    assert shift > 0
    np.testing.assert_array_equal(product.inputs[1].constant, net.constants["c_w_i"].astype(int) - 90 - shift)
    assert sums.output.layout.shape == (1, groups, 6, 6)


@pytest.mark.parametrize("groups", [1, 16])
def test_on_cpus_kernels_add_the_shift_of_weights_around_no_128(groups):
    net = Quantised()
    x = net.rounded(net.input("x", (1, 16, 6, 6)), zero=100)
    y = net.product("c", x, 16, 16, groups=groups, dtype=np.uint8, low=40, zero=90)
    net.constants["c_w_s"][:] = 0.0015
    net.rounded(y)
    program = run_until(net.program(y), "use_integers", replace(VNNI, forced={"c": "quantized_convolution.ref"}))
    assert "eltwise" not in kinds(program)
    node = program["c"]
    assert isinstance(node.primitive, QuantizedConvolution)
    wide = net.constants["c_w_i"].astype(int) - 90
    assert node.primitive.shift == wide.max() - 127 > 0
    np.testing.assert_array_equal(node.inputs[1].constant, wide - node.primitive.shift)
    np.testing.assert_array_equal(node.inputs[2].constant, -100 * wide.sum((1, 2, 3)))
