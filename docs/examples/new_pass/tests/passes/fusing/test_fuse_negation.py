"""Negations in additions."""

from __future__ import annotations

import pytest

from clgraph.ops.activation import Activation
from clgraph.passes.fusing.fuse_negation import FuseNegation
from tests.support.programs import ADD, Net, lines, run

NEG = Activation("neg")


def negated(swapped: bool = False, **more: str) -> Net:
    net = Net()
    x, y = net.input("x", (2, 3)), net.input("y", (2, 3))
    n = net.add("n", NEG, y, **more)
    net.add("s", ADD, *((n, x) if swapped else (x, n)))
    return net


@pytest.mark.parametrize("swapped", [False, True])
def test_an_addition_of_a_negation_becomes_a_subtraction(swapped: bool) -> None:
    program = negated(swapped).program("s")
    operands = "n, x" if swapped else "x, n"
    assert lines(program) == [
        "n f32:bf:2x3 = activation(function=neg)(y)",
        f"s f32:bf:2x3 = eltwise(function=add)({operands})",
    ]
    run(program, FuseNegation())
    assert lines(program) == ["s f32:bf:2x3 = eltwise(function=sub)(x, y)"]


def test_a_subtraction_keeps_the_annotation_and_the_origin_of_both() -> None:
    program = negated(annotation="first").program("s")
    run(program, FuseNegation())
    (node,) = program
    assert node.annotation == "first"
    assert set(node.origin) == {"n", "s"}


def test_a_negation_that_something_else_reads_stays() -> None:
    program = negated().program("s", "n")
    run(program, FuseNegation())
    assert len(program) == 2
    assert program.notes["fuse_negation"] == "s: n is an output of the graph"


def test_a_negation_with_another_annotation_stays() -> None:
    net = Net()
    x, y = net.input("x", (2, 3)), net.input("y", (2, 3))
    net.add("s", ADD, x, net.add("n", NEG, y, annotation="first"), annotation="second")
    program = net.program("s")
    run(program, FuseNegation())
    assert len(program) == 2
    assert program.notes["fuse_negation"] == "s: the annotations first and second differ"


def test_two_negations_that_are_added_become_one_subtraction() -> None:
    net = Net()
    x, y = net.input("x", (2, 3)), net.input("y", (2, 3))
    net.add("s", ADD, net.add("m", NEG, x), net.add("n", NEG, y))
    program = net.program("s")
    run(program, FuseNegation())
    assert lines(program) == [
        "m f32:bf:2x3 = activation(function=neg)(x)",
        "s f32:bf:2x3 = eltwise(function=sub)(m, y)",
    ]


def test_a_negation_that_is_added_to_itself_stays() -> None:
    net = Net()
    n = net.add("n", NEG, net.input("x", (2, 3)))
    net.add("s", ADD, n, n)
    program = net.program("s")
    run(program, FuseNegation())
    assert len(program) == 2
