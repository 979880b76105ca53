"""compute_constants: large constants are known before formats are chosen, so that no fast kernel is lost."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.errors import UnsupportedError
from clgraph.graph.check import check
from clgraph.graph.program import Milestone, Program
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.passes.base import Context
from clgraph.passes.constants.compute_constants import ComputeConstants
from clgraph.passes.pipeline import required_pipeline
from clgraph.passes.reference import run_reference
from tests.support.programs import RELU, Net, lines, run

PASS = ComputeConstants(required_pipeline)


def generated_weights() -> Net:
    """Return a net whose weights are a product of two constants, too large to fold: y = conv(x, reshape(a @ b))."""
    net = Net()
    x = net.input("x", (1, 32, 14, 14))
    w = net.add("w", Reshape((64, 32, 3, 3)), net.add("ab", MatMul(), net.data("a", 64, 600), net.data("b", 600, 288)))
    net.add("y", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, w)
    net.add("z", RELU, net.data("c", 400, 400))
    return net


def test_what_constants_make_becomes_data_and_nothing_else_changes() -> None:
    net = generated_weights()
    program = run(net.program("y", "z"), PASS)
    assert lines(program) == [
        "y f32:bfyx:1x64x14x14 = convolution(strides=1x1, dilations=1x1, pads=((1, 1), (1, 1)))(x, w)"
    ]
    want = (net.constants["a"].astype(np.float64) @ net.constants["b"]).reshape(64, 32, 3, 3)
    found = next(v.constant for v in program.constants if v.name == "w")
    # A sum of 600 products.
    bound = 601 * 2.0**-24 * (np.abs(net.constants["a"]) @ np.abs(net.constants["b"])).reshape(64, 32, 3, 3)
    assert (np.abs(found - want) <= bound).all()
    assert program.outputs[1][0] == "z"
    np.testing.assert_array_equal(program.outputs[1][1].constant, np.maximum(net.constants["c"], 0))
    assert PASS.run(program, Context()) == 0


def test_on_a_device_the_parts_are_programs_of_their_own_that_run_once() -> None:
    seen: list[Program] = []

    def execute(part: Program, feeds):
        check(part)
        assert part.milestone >= Milestone.PLANNED
        seen.append(part)
        return run_reference(part, feeds)

    program = generated_weights().program("y", "z")
    context = Context(execute=execute, build=lambda part: 0)
    assert PASS.run(program, context) == 3
    check(program)
    assert len(seen) >= 1
    assert all(list(part) for part in seen), "what is known is run again, which copies it"
    ran = len(seen)
    again = generated_weights().program("y", "z")
    context.packed.register(v.constant for v in again.constants)
    assert PASS.run(again, context) == 3
    assert len(seen) > ran, "other constants are computed, too"


def test_results_are_shared_between_the_programs_of_a_model() -> None:
    runs = []

    def execute(part: Program, feeds):
        runs.append(part)
        return run_reference(part, feeds)

    net = generated_weights()
    first = net.program("y")
    context = Context(execute=execute, build=lambda part: 0)
    context.packed.register(v.constant for v in first.constants)
    PASS.run(first, context)
    ran = len(runs)
    PASS.run(net.build(), context)
    assert len(runs) == ran


def test_what_equal_constants_make_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As exporters spell the places of two assignments to one slice, from rows and columns of their own."""
    monkeypatch.setattr("clgraph.passes.constants.compute_constants.batches", lambda nodes: [[n] for n in nodes])
    net = Net()
    for name in "stu":
        net.add(f"{name}.ab", MatMul(), net.data(f"{name}.a", 150, 300), net.data(f"{name}.b", 300, 300))
    net.constants["t.a"], net.constants["t.b"] = net.constants["s.a"].copy(), net.constants["s.b"].copy()
    program = net.program("s.ab", "t.ab", "u.ab")
    PASS.run(program, Context(execute=run_reference, build=lambda part: 0))
    first, second, other = (value.constant for _, value in program.outputs)
    assert first is not None
    assert first is second
    assert other is not None
    assert not np.array_equal(first, other)


def test_what_cannot_be_computed_alone_is_left_and_told() -> None:
    def refuse(part: Program, feeds):
        raise UnsupportedError("node 'ab': no kernel")

    program = generated_weights().program("y")
    before = lines(program)
    assert PASS.run(program, Context(execute=refuse, build=lambda part: 0)) == 0
    assert lines(program) == before
    assert program.notes["compute_constants"] == "some constants are computed later: node 'ab': no kernel"
