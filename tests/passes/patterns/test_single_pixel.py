"""Windows over a single pixel: ``decompose`` cuts from their weights what only pads meet; the results stay."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.ops.convolution import Convolution
from clgraph.passes.patterns.decompose import Decompose
from tests.support.programs import Net, run
from tests.support.rewritten import rewritten

EVEN = ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("spatial", "kernel", "p", "left"),
    [
        ((1, 1), (3, 3), Convolution((1, 1), (1, 1), EVEN), (1, 1)),
        ((1, 1), (3, 3), Convolution((2, 2), (1, 1), EVEN, groups=2), (1, 1)),
        ((1, 1), (3, 3), Convolution((1, 1), (6, 6), ((6, 6), (6, 6))), (1, 1)),
        ((1, 1), (3, 5), Convolution((1, 1), (1, 1), ((0, 2), (3, 1))), (1, 1)),
        ((1, 4), (3, 5), Convolution((1, 1), (1, 1), ((1, 1), (2, 2))), (3, 5)),
        ((1, 1), (3, 3), Convolution((1, 1), (1, 1), ((2, 2), (1, 1))), (3, 3)),
        ((1, 1), (2, 3), Convolution((1, 1), (2, 1), ((1, 1), (1, 1))), (2, 3)),
        ((1, 1), (1, 1), Convolution((1, 1), (1, 1), ((0, 0), (0, 0))), (1, 1)),
    ],
    ids=["centre", "groups", "dilated", "aside", "more pixels", "more results", "between elements", "nothing to cut"],
)
def test_only_weights_that_meet_the_element_are_left(spatial, kernel, p, left) -> None:
    net = Net()
    x = net.input("x", (2, 4, *spatial))
    net.add("y", p, x, net.data("w", 6, 4 // p.groups, *kernel), net.data("b", 6))
    program = rewritten(net, "y", by=Decompose())
    (node,) = program
    assert node.inputs[1].layout.shape[2:] == left


def test_weights_that_are_not_finite_are_multiplied_by_the_zeros_of_pads() -> None:
    net = Net()
    weights = np.ones((1, 1, 3, 3), np.float32)
    weights[0, 0, 0, 2] = np.inf
    x = net.input("x", (1, 1, 1, 1))
    net.add("y", Convolution((1, 1), (1, 1), EVEN), x, net.constant("w", weights))
    with np.errstate(invalid="ignore"):
        (node,) = run(net.program("y"), Decompose())
    assert node.inputs[1].layout.shape[2:] == (3, 3)
