"""Mixtures of experts whose rows are split by computed sizes: numbers confirm them, and nothing runs in stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clgraph
from clgraph.compilation.idioms.sorted_mixtures import with_sorted_mixtures
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.stages.model import StagedModel
from clgraph.ops.microsoft.moe import MixtureOfExperts
from tests.support.mixtures import EXPERTS, WIDTH, K
from tests.support.oracle import expected, worst_error
from tests.support.sorted_mixtures import gathered_mixture, sorted_mixture

ROUNDED = 4 * (K + WIDTH + K) * 2.0**-24
"""Three products one behind the other; a sigmoid, two shares and a sum beside them round as often as a few terms."""


def rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(count).standard_normal((count, K)).astype(np.float32)


@pytest.mark.opencl
@pytest.mark.parametrize(("gated", "ranges"), [(False, False), (True, False), (True, True)])
def test_rows_that_are_split_by_expert_are_one_program(gated: bool, ranges: bool) -> None:
    model = sorted_mixture(gated=gated, ranges=ranges)
    compiled = clgraph.compile(model)
    assert not isinstance(compiled, StagedModel)
    for count in (1, 7):
        feeds = {"x": rows(count)}
        assert worst_error(compiled.run(feeds), expected(model, feeds)) <= ROUNDED


@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("size", [0.5, 1e-4])
@pytest.mark.parametrize(("gated", "activation"), [(False, "relu"), (True, "silu")])
def test_experts_are_a_mixture_without_splits(gated: bool, activation: str, size: float, ranges: bool) -> None:
    layers = with_sorted_mixtures(load_onnx(sorted_mixture(gated=gated, size=size, ranges=ranges))).layers
    (found,) = (x for x in layers if isinstance(x.primitive, MixtureOfExperts))
    assert found.primitive.activation == activation
    assert found.primitive.columns == ranges
    assert not any(x.primitive.kind in ("split", "sequence") for x in layers)


@pytest.mark.parametrize("ranges", [False, True])
def test_every_expert_must_have_its_own_matrices(ranges: bool) -> None:
    """One that few rows choose at random has another's."""
    source = load_onnx(sorted_mixture(order=(0, 1, 2, 3, 3), ranges=ranges))
    assert with_sorted_mixtures(source) is source


def test_what_a_user_reads_of_the_choice_stays() -> None:
    source = load_onnx(sorted_mixture())
    (split, *_) = (x for x in source.layers if x.primitive.kind == "split")
    source.output("sizes", split.inputs[1])
    assert with_sorted_mixtures(source) is source


@pytest.mark.opencl
@pytest.mark.parametrize("gated", [False, True])
def test_experts_whose_matrices_are_gathered_are_a_mixture(gated: bool) -> None:
    model = gathered_mixture(gated=gated)
    layers = with_sorted_mixtures(load_onnx(model)).layers
    (found,) = (x for x in layers if isinstance(x.primitive, MixtureOfExperts))
    assert found.primitive.activation == ("silu" if gated else "relu")
    assert found.primitive.columns != gated
    compiled = clgraph.compile(model)
    for count in (1, 7):
        feeds = {"x": rows(count)[None]}
        assert worst_error(compiled.run(feeds), expected(model, feeds)) <= ROUNDED


@pytest.mark.parametrize("changed", [{"last": EXPERTS - 2}, {"whole": True}], ids=["matrices", "rows"])
def test_gathered_matrices_that_are_no_mixture_stay(changed: dict[str, Any]) -> None:
    """One expert has another's matrix, or a choice another row than that which it was made for."""
    source = load_onnx(gathered_mixture(**changed))
    assert with_sorted_mixtures(source) is source
