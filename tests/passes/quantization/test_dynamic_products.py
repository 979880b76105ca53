"""Products of values whose scale the network computes: what makes them on which device."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.ops.convolution import Convolution
from clgraph.ops.dynamic_quantize import DynamicQuantize
from clgraph.ops.integer_convolution import IntegerConvolution
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context
from clgraph.passes.quantization.use_integers import UseIntegers
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, run_until

PAIRS = frozenset({"byte_pairs", "fma"})


@pytest.fixture(autouse=True)
def fakes():
    """Choose among the implementations that there are."""


def test_floats_take_scale_bias_and_range_one_by_one_which_counts_where_a_result_is_large():
    net = Net()
    net.add("q", DynamicQuantize(), net.input("x", (1, 16, 56, 56)), outputs=("q", "s", "z"))
    net.constant("w", np.random.default_rng(0).integers(-64, 65, (96, 16, 1, 1)).astype(np.int8))
    net.constant("w_zero", np.array(0, np.int8))
    window = IntegerConvolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    net.add("f", Reorder(DType.F32), net.add("y", window, "q", "w", "z", "w_zero"))
    program = run_until(net.program("f"), UseIntegers.name, Context({"null": DeviceInfo(features=PAIRS)}))
    (node,) = [n for n in program if isinstance(n.primitive, Convolution | QuantizedConvolution)]
    assert type(node.primitive) is QuantizedConvolution


@pytest.mark.parametrize(
    ("features", "kernel", "made"),
    [
        (PAIRS, 3, Convolution),
        (PAIRS, 1, QuantizedConvolution),
        (PAIRS | {"vnni"}, 3, QuantizedConvolution),
    ],
)
def test_windows_are_transformed_in_floats_where_bytes_have_no_dot_product(features, kernel, made):
    net = Net()
    pad = kernel // 2
    net.add("q", DynamicQuantize(), net.input("x", (1, 96, 40, 40)), outputs=("q", "s", "z"))
    net.constant("w", np.random.default_rng(0).integers(-64, 65, (64, 96, kernel, kernel)).astype(np.int8))
    net.constant("w_zero", np.array(0, np.int8))
    window = IntegerConvolution((1, 1), (1, 1), ((pad, pad), (pad, pad)))
    net.add("f", Reorder(DType.F32), net.add("y", window, "q", "w", "z", "w_zero"))
    context = Context({"null": DeviceInfo(simd=8, features=features)})
    program = run_until(net.program("f"), UseIntegers.name, context)
    (node,) = [n for n in program if isinstance(n.primitive, Convolution | QuantizedConvolution)]
    assert type(node.primitive) is made
    assert not getattr(node.primitive, "exact", False), "sums of floats that need not be exact may be transformed"
