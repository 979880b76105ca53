"""Which records of instruction sets multiply bytes, and at what rate."""

from dataclasses import replace

import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Fused
from clgraph.implementations.cpu.byte_sizes import byte_products, byte_sizes
from clgraph.implementations.cpu.quantized_convolution import QuantizedConvolutionBytes
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.static_quantize import StaticQuantize
from clgraph.runtime.instruction_sets import instruction_sets, named
from clgraph.selector.costs import Rates
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


def step_of(channels: int, rate: float, fused: tuple[Fused, ...] = ()) -> float:
    """Return the estimate of a plane of 48 x 48 on two registers a vector, where products of bytes have that rate."""
    arrays = [(DType.U8, (1, channels, 48, 48)), (DType.I8, (16, channels, 1, 1)), (DType.I32, (16,))]
    layouts = [Layout(*x) for x in (*arrays, *[(DType.F32, (16,))] * 2)]
    device = replace(device_of("avx2"), rates=Rates(6.4e10, ((1, 1e10),), byte_products=rate))
    how = {"arity": 5, "constant": (1, 2, 3, 4), "packed": False}
    pointwise = QuantizedConvolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    q = pose(device, QuantizedConvolutionBytes, pointwise, layouts, **how)
    y = replace(q.outputs[0], dtype=DType.U8 if fused else DType.F32)
    return byte_sizes(replace(q, fused=fused, outputs=(y,))).step


def test_slower_products_take_no_longer_to_begin():
    few, many = (step_of(channels, 1.0) - step_of(channels, 4.0) for channels in (4, 1024))
    assert few == pytest.approx(many / 256, rel=0.02)


def test_sums_that_become_bytes_end_as_soon_in_two_registers():
    floats, plain = (step_of(4, 2.0, fused) for fused in ((), (Fused(StaticQuantize(0.5, 0, DType.U8)),)))
    # Of 48 x 48 vectors of 16 channels: 24 multiply-adds for each that is floats, 6 for bytes.
    assert floats - plain == pytest.approx(48 * 48 * 18)
