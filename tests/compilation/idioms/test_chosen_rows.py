"""Mixtures of experts as PyTorch's exporters write them run as one program, and give what ONNX Runtime's do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import clgraph
from clgraph.compilation.idioms.chosen_rows import with_all_rows
from clgraph.compilation.sources import read_source
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.stages.model import StagedModel
from clgraph.ops.microsoft.moe import MixtureOfExperts
from tests.support.halves import in_float16
from tests.support.mixtures import EXPERTS, WIDTH, K, mixture
from tests.support.oracle import expected, worst_error


def rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(count).standard_normal((count, K)).astype(np.float32)


ROUNDED = 4 * (K + WIDTH + K) * 2.0**-24
"""Three products one behind the other; a sigmoid, two shares and a sum beside them round as often as a few terms."""


@pytest.mark.opencl
@pytest.mark.parametrize("extra", ["", "rows", "power", "scaled", "argmax", "gelu", "biased"])
@pytest.mark.parametrize("spelling", ["traced", "exported", "compared"])
def test_experts_of_chosen_rows_are_one_program(spelling: str, extra: str) -> None:
    model = mixture(spelling, extra=extra)
    compiled = clgraph.compile(model)
    assert not isinstance(compiled, StagedModel)
    for count in (1, 7):
        feeds = {"x": rows(count)}
        assert worst_error(compiled.run(feeds), expected(model, feeds)) <= ROUNDED


@pytest.mark.parametrize("extra", ["", "rows", "argmax"])
@pytest.mark.parametrize("spelling", ["traced", "exported", "compared"])
def test_experts_are_a_mixture_that_computes_their_rows(spelling: str, extra: str) -> None:
    layers = with_all_rows(load_onnx(mixture(spelling, extra=extra))).layers
    (found,) = (x for x in layers if isinstance(x.primitive, MixtureOfExperts))
    assert found.primitive.activation == "silu"
    assert not any(x.primitive.kind in ("matmul", "non_zero") for x in layers[layers.index(found) :])


@pytest.mark.parametrize(
    ("extra", "reads"),
    [
        ("gelu", ("shares", "fc1", "fc2")),
        ("faint", ("shares", "fc1", "fc2")),
        ("biased", ("shares", "fc1", "b1", "fc2", "b2")),
    ],
)
def test_experts_have_the_activation_that_is_closest_and_their_biases(extra: str, reads: tuple[str, ...]) -> None:
    layers = with_all_rows(load_onnx(mixture("traced", extra=extra))).layers
    (found,) = (x for x in layers if isinstance(x.primitive, MixtureOfExperts))
    assert (found.primitive.activation, found.primitive.reads) == ("gelu_erf", reads)


@pytest.mark.parametrize("spelling", ["traced", "exported", "compared"])
def test_experts_in_float16_are_a_mixture(spelling: str) -> None:
    layers = with_all_rows(load_onnx(in_float16(mixture(spelling)))).layers
    assert [x.primitive.activation for x in layers if isinstance(x.primitive, MixtureOfExperts)] == ["silu"]


def test_what_is_no_mixture_computes_all_rows_of_each_expert() -> None:
    """The rows are those that are fed: of the gathers those of masks are left."""
    for extra in ("power", "scaled"):
        layers = read_source(mixture("traced", extra=extra), None, None).layers
        assert not any(isinstance(x.primitive, MixtureOfExperts) for x in layers)
        assert sum(x.primitive.kind == "gather" for x in layers) == EXPERTS


@pytest.mark.opencl
@pytest.mark.parametrize("spelling", ["traced", "exported"])
def test_a_sum_of_some_experts_that_is_read_keeps_them_apart(spelling: str) -> None:
    model = mixture(spelling)
    some = [x.output[0] for x in model.graph.node if x.op_type == ("Add" if spelling == "traced" else "ScatterND")][1]
    model.graph.output.append(onnx.helper.make_tensor_value_info(some, onnx.TensorProto.FLOAT, None))
    feeds = {"x": rows(7)}
    assert worst_error(clgraph.compile(model).run(feeds), expected(model, feeds)) <= ROUNDED


@pytest.mark.opencl
@pytest.mark.parametrize("missing", [(4,), (0, 2)])
def test_experts_that_a_trace_has_not_met_add_nothing(missing: tuple[int, ...]) -> None:
    model = mixture("compared", missing=missing)
    assert any(isinstance(x.primitive, MixtureOfExperts) for x in with_all_rows(load_onnx(model)).layers)
    feeds = {"x": rows(9)}
    assert worst_error(clgraph.compile(model).run(feeds), expected(model, feeds)) <= ROUNDED


@pytest.mark.parametrize("spelling", ["traced", "compared"])
@pytest.mark.parametrize("extra", ["count", "vector", "places", "again"])
def test_rows_stay_chosen_where_something_depends_on_which(extra: str, spelling: str) -> None:
    source = load_onnx(mixture(spelling, extra=extra))
    assert with_all_rows(source) is source


def test_large_experts_compute_the_rows_that_have_chosen_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an expert's constants but its weights, a few numbers, none takes more than 64 bytes."""
    source = load_onnx(mixture("exported", extra="power"))
    monkeypatch.setattr("clgraph.compilation.idioms.row_choices._MOST_BYTES", 8 * K * WIDTH + 256)
    assert with_all_rows(source) is not source
    monkeypatch.setattr("clgraph.compilation.idioms.row_choices._MOST_BYTES", 8 * K * WIDTH - 1)
    assert with_all_rows(source) is source
