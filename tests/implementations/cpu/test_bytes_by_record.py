"""Which records of instruction sets multiply bytes, and at what rate."""

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.byte_sizes import byte_products
from clgraph.implementations.cpu.quantized_convolution import QuantizedConvolutionBytes
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.runtime.instruction_sets import instruction_sets, named
from clgraph.selector.query import DeviceInfo
from tests.support.run_tiles import pose

WINDOW = QuantizedConvolution((1, 1), (1, 1), ((1, 1), (1, 1)))
ARRAYS = [(DType.U8, (1, 32, 9, 9)), (DType.I8, (32, 32, 3, 3)), (DType.I32, (32,)), *[(DType.F32, (32,))] * 2]


def device_of(name: str) -> DeviceInfo:
    """Return a CPU of a record."""
    return DeviceInfo(simd=named(name).simd, features=named(name).features)


@pytest.mark.parametrize("name", [record.name for record in instruction_sets()])
def test_every_x86_cpu_multiplies_bytes(name):
    layouts = [Layout(*x) for x in ARRAYS]
    how = {"arity": 5, "constant": (1, 2, 3, 4), "packed": False}
    q = pose(device_of(name), QuantizedConvolutionBytes, WINDOW, layouts, **how)
    there = named(name).machine == "x86_64"
    assert QuantizedConvolutionBytes.refusal(q) == (None if there else "needs one of byte_pairs, short_pairs")


def test_pairs_of_16_bits_on_128_bits_gain_where_floats_have_no_more():
    assert byte_products(device_of("sse2")) > 1 > byte_products(device_of("avx"))
    assert byte_products(device_of("avx2")) == device_of("avx2").costs.byte_products
