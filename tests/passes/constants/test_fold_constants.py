from __future__ import annotations

import numpy as np

from clgraph.ops.dequantize import Dequantize
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context
from clgraph.passes.constants.fold_constants import FoldConstants
from tests.support.programs import ADD, MUL, RELU, Net, lines, run


def test_a_constant_chain_becomes_its_value_under_the_last_name() -> None:
    net = Net()
    x = net.input("x", (1, 100, 50))
    c = net.add("c", RELU, net.add("b", ADD, net.data("p", 100, 50), net.data("q", 100, 50)))
    net.add("y", MUL, x, c)
    program = run(net.program("y"), FoldConstants())
    assert lines(program) == ["y f32:bfx:1x100x50 = eltwise(function=mul)(x, c)"]
    p, q = net.constants["p"], net.constants["q"]
    (folded,) = program.constants
    np.testing.assert_array_equal(folded.constant, np.maximum(p + q, 0))


def test_what_is_expensive_is_left_to_the_device() -> None:
    net = Net()
    x = net.input("x", (1, 80, 80))
    net.add("y", ADD, x, net.add("c", ADD, net.data("p", 1, 80, 1), net.data("q", 1, 1, 80)))
    program = net.program("y")
    assert FoldConstants(flops=10.0).run(program, Context()) == 0
    assert FoldConstants(elements=6399).run(program, Context()) == 0
    assert FoldConstants(elements=6400).run(program, Context()) == 1


def test_a_graph_output_may_be_folded_and_keeps_its_name() -> None:
    net = Net()
    net.input("x", (1,))
    net.add("c", RELU, net.data("p", 100, 100))
    program = net.program("c")
    FoldConstants().run(program, Context())
    assert len(program) == 0
    assert program.outputs[0][0] == "c"
    np.testing.assert_array_equal(program.outputs[0][1].constant, np.maximum(net.constants["p"], 0))


def test_weights_whose_axes_are_put_in_another_order_remember_their_integers() -> None:
    """TFLite's converters and PyTorch's exporters write a Transpose behind the DequantizeLinear."""
    net = Net()
    whole = np.random.default_rng(0).integers(-128, 128, (3, 4, 5)).astype(np.int8)
    net.constant("whole", whole)
    net.constant("scale", np.array([0.5, 0.25, 2], np.float32))
    net.constant("zero", np.array([0, 3, -7], np.int8))
    net.add("floats", Dequantize(0), "whole", "scale", "zero")
    net.add("y", MUL, net.input("x", (5, 3, 4)), net.add("turned", Transpose((2, 0, 1)), "floats"))
    (node,) = run(net.program("y"), FoldConstants())
    weights = node.inputs[1]
    found = weights.integers
    assert found is not None
    assert found.zero is not None
    np.testing.assert_array_equal(found.data, whole.transpose(2, 0, 1))
    along = [-1 if a == found.axis else 1 for a in range(3)]
    floats = (found.data - found.zero.reshape(along).astype(np.float32)) * found.scale.reshape(along)
    np.testing.assert_array_equal(floats, weights.constant)
