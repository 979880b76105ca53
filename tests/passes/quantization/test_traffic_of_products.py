"""What bytes between products save of the traffic of floats, beside what estimates of products know of it."""

from __future__ import annotations

import pytest

from clgraph.passes.base import Context
from clgraph.selector.query import DeviceInfo
from tests.passes.quantization.test_use_integers import Quantised
from tests.support.programs import kinds, run_until

AVX = Context({"null": DeviceInfo(simd=8, features=frozenset({"short_pairs"}))})
AVX2 = Context({"null": DeviceInfo(simd=8, features=frozenset({"byte_pairs", "fma"}))})


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


def made(context: Context, channels: int, size: int) -> list[str]:
    """Return what makes the results of products one behind the other."""
    net = Quantised()
    x = net.rounded(net.input("x", (1, channels, size, size)))
    for name in "ab":
        x = net.rounded(net.product(name, x, channels, channels, 1))
    program = run_until(net.program(net.product("c", x, channels, channels, 1)), "use_integers", context)
    return [kind for kind in kinds(program) if kind.endswith("convolution")]


def test_what_a_cores_own_cache_keeps_saves_nothing_that_estimates_do_not_know():
    assert made(AVX, 32, 64) == ["convolution"] * 3


def test_what_goes_by_it_is_read_and_written_faster_as_bytes():
    assert "quantized_convolution" in made(AVX2, 16, 256)
