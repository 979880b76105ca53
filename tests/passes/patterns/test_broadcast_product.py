"""Products of many batch axes: ``decompose`` makes them products of two on CPUs; the results stay."""

from __future__ import annotations

import pytest

from clgraph.ops.matmul import MatMul
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten


def product(a: tuple[int, ...], b: tuple[int, ...], p: MatMul | None = None, known: bool = False) -> Net:
    net = Net()
    net.add("y", p or MatMul(), net.input("a", a), net.data("b", *b) if known else net.input("b", b))
    return net


@pytest.mark.parametrize(
    ("a", "b", "p", "left", "right"),
    [
        ((1, 3, 5, 4, 6), (2, 1, 5, 6, 7), MatMul(), (1, 5, 12, 6), (2, 5, 6, 7)),
        ((3, 5, 6, 4), (2, 1, 5, 1, 6), MatMul(True, True), (1, 5, 12, 6), (2, 5, 1, 6)),
        ((2, 1, 5, 4, 6), (3, 5, 6, 7), MatMul(), (1, 5, 8, 6), (3, 5, 6, 7)),
        ((3, 1, 5, 2, 1, 4, 6), (3, 2, 5, 1, 2, 6, 2), MatMul(), (1, 15, 8, 6), (4, 15, 6, 2)),
    ],
)
def test_axes_of_one_operand_are_rows_or_outer_ones(a, b, p, left, right) -> None:
    program = rewritten(product(a, b, p), "y", by=Decompose())
    (made,) = (n for n in program if n.primitive.kind == "matmul")
    assert [x.layout.shape for x in made.inputs] == [left, right]


def test_constants_of_many_axes_are_packed_with_two() -> None:
    program = rewritten(product((2, 3, 5, 4, 6), (2, 3, 5, 6, 7), known=True), "y", by=Decompose())
    assert [n.primitive.kind for n in program] == ["reshape", "reshape", "matmul", "reshape"]
    (made,) = (n for n in program if n.primitive.kind == "matmul")
    assert made.inputs[1].layout.shape == (1, 30, 6, 7)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 5, 4, 6), (2, 3, 5, 6, 7)),
        ((2, 3, 5, 4, 6), (2, 1, 1, 6, 7)),
        ((2, 3, 5, 4, 6), (3, 1, 6, 7)),
        ((1, 3, 5, 4, 6), (2, 1, 1, 6, 7)),
        ((2, 0, 5, 4, 6), (2, 1, 5, 6, 7)),
        ((3, 1, 4, 6), (1, 2, 6, 7)),
    ],
)
def test_products_that_tiles_walk_stay(a, b) -> None:
    assert [n.primitive.kind for n in run(product(a, b).program("y"), Decompose())] == ["matmul"]
