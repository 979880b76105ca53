from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.passes.base import Context
from clgraph.passes.quantization.compute_twice import ComputeTwice
from clgraph.passes.quantization.repeated_convolutions import _extremes
from clgraph.passes.selection import proposals
from clgraph.selector.costs import Rates
from clgraph.selector.query import DeviceInfo, Query
from tests.support.programs import ADD, Net, kinds, run_until

_ZEN_5 = Rates(256e9, ((1, 40e9),), cached=25e9, byte_products=2.0)


def _cpu(*features, rates=None):
    return Context({"null": DeviceInfo(kind="cpu", features=frozenset({"byte_pairs", *features}), rates=rates)})


@pytest.fixture(autouse=True)
def fakes():
    """Products of bytes are asked of the real implementations."""


def _run(function="relu", outputs=96, side=112, results=("q", "s"), features=("vnni",), rates=None):
    """Return what the pass leaves of a convolution of bytes that is rounded by its range."""
    net = Net()
    x = net.input("x", (1, 16, side, side), DType.U8)
    w = np.random.default_rng(0).integers(-127, 128, (outputs, 16, 1, 1)).astype(np.int8)
    numbers = w.sum((1, 2, 3), dtype=np.int32), np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
    constants = [net.constant(f"c{i}", a) for i, a in enumerate((w, *numbers))]
    p = QuantizedConvolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    made = net.add("conv", p, x, *constants, net.constant("zero", np.array(3, np.uint8)))
    value = net.add("y", Activation(function), net.add("b", ADD, made, net.data("bias", 1, outputs, 1, 1)))
    net.add("q", DynamicQuantize(), value, outputs=("q", "s", "z"))
    return run_until(net.program(*results), ComputeTwice.name, _cpu(*features, rates=rates))


@pytest.mark.parametrize("function", ["relu", "clip"])
def test_a_convolution_is_computed_for_its_range_and_for_its_bytes(function):
    program = _run(function)
    assert "quantize" not in kinds(program)
    assert [f.primitive.kind for f in program["conv"].fused] == ["eltwise", "activation", "quantize"]
    assert program["conv"].output.layout.dtype == DType.U8
    (extremes,) = (n for n in program if n.primitive.kind == "sum_extremes")
    assert extremes.output.layout.shape == (2, 96, 1, 1)
    assert "conv" in program.notes[ComputeTwice.name]


@pytest.mark.parametrize(
    "why",
    [
        {"function": "hard_swish"},
        {"function": "abs"},
        {"results": ("q", "y")},
        {"side": 2},
    ],
    ids=["it falls and rises", "it falls, then rises", "floats are read", "small"],
)
def test_what_is_no_gain_or_no_extreme_of_sums_is_computed_once(why):
    assert "sum_extremes" not in kinds(_run(**why))


@pytest.mark.parametrize(("side", "twice"), [(56, False), (112, True)])
def test_without_vnni_what_no_core_keeps_is_computed_twice(side, twice):
    """Floats of 4.8 MB are written and read again beyond a core's own cache, those of 1.2 MB are not."""
    assert ("sum_extremes" in kinds(_run(side=side, features=(), rates=_ZEN_5))) == twice


def test_without_vnni_sums_that_are_noted_take_longer_than_those_that_are_written():
    program = _run(side=56, features=())
    node = program["conv"]
    q = _cpu().query(node)
    found = _extremes(node)
    own = q.inputs[: q.arity]
    noted = Query(found, own, found.infer(own), q.device, q.arity, constant=frozenset({1, 2, 3, 4}))
    once, twice = (proposals(_cpu(), node, asked)[0].seconds for asked in (q, noted))
    assert twice > once
