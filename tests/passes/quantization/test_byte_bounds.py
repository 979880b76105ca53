"""Bounds between a Dequantize and the product that reads it."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ByteLookup
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.passes.base import Context
from clgraph.selector.query import DeviceInfo
from tests.passes.quantization.test_use_integers import VNNI, Quantised
from tests.support.programs import RELU, kinds, run_until


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


def bounded(bound: Activation) -> Quantised:
    """Return two convolutions with a rounding and then a bound between them. 0.026 is a step, 120 is zero."""
    net = Quantised()
    x = net.rounded(net.input("x", (1, 32, 24, 24)))
    y = net.add("bound", bound, net.rounded(net.product("a", x, 32, 32)))
    net.rounded(net.product("b", y, 32, 32))
    return net


def roundings(program) -> int:
    primitives = [p.primitive for n in program for p in (n, *n.fused)]
    return sum(isinstance(p, Activation) and p.function == "fake_quantize" for p in primitives)


@pytest.mark.parametrize("bound", [RELU, Activation("clip", 0.0, 135 * 0.026 + 1e-6)])
def test_what_is_bounded_by_zero_behind_its_rounding_is_bytes_for_the_product(bound):
    net = bounded(bound)
    program = run_until(net.program("b_3_dq"), "prepare_primitive_fusing", VNNI)
    a, b = (n for n in program if isinstance(n.primitive, QuantizedConvolution))
    assert [type(f.primitive) for f in a.fused] == [StaticQuantize, ByteLookup]
    entries = a.inputs[a.fused[1].operands[0]].constant
    np.testing.assert_array_equal(entries.reshape(-1), np.maximum(np.arange(256), 120))
    assert b.inputs[0] is a.output
    assert a.output.layout.dtype == DType.U8


@pytest.mark.parametrize("bound", [Activation("clip", 0.0, 2.0), Activation("clip", -1.0, 6.0), Activation("sigmoid")])
def test_other_functions_leave_the_steps(bound):
    program = run_until(bounded(bound).program("b_3_dq"), "use_integers", VNNI)
    assert "b stays in floats: its input is not of 8 bits" in program.notes["use_integers"]


def test_nothing_is_rounded_once_more_for_products_of_floats():
    program = run_until(bounded(RELU).program("b_3_dq"), "use_integers", Context({"null": DeviceInfo()}))
    assert kinds(program).count("convolution") == 2
    assert roundings(program) == 3
