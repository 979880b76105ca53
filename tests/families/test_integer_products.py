"""Products of bytes with known weights: binding a member neither looks at the weights nor packs node by node."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.sources import read_source
from clgraph.families.notes import NOTE
from clgraph.ops.integer_matmul import IntegerMatMul
from tests.support.graphs import FLOAT
from tests.support.members import compare
from tests.support.open_models import open_model

pytestmark = pytest.mark.opencl

WIDTH, LAYERS = 384, 4
NONE = np.int8(0)


def quantised(zero: np.int8 | np.uint8 = NONE) -> onnx.ModelProto:
    """Return products as ONNX Runtime's dynamic quantiser writes them, behind a reshape to sizes that are computed."""
    random = np.random.default_rng(3)
    nodes = [helper.make_node("Shape", ["x"], ["sizes"]), helper.make_node("Reshape", ["x", "sizes"], ["y0"])]
    constants = {"zero": zero, "step": np.float32(0.01)}
    for i in range(LAYERS):
        constants[f"w{i}"] = random.integers(-127, 128, (WIDTH, WIDTH), np.int8).view(zero.dtype)
        nodes += [
            helper.make_node("DynamicQuantizeLinear", [f"y{i}"], [f"q{i}", f"s{i}", f"z{i}"]),
            helper.make_node("MatMulInteger", [f"q{i}", f"w{i}", f"z{i}", "zero"], [f"p{i}"], name=f"product{i}"),
            helper.make_node("Cast", [f"p{i}"], [f"f{i}"], to=FLOAT),
            helper.make_node("Mul", [f"s{i}", "step"], [f"t{i}"]),
            helper.make_node("Mul", [f"f{i}", f"t{i}"], [f"y{i + 1}" if i < LAYERS - 1 else "y"]),
        ]
    return open_model(nodes, {"x": (FLOAT, (1, "n", WIDTH))}, constants)


def rows(count: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(count).standard_normal((1, count, WIDTH)).astype(np.float32)}


def test_members_neither_expand_products_nor_look_at_their_weights(monkeypatch, device) -> None:
    """Values that are computed from data decide nothing, wherever sizes went into them."""
    expanded = []
    inline = IntegerMatMul.inline
    monkeypatch.setattr(IntegerMatMul, "inline", lambda *given: expanded.append(1) or inline(*given))
    with clgraph.compile(quantised(), device, config={"model_cache": 0}) as model:
        model.run(rows(40))
        assert expanded
        expanded.clear()
        for count in (7, 41, 300):
            assert model.prepare({"x": (1, count, WIDTH)}).notes[NOTE].startswith("bound")
        assert not expanded


def test_equal_products_are_packed_alike_for_members_that_want_other_weights(device) -> None:
    found = compare("rows", read_source(quantised(), None, None), [rows(n) for n in (2, 5, 24, 300)], device, {})
    assert not found.wrong
    assert found.bound == 4
    with clgraph.compile(quantised(), device, config={"model_cache": 0}) as model:
        model.run(rows(40))
        others = [p for n in range(2, 64) if "repacked" in (p := model.prepare({"x": (1, n, WIDTH)})).notes[NOTE]]
        assert others
        for program in others:
            assert f"{LAYERS} weights repacked" in program.notes[NOTE]
            # The first has another input, the graph's; the last notes no extrema for a next one.
            choices = [n.choice for n in program if n.primitive.kind == "quantized_matmul"]
            assert len(choices) == LAYERS
            assert choices[1] is choices[2]


def test_members_of_products_with_unsigned_weights_are_those_of_whole_compilations(device) -> None:
    source = read_source(quantised(np.uint8(117)), None, None)
    found = compare("rows", source, [rows(n) for n in (2, 5, 24, 300)], device, {})
    assert not found.wrong
    assert found.bound == 4
