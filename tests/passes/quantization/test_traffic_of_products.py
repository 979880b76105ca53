"""What bytes between products save of the traffic of floats, beside what estimates of products know of it."""

from __future__ import annotations

import pytest

from clgraph.passes.base import Context
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo
from tests.passes.quantization.test_use_integers import Quantised
from tests.support.programs import kinds, run_until


def device(*features: str, simd: int = 8) -> Context:
    """Return a CPU to which traffic is much and products are little."""
    rates = Rates(1e12, ((1, 8e9),), cached=1.6e10, byte_products=1.3)
    return Context({"null": DeviceInfo(simd=simd, features=frozenset(features), rates=rates)})


NARROWER = device("short_pairs")


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


def made(context: Context, channels: int, size: int) -> int:
    """Return how many of three products one behind the other are of integers."""
    net = Quantised()
    x = net.rounded(net.input("x", (1, channels, size, size)))
    for name in "ab":
        x = net.rounded(net.product(name, x, channels, channels, 1))
    program = run_until(net.program(net.product("c", x, channels, channels, 1)), "use_integers", context)
    return kinds(program).count("quantized_convolution")


def test_what_a_cores_own_cache_keeps_saves_nothing_that_estimates_do_not_know():
    assert made(NARROWER, 32, 64) == 0


def test_what_goes_by_it_is_read_and_written_faster_as_bytes():
    assert made(NARROWER, 16, 224) > 0


@pytest.mark.parametrize(
    "context", [device("byte_pairs", "fma"), device("short_pairs", simd=4)], ids=["byte_pairs", "narrow floats"]
)
def test_where_bytes_are_multiplied_on_as_wide_vectors_few_channels_are_integers(context):
    assert made(context, 16, 64) > 0
