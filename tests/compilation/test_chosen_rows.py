"""Mixtures of experts as PyTorch's exporters write them run as one program, and give what ONNX Runtime's do."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

import clgraph
from clgraph.compilation.chosen_rows import with_all_rows
from clgraph.compilation.sources import read_source
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.model.stages.model import StagedModel
from tests.support.graph_writer import GraphWriter
from tests.support.oracle import expected, worst_error

K, WIDTH, EXPERTS = 16, 24, 5


def mixture(spelling: str, best: int = 2, extra: str = "") -> onnx.ModelProto:
    """Return a mixture of the *best* of some experts, in the spelling of the traced exporter or torch.export's.

    Args:
        spelling: ``traced`` or ``exported``, with codes of all experts; ``compared``: places are compared with one.
        extra: What is different: the mask has ``rows`` first; how many rows an expert has is a result (``count``);
            rows are summed with those before them (``vector``); ``places`` may be the same.
    """
    g = GraphWriter("mixture", opset=18)
    x = g.input("x", ("rows", K))
    scores = g.add("MatMul", x, g.constant(weights(g, K, EXPERTS)))
    shares, places = g.split("TopK", g.add("Softmax", scores, axis=1), g.integers(best), results=2)
    if extra == "places":
        places = g.add("Cast", shares, to=onnx.TensorProto.INT64)
    order = [2, 0, 1] if extra == "rows" else [2, 1, 0]
    turned = places
    if spelling == "traced":
        codes = g.add("OneHot", places, g.integers(EXPERTS), g.constant(np.array([0, 1], np.int64)), axis=-1)
        turned = g.add("Transpose", codes, perm=order)
    elif spelling == "exported":
        wide = g.add("Unsqueeze", places, g.integers(-1))
        equal = g.add("Equal", wide, g.constant(np.arange(EXPERTS, dtype=np.int64)))
        turned = g.add("Transpose", g.add("Cast", equal, to=onnx.TensorProto.INT64), perm=order)
    total = g.add("Mul", x, g.number(0.0))
    outputs = []
    for expert in range(EXPERTS):
        number = g.constant(np.array(expert, np.int64))
        if spelling == "compared":
            equal = g.add("Equal", places, number)
            mask = equal if extra == "rows" else g.add("Transpose", equal, perm=[1, 0])
        else:
            mask = g.add("Gather", turned, number)
        found = g.add("NonZero", g.add("Cast", mask, to=onnx.TensorProto.BOOL))
        pair = g.split("Split", g.add("Transpose", found, perm=[1, 0]), axis=1, num_outputs=2, results=2)
        place, row = (g.add("Squeeze", part, g.integers(1)) for part in pair)
        if extra == "rows":
            place, row = row, place
        own = g.add("Gather", x, row)
        hidden = g.add("MatMul", own, g.constant(weights(g, K, WIDTH)))
        hidden = g.add("Mul", hidden, g.add("Sigmoid", hidden))
        made = g.add("MatMul", hidden, g.constant(weights(g, WIDTH, K)))
        if extra == "vector":
            made = g.add("Add", made, g.add("CumSum", made, g.constant(np.array(0, np.int64))))
        at = g.add("Concat", g.add("Unsqueeze", row, g.integers(1)), g.add("Unsqueeze", place, g.integers(1)), axis=1)
        made = g.add("Mul", made, g.add("Unsqueeze", g.add("GatherND", shares, at), g.integers(1)))
        column = g.add("Unsqueeze", row, g.integers(1))
        if spelling != "exported":
            wide = g.add("Expand", column, g.add("Shape", made))
            none = g.add("Mul", x, g.number(0.0))
            total = g.add("Add", total, g.add("ScatterElements", none, wide, made, axis=0))
        else:
            total = g.add("ScatterND", total, column, made, reduction="add")
        if extra == "count":
            outputs.append(g.add("Cast", g.add("Shape", row), to=onnx.TensorProto.FLOAT))
    return g.model(total, *outputs)


def weights(g: GraphWriter, *shape: int) -> NDArray[np.float32]:
    return g.random.normal(0, shape[0] ** -0.5, shape).astype(np.float32)


def rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(count).standard_normal((count, K)).astype(np.float32)


ROUNDED = 4 * (K + WIDTH + K) * 2.0**-24
"""Three products one behind the other; a sigmoid, two shares and a sum beside them round as often as a few terms."""


@pytest.mark.opencl
@pytest.mark.parametrize("extra", ["", "rows"])
@pytest.mark.parametrize("spelling", ["traced", "exported", "compared"])
def test_experts_of_chosen_rows_are_one_program(spelling: str, extra: str) -> None:
    model = mixture(spelling, extra=extra)
    compiled = clgraph.compile(model)
    assert not isinstance(compiled, StagedModel)
    for count in (1, 7):
        feeds = {"x": rows(count)}
        assert worst_error(compiled.run(feeds), expected(model, feeds)) <= ROUNDED


def test_the_rows_of_an_expert_are_those_that_are_fed() -> None:
    gathers = [x for x in read_source(mixture("traced"), None, None).layers if x.primitive.kind == "gather"]
    assert len(gathers) == EXPERTS  # of the masks


@pytest.mark.parametrize("spelling", ["traced", "compared"])
@pytest.mark.parametrize("extra", ["count", "vector", "places"])
def test_rows_stay_chosen_where_something_depends_on_which(extra: str, spelling: str) -> None:
    source = load_onnx(mixture(spelling, extra=extra))
    assert with_all_rows(source) is source


def test_large_experts_compute_the_rows_that_have_chosen_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an expert's constants but its weights, a few numbers, none takes more than 64 bytes."""
    source = load_onnx(mixture("exported"))
    monkeypatch.setattr("clgraph.compilation.row_choices._MOST_BYTES", 8 * K * WIDTH + 256)
    assert with_all_rows(source) is not source
    monkeypatch.setattr("clgraph.compilation.row_choices._MOST_BYTES", 8 * K * WIDTH - 1)
    assert with_all_rows(source) is source
