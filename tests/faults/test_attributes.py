"""Every attribute of every operator at the ends of what it can be: results, or one error that says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import prod
from typing import Any, NamedTuple

import onnx
import pytest
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

import clgraph
import clgraph.ops
from clgraph.errors import ClgraphError, InternalError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.importing import IMPORTERS
from tests.support.node_cases import node_cases

LEAST, MOST = -(2**63), 2**63 - 1

WHOLE = (0, -1, 7, LEAST, MOST)
REAL = (0.0, -1.0, 1e38, -1e38, 1e-45, float("nan"), float("inf"))
TENSORS = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT64,
    TensorProto.BOOL,
    TensorProto.STRING,
    TensorProto.UINT4,
    TensorProto.BFLOAT16,
)
TEXTS = (b"", b"\0", b"nonsense", b"\xff")

BY_VALUES = {
    ("MaxUnpool", "IndexError"),
    ("RoiAlign", "IndexError"),
    ("RoiAlign", "ValueError"),
    ("Scatter", "IndexError"),
    ("ScatterElements", "IndexError"),
}
"""Operators and what NumPy says of sizes or places that only values tell, which a ``ShapeError`` quotes."""


class Case(NamedTuple):
    """A node with its feeds, and one of its attributes, given or the schema's default."""

    model: onnx.ModelProto
    feeds: Mapping[str, Any]
    attribute: AttributeProto


def extremes(attribute: AttributeProto) -> Iterator[Any]:
    """Yield the values to try; none for graphs, which have their own tests."""
    match attribute.type:
        case AttributeProto.INT:
            yield from WHOLE
        case AttributeProto.FLOAT:
            yield from REAL
        case AttributeProto.STRING:
            yield from TEXTS
        case AttributeProto.INTS:
            given = list(attribute.ints)
            yield from ([], given[:-1], [*given, 1], given[::-1], *([end] * len(given) for end in WHOLE))
        case AttributeProto.FLOATS:
            given = list(attribute.floats)
            yield from ([], given[:-1], *([end] * len(given) for end in REAL))
        case AttributeProto.STRINGS:
            given = list(attribute.strings)
            yield from ([], given[:-1], *([text] * len(given) for text in TEXTS))
        case AttributeProto.TENSOR:
            for dtype in TENSORS:
                for dims in dict.fromkeys((tuple(attribute.t.dims), (), (0,), (2, 3))):
                    yield helper.make_tensor("", dtype, dims, [b"" if dtype == TensorProto.STRING else 1] * prod(dims))


def changed(case: Case, value: Any) -> onnx.ModelProto:
    """Return the model with another value of the attribute, ``None`` for none."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (node,) = model.graph.node
    kept = [a for a in node.attribute if a.name != case.attribute.name]
    del node.attribute[:]
    node.attribute.extend(kept)
    if value is not None:
        node.attribute.append(helper.make_attribute(case.attribute.name, value, attr_type=case.attribute.type))
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


@cache
def cases() -> tuple[Case, ...]:
    """Return ONNX's first case of each attribute of each operator that clgraph imports, one that has it if there is."""
    claimed = {(domain, op_type) for domain, op_type, _ in IMPORTERS}
    given: dict[tuple[str, str], Case] = {}
    left_out: dict[tuple[str, str], Case] = {}
    for case in node_cases():
        graph = case.model.graph
        if len(graph.node) != 1 or not case.data_sets:
            continue
        (node,) = graph.node
        domain = "" if node.domain == "ai.onnx" else node.domain
        if (domain, node.op_type) not in claimed:
            continue
        feeds = {v.name: _array(a) for v, a in zip(graph.input, case.data_sets[0][0], strict=False)}
        version = {o.domain: o.version for o in case.model.opset_import}[domain]
        for found, attributes in ((given, node.attribute), (left_out, _defaults(node, version))):
            for attribute in attributes:
                found.setdefault((node.op_type, attribute.name), Case(case.model, feeds, attribute))
    return tuple((left_out | given).values())


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _defaults(node: onnx.NodeProto, version: int) -> Iterator[AttributeProto]:
    given = {a.name for a in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, version, node.domain).attributes.items():
        if name not in given:
            made = attribute.default_value if attribute.default_value.type else AttributeProto(type=int(attribute.type))
            yield AttributeProto.FromString(made.SerializeToString() + AttributeProto(name=name).SerializeToString())


def wrong(case: Case, value: Any, model: onnx.ModelProto) -> str | None:
    """Return what must not be about *model*, which has *value*; ``None`` where it runs or is refused for a reason."""
    (node,) = case.model.graph.node
    what = f"{node.op_type}, {case.attribute.name}={value}"
    try:
        shapes = {name: array.shape for name, array in case.feeds.items() if hasattr(array, "shape")}
        topology = load_onnx(model, fed=shapes)
        clgraph.compile(topology, device="null", shapes=shapes)
        clgraph.compile(topology, device="host").run(case.feeds)
    except InternalError as error:
        return f"{what}: {error}"
    except ClgraphError as error:
        unsaid = str(error).partition("does not fit its inputs: ")[2]
        if unsaid and (node.op_type, unsaid.partition(":")[0]) not in BY_VALUES:
            return f"{what}: the reason is nobody's: {error}"
    except Exception as error:  # whatever it is, it must not come out of clgraph: that is what is looked for
        return f"{what}: {type(error).__name__}: {error}"
    return None


def models(case: Case) -> Iterator[tuple[Any, onnx.ModelProto]]:
    """Yield the values and what each makes of the model, one of those that make the same."""
    tried = set()
    for value in (None, *extremes(case.attribute)):
        model = changed(case, value)
        if (text := model.SerializeToString(deterministic=True)) not in tried:
            tried.add(text)
            yield value, model


PARTS = 8


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_any_value_of_any_attribute_is_a_result_or_one_error_with_its_reason(part: int) -> None:
    found = [
        problem
        for case in cases()[part::PARTS]
        for value, model in models(case)
        if (problem := wrong(case, value, model)) is not None
    ]
    assert not found, "\n".join(found)


def test_the_cases_are_those_of_most_operators() -> None:
    assert len(cases()) > 250
    assert len({case.model.graph.node[0].op_type for case in cases()}) > 100
