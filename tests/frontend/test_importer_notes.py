"""What importers read in another precision, or from other data than the model has, is said."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

import clgraph
from clgraph.cli.check_command import command as check
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.importing import MICROSOFT, QONNX
from tests.support.onnx_case import one_node

F, H, U, I8, I32 = np.float32, np.float16, np.uint8, np.int8, np.int32
OPS = Path(clgraph.__file__).parent / "ops"


def bits(block=16, zeros=None, groups=None):
    inputs = [np.zeros((3, 32), F), np.zeros((6, 32 // block, block // 2), U), np.ones((6, 32 // block), F)]
    more = {"N": 6, "K": 32, "bits": 4, "block_size": block, "constant": range(1, 5)}
    return ("MatMulNBits", [*inputs, zeros, groups][: 5 if groups is not None else 4 if zeros is not None else 3], more)


def experts(block, size=8):
    packed, scales = np.zeros((2, size, size // 2), U), np.ones((2, size, size // block), H)
    inputs = [np.zeros((3, size), H), np.zeros((3, 2), H), packed, scales, None, packed, scales]
    return ("QMoE", inputs, {"k": 1, "expert_weight_bits": 4, "block_size": block, "constant": (2, 3, 5, 6)})


def picked(data, scales, **more):
    inputs = [data, np.array([1]), scales]
    return ("GatherBlockQuantized", inputs, {"bits": 4, "block_size": 16, "constant": (0, 2), **more})


def product(last, constant=range(3, 9)):
    a, b, one, zero = np.zeros((2, 4), U), np.zeros((4, 3), U), np.ones((), F), np.zeros((), U)
    inputs = [a, one, zero, b, last, np.zeros(last.shape, U), np.zeros(3, I32), one, zero]
    return ("QGemm", inputs, {"constant": constant})


def scaled(scale):
    x, zero = np.zeros((2, 3), U), np.zeros((), U)
    return ("QLinearMul", [x, F(scale), zero, x, F(1), zero, F(1), zero], {"constant": (1, 2, 4, 5, 6, 7)})


def cell():
    ones, zeros = np.ones(1, F), np.zeros(1, I8)
    weights = [np.zeros((1, n, 16), I8) for n in (5, 4)]
    inputs = [np.zeros((2, 1, 5), F), *weights, *[None] * 5, ones, zeros, ones, zeros]
    return ("DynamicQuantizeLSTM", inputs, {"hidden_size": 4, "constant": (1, 2, 8, 9, 10, 11)})


def few(op_type, *constants, **more):
    x = np.zeros((2, 3), F)
    return (op_type, [x, *map(F, constants)], {"constant": range(1, 1 + len(constants)), "domain": QONNX[0], **more})


SAID = [
    (bits(groups=np.repeat([0, 1], 16).astype(I32)), "weights of 4 bits become float32 .*g_idx"),
    (bits(zeros=np.zeros((6, 2), F)), "weights of 4 bits become float32 .* zero points are float32"),
    (bits(block=4), "weights of 4 bits become float32 .* blocks of 4 weights of 4 bits are no whole words"),
    (experts(4), "fc1 of 4 bits becomes float16 .* blocks of 4 are no records; fc2 of 4 bits becomes float16"),
    (
        (
            "MatMulBnb4",
            [np.zeros((2, 8), F), np.zeros(16, U), np.ones(2, F)],
            {"N": 4, "K": 8, "quant_type": 1, "block_size": 16, "constant": (1, 2)},
        ),
        "weights of 4 bits become float32",
    ),
    (picked(np.zeros((9, 32), I8), np.ones((9, 2), F)), "a table of int8 becomes float32 .* it is not packed"),
    (
        picked(np.zeros((9, 32), U), np.ones((9, 4), H), gather_axis=1, quantize_axis=1),
        "a table of uint8 becomes float16 .* rows are not what is picked",
    ),
    (cell(), "weights of 8 bits become float32"),
    (product(np.ones(3, F), (3, 4, 5, 7, 8)), "the bias becomes float32"),
    (scaled(2.0**120), "scales of inputs 1 and 6 become 256 times smaller"),
    (few("Quant", 0.5, 0.0, 8, rounding_mode="FLOOR"), "its integers stay floats"),
    (few("Quant", 0.5, 0.0, 1), "its integers stay floats"),
    (few("BipolarQuant", 0.5), "its integers stay floats"),
    (few("Trunc", 0.5, 0.0, 8, 4), "its integers stay floats"),
    (few("FloatQuant", 0.5, 4, 3, 7), "its integers stay floats"),
]
UNSAID = [
    bits(),
    experts(32, 64),
    picked(np.zeros((9, 16), U), np.ones((9, 2), F)),
    product(np.ones(3, F)),
    scaled(2.0),
    few("Quant", 0.5, 0.0, 8),
]

REVIEWED = {"non_max_suppression.py": "its literals are ONNX's defaults of inputs that are not there"}


def model_of(case):
    op_type, inputs, more = case
    return one_node(op_type, inputs, **{"opset": 17, "domain": MICROSOFT, **more})[0]


@pytest.mark.parametrize(("case", "what"), SAID, ids=lambda x: x[0] if isinstance(x, tuple) else "")
def test_an_importer_says_what_it_reads_otherwise_than_it_is_written(case, what) -> None:
    model = model_of(case)
    topology = load_onnx(model)
    (text,) = topology.noted.values()
    assert text.startswith(f"({case[0]}) ")
    assert re.search(what, text)
    assert f"  note node: {text}" in str(topology).splitlines()
    assert check_onnx(model).noted == topology.noted


@pytest.mark.parametrize("case", UNSAID, ids=lambda x: x[0])
def test_nothing_is_said_where_weights_stay_as_they_are(case) -> None:
    assert load_onnx(model_of(case)).noted == {}


def test_every_importer_that_makes_constants_of_constants_says_so() -> None:
    """A literal made of what a constant input holds is other data than the model names."""
    silent = []
    for path in sorted(OPS.rglob("*.py")):
        calls = [n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
        called = {f.attr for f in calls if isinstance(f, ast.Attribute) and ast.unparse(f.value) == "node"}
        reads = "constant" in called or any(isinstance(f, ast.Name) and f.id == "constant_of" for f in calls)
        if reads and "literal" in called and "note" not in called:
            silent.append(path.name)
    assert silent == sorted(REVIEWED)
    tried = {case[0] for case, _ in SAID}
    assert {"MatMulNBits", "QMoE", "MatMulBnb4", "GatherBlockQuantized", "DynamicQuantizeLSTM"} <= tried


@pytest.mark.opencl
def test_explain_check_and_saved_models_show_it(tmp_path) -> None:
    model = model_of(SAID[4][0])
    wanted = load_onnx(model).noted["node"]
    compiled = clgraph.compile(model, "host")
    assert compiled.explain().notes["importers"] == f"node {wanted}"
    compiled.save(tmp_path / "m.clg")
    assert clgraph.load(tmp_path / "m.clg").explain().notes["importers"] == f"node {wanted}"
    onnx.save(model, tmp_path / "m.onnx")
    shown = CliRunner().invoke(check, [str(tmp_path / "m.onnx"), "--device", "host"])
    assert f"note        node {wanted}" in shown.output
    told = CliRunner().invoke(check, [str(tmp_path / "m.onnx"), "--device", "host", "--json"])
    assert json.loads(told.output)["noted"] == {"node": wanted}


def test_what_a_body_says_is_said_of_the_model() -> None:
    inner = model_of(SAID[4][0])
    body = helper.make_graph(inner.graph.node, "then", [], inner.graph.output, inner.graph.initializer)
    branch = helper.make_node("If", ["c"], ["z"], name="if", then_branch=body, else_branch=body)
    inputs = [helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []), *inner.graph.input]
    graph = helper.make_graph([branch], "g", inputs, [helper.make_empty_tensor_value_info("z")])
    found = load_onnx(helper.make_model(graph, opset_imports=inner.opset_import, ir_version=8))
    assert any("MatMulBnb4" in text for text in found.noted.values())
    assert str(found).count("  note ") == len(found.noted)
