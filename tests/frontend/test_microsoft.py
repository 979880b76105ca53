"""What ONNX Runtime writes beside ONNX's operators: its signatures, its operator sets, its levels."""

from __future__ import annotations

import onnx
import pytest
from onnx import AttributeProto, parser
from onnxruntime.capi import onnxruntime_pybind11_state as state

from clgraph.errors import ModelError, UnsupportedError
from clgraph.frontend.checking import check_onnx
from clgraph.frontend.microsoft import _FOREIGN, _MICROSOFT, microsoft_signature
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.importing import IMPORTERS, MICROSOFT
from tests.support.models import small_model
from tests.support.optimised import optimised

SCHEMAS = {(s.domain, s.name): s for s in reversed(state.get_all_operator_schema()) if s.domain in ("", MICROSOFT)}


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 12, "com.microsoft": 1]>\n{text}')


def test_every_operator_of_onnxruntimes_that_is_read_has_a_signature_and_none_else() -> None:
    read = {op_type for domain, op_type, _ in IMPORTERS if domain == MICROSOFT}
    others = {"LayerNormalization", "SimplifiedLayerNormalization"}
    assert read - set(_MICROSOFT) == others, "of files of other programs"
    assert set(_MICROSOFT) <= read


@pytest.mark.parametrize(("domain", "table"), [("", _FOREIGN), (MICROSOFT, _MICROSOFT)])
def test_signatures_are_onnxruntimes(domain: str, table: dict[str, str]) -> None:
    for op_type in table:
        schema, mine = SCHEMAS[domain, op_type], microsoft_signature(op_type, domain)
        assert mine is not None
        for places, theirs in ((mine.inputs, schema.inputs), (mine.outputs, schema.outputs)):
            optional = [str(p.option).endswith("Optional") for p in theirs]
            assert [(p.letter, p.optional) for p in places] == [
                (p.typeStr, o) for p, o in zip(theirs, optional, strict=True)
            ]
        least = sum(not p.optional for p in mine.inputs)
        assert mine.input_counts[0] == schema.min_input >= least, op_type
        kinds = {name: str(a.type).rpartition(".")[2] for name, a in schema.attributes.items()}
        assert {n: AttributeProto.AttributeType.Name(k) for n, k in mine.attributes.items()} == kinds, op_type
        assert mine.required == {name for name, a in schema.attributes.items() if a.required}, op_type


def test_nodes_that_break_a_signature_are_refused_by_name() -> None:
    for node, what in (
        ("com.microsoft.BiasGelu(x)", "has 1 inputs, not 2"),
        ("com.microsoft.Gelu <alpha: float = 1.0> (x)", "has an attribute 'alpha', which ONNX does not define"),
        ("com.microsoft.FusedMatMul <transA: float = 1.0> (x, x)", "attribute 'transA' has type 1, not INT"),
        ("com.microsoft.BiasGelu(x, i)", r"inputs 0 and 1 want to be of one type, and are tensor\(float\)"),
        ("com.microsoft.FusedMatMul <transA = 2> (x, x)", "attribute 'transA' is 2; expected 0 or 1"),
    ):
        with pytest.raises(ModelError, match=what):
            load_onnx(model(f"g (float[2,2] x, int32[2] i) => (float[2,2] y) {{ y = {node} }}"))


def test_types_are_followed_through_onnxruntimes_operators() -> None:
    text = "g (float[2] x, int32[2] i) => (int32[2] y) { h = com.microsoft.Gelu(x) [n] y = Add(h, i) }"
    with pytest.raises(ModelError, match=r"'n' \(Add\) inputs 0 and 1 want to be of one type"):
        load_onnx(model(text))


def test_a_model_need_not_import_onnxruntimes_domain() -> None:
    made = model("g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu(x) }")
    del made.opset_import[1:]
    assert [layer.primitive.kind for layer in load_onnx(made).layers] == ["activation"]


def test_a_level_that_is_for_one_processor_is_refused_by_its_name(tmp_path) -> None:
    made = optimised(small_model(), "all", tmp_path)
    with pytest.raises(UnsupportedError, match=r"nchwc\.Conv \(.*at the level 'layout' or 'all'.*level 'extended'"):
        load_onnx(made)
    needed = {problem.needed for problem in check_onnx(made).problems}
    assert len(needed) == 1
    assert "write it at the level 'extended'" in needed.pop()


def test_an_operator_of_another_version_of_onnx_is_still_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"clgraph does not have: Gelu \(1\)"):
        load_onnx(model("g (float[2] x) => (float[2] y) { y = Gelu(x) }"))
    text = "g (float[2] x, float[2] s) => (float[2] y) { y = LayerNormalization <axis = -1> (x, s) }"
    ((_, y),) = load_onnx(model(text)).build().outputs
    assert y.layout.shape == (2,)
