from __future__ import annotations

import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.fusing.sink_scales import SinkScales
from tests.support.programs import RELU, Net, fused_into, lines, run


def _fused(net: Net, *outputs: str):
    return run(net.program(*outputs), SinkScales(), PreparePrimitiveFusing())


def test_the_text_before_and_after() -> None:
    net = Net()
    factor = net.add("factor", Activation("linear", 0.25), net.input("a", (2, 3, 4)))
    program = net.program(net.add("y", MatMul(), factor, net.input("b", (2, 4, 5))))
    assert lines(program) == [
        "factor f32:bfx:2x3x4 = activation(function=linear, alpha=0.25)(a)",
        "y f32:bfx:2x3x5 = matmul(factor, b)",
    ]
    assert lines(run(program, SinkScales())) == [
        "y f32:bfx:2x3x5 = matmul(a, b) @null",
        "factor/activation f32:bfx:2x3x5 = activation(function=linear, alpha=0.25)(y) @null",
    ]
    assert [(name, v.name) for name, v in program.outputs] == [("y", "factor/activation")]
    assert program.notes["sink_scales"] == "factor: from in front of y to behind it"


def test_a_factor_of_an_operand_follows_the_matrix_product() -> None:
    net = Net()
    factor = net.add("factor", Activation("linear", 0.25), net.input("a", (2, 3, 4)))
    net.add("y", MatMul(), factor, net.add("other", Activation("linear", 0.5), net.input("b", (2, 4, 5))))
    program = _fused(net, "y")
    assert len(program) == 1
    assert sorted(fused_into(program)["y"]) == [
        "post activation(function=linear, alpha=0.25)",
        "post activation(function=linear, alpha=0.5)",
    ]


@pytest.mark.parametrize("case", ["shift", "reader"])
def test_a_shift_or_a_factor_that_is_read_elsewhere_stays_in_front(case: str) -> None:
    net = Net()
    factor = net.add("factor", Activation("linear", 0.25, float(case == "shift")), net.input("a", (2, 3, 4)))
    net.add("y", MatMul(), factor, net.input("b", (2, 4, 5)))
    net.add("z", RELU, factor if case == "reader" else "b")
    assert "post" not in str(fused_into(_fused(net, "y", "z"))["y"])
