"""Numbers that overflow or are none are results on the host, too: NumPy neither warns of them nor raises."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.convolution import Convolution
from tests.support.onnx_case import one_node

INF = np.full((1, 2, 3, 4), np.inf, np.float32)
W = np.float32([[[[1]], [[-1]]]])


@pytest.fixture(params=["warnings are errors", "floating errors raise"])
def _strict(request: pytest.FixtureRequest) -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="raise" if "floating" in request.param else "warn"):
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("_strict")
@pytest.mark.parametrize(
    ("op", "inputs", "attributes"),
    [
        ("Conv", [INF, W], {}),
        ("MatMul", [INF, np.float32([[0]] * 4)], {}),
        ("AveragePool", [np.concatenate([INF, -INF], 2)], {"kernel_shape": [6, 1]}),
        ("DequantizeLinear", [np.int8([0, 1]), np.float32(np.inf)], {}),
        ("LayerNormalization", [np.zeros((3, 0), np.float32), np.ones(0, np.float32)], {}),
        ("InstanceNormalization", [np.zeros((1, 2, 0), np.float32), *[np.ones(2, np.float32)] * 2], {}),
    ],
)
@pytest.mark.parametrize("fixed", [False, True], ids=["fed", "folded"])
def test_nothing_is_warned_of_or_raised_where_numbers_are_not_finite(
    op: str, inputs: list[Any], attributes: dict[str, Any], *, fixed: bool
) -> None:
    constant = range(len(inputs)) if fixed else ()
    model, feeds = one_node(op, inputs, opset=21, constant=constant, **attributes)
    with clgraph.compile(model, device="host") as compiled:
        assert compiled.run(feeds)


@pytest.mark.usefixtures("_strict")
@pytest.mark.parametrize("fixed", [False, True], ids=["prepared", "compiled"])
def test_nothing_is_warned_of_or_raised_by_passes(*, fixed: bool) -> None:
    scale, zero = np.full(1, np.inf, np.float32), np.zeros(1, np.float32)
    topology = clgraph.Topology()
    x = topology.input("x", (2 if fixed else "n", 2, 3, 4))
    statistics = [topology.constant(n, a) for n, a in zip("sbmv", (scale, zero, zero, zero), strict=True)]
    y = topology.add("conv", Convolution(), x, topology.constant("w", np.zeros((1, 2, 1, 1), np.float32)))
    topology.output("y", topology.add("norm", BatchNormalization(epsilon=1e-5), y, *statistics))
    with clgraph.compile(topology, device="null") as compiled:
        compiled.prepare({"x": (2, 2, 3, 4)})
