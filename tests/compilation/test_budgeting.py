"""Devices with budgets of memory: each takes layers in order until it is full, the next one goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.budgeting import NOTE
from clgraph.errors import MemoryLimitError, OptionError, UnsupportedError
from clgraph.network.memory_need import memory_needs, spelled
from tests.support.graphs import FLOAT
from tests.support.open_models import open_model

FIRST, SECOND = "pocl:0/1of2", "pocl:0/2of2"
LAYERS, MIB = 8, 1 << 20
pytestmark = [
    pytest.mark.opencl,
    pytest.mark.usefixtures("several_units"),
]


def _chain(rows: int | str = 4) -> onnx.ModelProto:
    """Products behind each other, with weights of 256 KiB each."""
    random = np.random.default_rng(0)
    weights = {f"w{i}": random.standard_normal((256, 256)).astype(np.float32) / 16 for i in range(LAYERS)}
    values = ["x", *(f"h{i}" for i in range(1, LAYERS)), "y"]
    nodes = []
    for i in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [values[i], f"w{i}"], [f"p{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Tanh", [f"p{i}"], [values[i + 1]], name=f"tanh{i}"))
    return open_model(nodes, {"x": (FLOAT, (rows, 256))}, weights)


def _compiled(budgets: dict[str, Any], source: Any = None, **options: Any) -> clgraph.Model:
    config = {"placement_budget": budgets, "model_cache": 0}
    return clgraph.compile(_chain() if source is None else source, f"{FIRST},{SECOND}", config=config, **options)


def _products(model: clgraph.Model) -> dict[str, list[str]]:
    """Return the products on each device, in order."""
    found: dict[str, list[str]] = {FIRST: [], SECOND: []}
    for node in model.program:
        if node.primitive.kind in ("matmul", "block_matmul"):
            found[node.placement or ""] += [o for o in node.origin if o.startswith("product")]
    return found


def _taken(model: clgraph.Model) -> dict[str, int]:
    return {n.placement: n.total for n in memory_needs(model.program, model._specialisations.latest.devices)}


X = {"x": np.random.default_rng(1).standard_normal((4, 256)).astype(np.float32)}


def test_a_device_takes_layers_in_order_until_its_budget_is_full() -> None:
    want = clgraph.compile(_chain(), FIRST, config={"model_cache": 0}).run(X)["y"]
    for budget, fitting in ((MIB, 3), (3 * MIB // 2, 5), (8 * MIB, LAYERS), (1000, 0)):
        model = _compiled({FIRST: budget})
        names = [f"product{i}" for i in range(LAYERS)]
        found = _products(model)
        assert found[FIRST] == names[:fitting], (budget, found)
        assert found[SECOND] == names[fitting:]
        places = [node.placement or "" for node in model.program]
        assert places == sorted(places), "one part each"
        taken = _taken(model)
        assert taken.get(FIRST, 0) <= budget
        np.testing.assert_allclose(model.run(X)["y"], want, rtol=1e-5, atol=1e-6)
        for name, nbytes in taken.items():
            assert f"{name} takes {spelled(nbytes)}" in model.program.notes[NOTE]


def test_weights_of_few_bits_fill_a_budget_by_what_they_take() -> None:
    """Partition counts floats: what is planned then says that three times as many fit."""
    model = _compiled({FIRST: MIB}, _wide(), weights="int8")
    assert len(_products(model)[FIRST]) >= 3, "a weight of 1 MiB takes 0.27"
    assert _taken(model)[FIRST] <= MIB


def _wide() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    weights = {f"w{i}": random.standard_normal((512, 512)).astype(np.float32) / 23 for i in range(5)}
    values = ["x", "h1", "h2", "h3", "h4", "y"]
    nodes = [helper.make_node("MatMul", [values[i], f"w{i}"], [values[i + 1]], name=f"product{i}") for i in range(5)]
    return open_model(nodes, {"x": (FLOAT, (4, 512))}, weights)


def test_a_budget_that_cannot_be_met_is_one_error_with_the_numbers() -> None:
    with pytest.raises(
        MemoryLimitError, match=rf"has to run on {SECOND} takes .* placement_budget allows 512\.0 KiB"
    ) as e:
        _compiled({FIRST: MIB, SECOND: MIB // 2})
    assert f"--placement-budget {SECOND}='" in str(e.value)
    enough = {FIRST: MIB, SECOND: 3 * MIB // 2}
    assert _taken(_compiled(enough))[SECOND] <= enough[SECOND]
    with pytest.raises(OptionError, match="'much' is not a number of bytes"):
        _compiled({FIRST: "much"})
    with pytest.raises(OptionError, match=r"nothing is placed on host|nothing is placed on pocl:0;"):
        _compiled({"pocl:0": MIB})


def test_patterns_count_first_and_go_on_when_their_device_is_full() -> None:
    """What is wished for a device counts from its budget, and goes where the others go when that is full."""
    model = _compiled({SECOND: MIB}, placement={"product7": SECOND})
    assert _products(model)[SECOND] == ["product7"]
    model = _compiled({SECOND: MIB}, placement={"product*": SECOND, "tanh*": SECOND})
    found = _products(model)
    assert found[SECOND] == ["product0", "product1", "product2"]
    assert found[FIRST] == [f"product{i}" for i in range(3, LAYERS)]
    assert _taken(model)[SECOND] <= MIB


def test_each_set_of_shapes_is_shared_out_by_itself() -> None:
    model = _compiled({FIRST: 2 * MIB}, _chain("n"))
    counts = []
    for rows in (4, 256):
        y = model.run({"x": np.ones((rows, 256), np.float32)})["y"]
        assert y.shape == (rows, 256)
        counts.append(len(_products(model)[FIRST]))
        assert _taken(model)[FIRST] <= 2 * MIB
    assert counts[0] > counts[1], "activations count"


def test_what_runs_in_stages_is_not_shared_out_by_budgets() -> None:
    nodes = [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=FLOAT)]
    with pytest.raises(UnsupportedError, match=r"stages.*--placement"):
        _compiled({FIRST: MIB}, open_model(nodes, {"x": (FLOAT, (2, 3))}))
