"""Transposed convolutions with groups: ``decompose`` makes a convolution of each phase on CPUs; the results stay."""

from __future__ import annotations

import pytest

from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten


def net_of(p: ConvTranspose, kernel: tuple[int, ...], outputs: int) -> Net:
    net = Net()
    x, w = net.input("x", (2, 6, 7, 6, 5)[: 2 + len(kernel)]), net.data("w", 6, outputs, *kernel)
    net.add("y", p, x, w, net.data("b", outputs * p.groups))
    return net


@pytest.mark.parametrize(
    ("kernel", "outputs", "p"),
    [
        ((3, 3), 1, ConvTranspose((2, 2), (1, 1), ((1, 1), (1, 1)), (1, 1), groups=6)),
        ((4, 5), 2, ConvTranspose((2, 3), (1, 2), ((1, 2), (0, 3)), (0, 2), groups=3)),
        ((12,), 1, ConvTranspose((2,), (1,), ((5, 5),), (0,), groups=6)),
        ((4,), 3, ConvTranspose((1,), (2,), ((3, 1),), (0,), groups=2)),
        ((3, 2, 3), 1, ConvTranspose((2, 1, 2), (1, 1, 1), ((1, 1), (0, 0), (0, 1)), (1, 0, 0), groups=6)),
    ],
)
def test_a_transposed_convolution_with_groups_is_a_convolution_a_phase(kernel, outputs, p) -> None:
    net = net_of(p, kernel, outputs)
    program = rewritten(net, "y", by=Decompose())
    kinds = [n.primitive.kind for n in program]
    assert "convolution" in kinds
    assert "conv_transpose" not in kinds


def test_many_phases_are_computed_a_group_at_a_time() -> None:
    net = net_of(ConvTranspose((9, 8), (1, 1), ((2, 2), (0, 0)), (0, 0), groups=3), (9, 9), 2)
    program = rewritten(net, "y", by=Decompose())
    assert [n.primitive.kind for n in program] == ["slice", "conv_transpose"] * 3 + ["concat"]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [2, 9])
def test_weights_that_a_run_computes_are_taken_apart_in_it(groups, bias) -> None:
    net = Net()
    x, w = net.input("x", (1, 2 * groups, 5, 4)), net.input("w", (2 * groups, 3, 3, 2))
    more = [net.input("b", (3 * groups,))] if bias else []
    net.add("y", ConvTranspose((2, 2), (1, 1), ((1, 0), (0, 1)), (1, 1), groups=groups), x, w, *more)
    kinds = [n.primitive.kind for n in rewritten(net, "y", by=Decompose())]
    few = ["slice", *["slice"] * (1 + bias), "conv_transpose"]
    assert kinds == [*few * groups, "concat"] if groups == 2 else "conv_transpose" not in kinds


@pytest.mark.parametrize(
    ("kernel", "p"),
    [
        ((1, 1), ConvTranspose((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), groups=6)),
        ((3,), ConvTranspose((1,), (1,), ((0, 3),), (0,), groups=6)),
    ],
    ids=["a phase without taps", "pads that cut"],
)
def test_other_transposed_convolutions_stay(kernel, p) -> None:
    assert [n.primitive.kind for n in run(net_of(p, kernel, 1).program("y"), Decompose())] == ["conv_transpose"]
