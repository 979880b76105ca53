"""Products of flattened tensors: what ``decompose`` makes of them, and that the results stay."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import RELU, Net, primitives, run


def flattened(
    shape: tuple[int, ...],
    back: tuple[int, ...],
    bias: tuple[int, ...] | None = (6,),
    read: bool = False,
    bounded: bool = False,
) -> Net:
    """Return a net of x, flattened for a product with 6 columns, and what is behind it in the shape *back*."""
    net = Net()
    rows = int(np.prod(back)) // 6
    flat = net.add("flat", Reshape((rows, -1)), net.input("x", shape))
    w = net.data("w", int(np.prod(shape)) // rows, 6)
    net.add("p", MatMul(), flat, w, *([] if bias is None else [net.data("b", *bias)]))
    net.add("y", Reshape(back), net.add("bounded", RELU, "p") if bounded else "p")
    if read:
        net.add("z", RELU, "p")
    return net


def rewritten(net: Net, *outputs: str) -> list[object]:
    program, feeds = net.program(*outputs), random_feeds(net.build())
    before = run_reference(program, feeds, exact=True)
    program = run(program, Decompose())
    after = run_reference(program, feeds, exact=True)
    # NumPy adds up to 20 products of numbers below 5, for other rows in another order: K u sum |ab|, twice.
    allowed = 20 * 20 * 5 * 5 * np.finfo(np.float64).eps
    for name in outputs:
        np.testing.assert_allclose(after[name], before[name], rtol=0, atol=allowed)
    return [p if isinstance(p, Reshape) else type(p) for p in primitives(program)]


@pytest.mark.parametrize("bias", [None, (6,), (1, 6)])
def test_a_product_is_one_of_the_tensor_itself(bias: tuple[int, ...] | None) -> None:
    assert rewritten(flattened((2, 3, 5), (2, 3, 6), bias), "y") == [MatMul]
    assert rewritten(flattened((2, 3, 4, 5), (2, 3, 4, 6), bias), "y") == [MatMul]


def test_columns_may_be_split_behind_it_and_joined_in_front() -> None:
    assert rewritten(flattened((2, 3, 5), (2, 3, 2, 3)), "y") == [MatMul, Reshape((2, 3, 2, 3))]
    assert rewritten(flattened((2, 3, 4, 5), (2, 3, 6)), "y") == [Reshape((2, 3, 20)), MatMul]


def test_what_an_activation_makes_of_it_is_unflattened_with_it() -> None:
    assert rewritten(flattened((2, 3, 5), (2, 3, 6), bounded=True), "y") == [MatMul, Activation]
    assert rewritten(flattened((2, 3, 5), (2, 3, 2, 3), bounded=True), "y") == [
        MatMul,
        Activation,
        Reshape((2, 3, 2, 3)),
    ]


@pytest.mark.parametrize(
    ("net", "outputs"),
    [
        (flattened((2, 3, 5), (3, 2, 2, 3)), "y"),
        (flattened((2, 3, 5), (6, 6)), "y"),
        (flattened((2, 3, 5), (2, 3, 6), (6, 6)), "y"),
        (flattened((2, 3, 5), (2, 3, 6), read=True), "yz"),
        (flattened((2, 3, 5), (2, 3, 6)), "py"),
    ],
    ids=["other axes", "rows", "a bias a row", "read elsewhere", "an output"],
)
def test_others_stay(net: Net, outputs: str) -> None:
    assert rewritten(net, *outputs)[:2] == [Reshape((6, 5)), MatMul]
