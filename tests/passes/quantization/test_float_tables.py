"""What stays in floats between roundings to 8 bits is looked up by bytes where that is faster."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.passes.base import Context
from clgraph.selector.query import DeviceInfo
from tests.passes.quantization.test_use_integers import Quantised
from tests.support.programs import ADD, kinds, run_until

DENIED = frozenset({"quantized_convolution.bytes_fsv16", "quantized_convolution.depthwise_bytes"})
AVX = Context({"null": DeviceInfo(simd=8, features=frozenset({"short_pairs"}))}, denied=DENIED)
DEQUANTIZE = Dequantize(0)
ARM = Context({"null": DeviceInfo(simd=4, features=frozenset({"fma"}))})


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


def chain(net: Quantised, x: str) -> str:
    """Add x * (x + 3) / 6, each step of it rounded."""
    gate = net.rounded(net.add("more", ADD, x, net.number("three", 3.0)))
    y = net.rounded(net.add("times", Eltwise("mul"), x, gate))
    return net.rounded(net.add("sixth", Eltwise("div"), y, net.number("six", 6.0)))


def between_products(size: int = 64, *, short: bool = False) -> Quantised:
    """Return two convolutions with such a chain between them, or with one activation."""
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, size, size))), 32, 32))
    y = net.rounded(net.add("act", Activation("relu"), x)) if short else chain(net, x)
    net.product("d", y, 32, 32)
    return net


def test_a_chain_between_products_of_floats_is_looked_up():
    program = run_until(between_products().program("d"), "use_integers", AVX)
    made = kinds(program)
    assert made == ["activation", "convolution", "static_quantize", "byte_lookup", "dequantize", "convolution"]
    (looked_up,) = [n for n in program if n.primitive.kind == "byte_lookup"]
    rounding = made_by(looked_up)
    assert rounding.primitive == StaticQuantize(float(np.float32(0.026)), 120, DType.U8)
    assert rounding.inputs[0].producer is program["c"]


def made_by(node: Node) -> Node:
    """Return what makes the first input of *node*."""
    made = node.inputs[0].producer
    assert made is not None
    return made


def test_what_takes_less_than_the_ways_to_bytes_and_back_stays():
    assert "byte_lookup" not in kinds(run_until(between_products(short=True).program("d"), "use_integers", AVX))
    assert "byte_lookup" not in kinds(run_until(between_products(8).program("d"), "use_integers", AVX))


def test_where_no_kernel_looks_bytes_up_all_stays():
    assert "byte_lookup" not in kinds(run_until(between_products().program("d"), "use_integers", ARM))


def test_bytes_that_are_there_are_looked_up_as_they_are():
    net = Quantised()
    net.constant("s", np.array(0.03, np.float32))
    net.constant("z", np.array(120, np.uint8))
    x = net.add("dq", DEQUANTIZE, net.input("x", (1, 32, 64, 64), DType.U8), "s", "z")
    net.product("d", chain(net, x), 32, 32)
    program = run_until(net.program("d"), "use_integers", AVX)
    assert kinds(program) == ["byte_lookup", "dequantize", "convolution"]


def test_others_read_the_rounded_value_as_it_was():
    net = Quantised()
    x = net.rounded(net.product("c", net.rounded(net.input("x", (1, 32, 64, 64))), 32, 32))
    net.add("end", ADD, net.product("d", chain(net, x), 32, 32), x)
    program = run_until(net.program("end"), "use_integers", AVX)
    assert kinds(program).count("static_quantize") == 1
    assert program["end"].inputs[1].producer.primitive.function == "fake_quantize"
