"""Where each ONNX operator runs, by its version and element type, tried on the cases of onnx's tests.

The type is that of the first input that is of the type of the result, else of the first input; so are all inputs and
outputs that the schema gives the same letter. A case is compiled as a dry run for a CPU device; what that refuses, for
the host.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, defs, numpy_helper

from clgraph.compilation.entry import compile_model
from clgraph.errors import ClgraphError, ModelError, UnknownValueError, UnsupportedError
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.frontend.value_types import tensor_of
from clgraph.frontend.weights import DTYPES
from clgraph.graph.importing import IMPORTERS
from clgraph.model.stages.split import needs_stages
from tests.support.node_cases import node_cases

PAGE = Path(__file__).parents[2] / "docs" / "operator_types.md"
PLACES = ("device", "host", "refused")
NEWEST = 28
TYPES = {**{code: str(dtype) for code, dtype in DTYPES.items()}, TensorProto.STRING: "string"}
"""The names of ONNX's element types on the page."""


@dataclass(frozen=True)
class Row:
    """Versions of an operator that run in the same places.

    Attributes:
        types: Names of element types by place; of versions that no case fits none.
    """

    operator: str
    versions: tuple[int, ...]
    types: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        """Print a line of the table."""
        cells = [" ".join(self.types.get(place, ())) for place in PLACES]
        versions = ", ".join(map(str, self.versions))
        return f"| `{self.operator}` | {versions} | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")


@cache
def operators() -> tuple[str, ...]:
    """Return the operators of ONNX's own domain that clgraph reads and onnx has a case of one node for."""
    read = {op_type for domain, op_type, _ in IMPORTERS if not domain}
    return tuple(sorted((read & set(_cases())) - {"If", "Loop", "Scan"}))


@cache
def _cases() -> Mapping[str, Sequence[Any]]:
    """Return cases of one node by operator: one for each number of inputs and set of attributes, most of them first."""
    found: dict[str, dict[tuple[int, tuple[str, ...]], Any]] = defaultdict(dict)
    for case in node_cases():
        graph = case.model.graph
        if len(graph.node) == 1 and not graph.node[0].domain and graph.input and not graph.initializer:
            attributes = tuple(sorted(a.name for a in graph.node[0].attribute))
            found[graph.node[0].op_type].setdefault((len(graph.input), attributes), case)
    return {name: [cases[form] for form in sorted(cases, reverse=True)] for name, cases in found.items()}


def rows_of(operator: str) -> Iterator[Row]:
    """Yield the rows of *operator*."""
    known = {s.since_version for s in defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", operator)}
    versions = sorted(v for domain, name, v in IMPORTERS if (domain, name) == ("", operator) and v in known)
    found: dict[tuple[tuple[str, tuple[str, ...]], ...], list[int]] = {}
    for version in versions:
        places: dict[str, list[str]] = defaultdict(list)
        for code, name in TYPES.items():
            if (place := place_of(operator, version, code)) is not None:
                places[place].append(name)
        found.setdefault(tuple((p, tuple(t)) for p, t in sorted(places.items())), []).append(version)
    for same, together in found.items():
        yield Row(operator, tuple(together), dict(same))


def place_of(operator: str, version: int, code: int) -> str | None:
    """Return where *operator* runs in *version* on elements of type *code*; ``None`` where ONNX or no case has it.

    Of several cases the first that ONNX takes decides.
    """
    return next((place for model in models_of(operator, code, version) if (place := _place(model)) is not None), None)


def models_of(operator: str, code: int, version: int = NEWEST) -> Iterator[onnx.ModelProto]:
    """Yield the cases of *operator* in *version* on elements of type *code*; none where ONNX does not have that."""
    schema = defs.get_schema(operator, version, "")
    if not schema.inputs or not schema.outputs:
        return
    alike = (i for i, p in enumerate(schema.inputs) if p.type_str == schema.outputs[0].type_str)
    slot = next(alike, 0)
    if tensor_of(code) in schema.inputs[slot].types:
        yield from (_changed(case, schema, slot, code) for case in _cases()[operator])


def _place(model: onnx.ModelProto) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            staged = needs_stages(load_onnx(model))
        except UnsupportedError:
            return "refused"
        except ModelError:
            return None
        for device, place in (("null", "device"), ("host", "host")):
            if staged and device == "null":
                continue
            try:
                compile_model(model, device).prepare() if not staged else compile_model(model, device)
            except UnknownValueError:
                return None
            except UnsupportedError:
                continue
            except ClgraphError:
                return None
            return place
    return "refused"


def _changed(case: Any, schema: Any, slot: int, code: int) -> onnx.ModelProto:
    """Return the model of *case* for the version of *schema*, its type that of input *slot*.

    What is neither of that type nor has several axes is a constant: it may decide sizes.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for entry in model.opset_import:
        entry.version = schema.since_version
    (node,), letter = model.graph.node, schema.inputs[slot].type_str
    typed = {n for n, p in _places(node.input, schema.inputs) if p.type_str == letter}
    typed |= {n for n, p in _places(node.output, schema.outputs) if p.type_str == letter}
    values = case.data_sets[0][0] if case.data_sets else ()
    for value, array in zip(model.graph.input, values, strict=False):
        if value.name not in typed and getattr(array, "ndim", 9) <= 1:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    for value in (*model.graph.input, *model.graph.output):
        if value.name in typed and value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = code
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    return model


def _places(names: Sequence[str], parameters: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield *names* with what the schema says of each; the last parameter stands for all further ones."""
    for i, name in enumerate(names):
        if name and parameters:
            yield name, parameters[min(i, len(parameters) - 1)]


def table(rows: Sequence[Row]) -> str:
    """Return the table of *rows* as Markdown."""
    head = ["| operator | versions | on the device | on the host | refused |", "|---|---|---|---|---|"]
    return "\n".join([*head, *map(str, rows)])


def listed() -> Mapping[str, list[str]]:
    """Return the lines of the page by operator."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            found[line.split("`")[1]].append(line)
    return found
