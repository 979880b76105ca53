"""A model after each pass as the graphs that Model Explorer draws."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clgraph.compilation.entry import compile_model
from clgraph.errors import InputError
from clgraph.explorer.history import History, Step, read_histories

Outline = Mapping[str, Any]
EVERY_PASS = "after each pass"
"""What stands behind the file's name where a model has no stages."""


def collections(model: str, builder: Any) -> list[Any]:
    """Compile the ONNX file *model* and return its graphs, the last pass's first; a collection a stage.

    The device and other options are those of the environment.

    Args:
        builder: Model Explorer's module ``graph_builder``.

    Raises:
        ClgraphError: The model cannot be compiled, or has open sizes.
    """
    with tempfile.TemporaryDirectory(prefix="clgraph-view-") as folder:
        if not compile_model(model, config={"dump_graphs": folder}).is_compiled:
            name = Path(model).name
            raise InputError(f"{name} has open sizes; `clgraph view {name} --shape NAME=SIZES` shows it for some")
        histories = read_histories(Path(folder))
    return [
        builder.GraphCollection(
            label=history.label or EVERY_PASS,
            graphs=[builder.Graph(id=_title(step), nodes=_nodes(step.outline, builder)) for step in _steps(history)],
            graphSorting="name_desc",
        )
        for history in histories
    ]


def _steps(history: History) -> Iterator[Step]:
    """Yield the steps behind which the program is another than before."""
    shown: Sequence[Any] | None = None
    for step in history.steps:
        found = [step.outline[key] for key in ("inputs", "nodes", "outputs")]
        if found != shown:
            yield step
        shown = found


def _title(step: Step) -> str:
    """Return a name that sorts as the pipeline does; what is in brackets before what begins with a digit."""
    return f"({step.name})" if step.number < 0 else f"{step.number:02} {step.name}"


def _nodes(outline: Outline, builder: Any) -> list[Any]:
    """Return inputs, nodes and outputs; constants, whose number would hide them, are attributes of their readers."""
    constants = {v["name"]: v for v in outline["constants"]}
    made = {v["name"]: (f"input {v['name']}", "0") for v in outline["inputs"]}
    made |= {
        v["name"]: (node["name"], str(slot)) for node in outline["nodes"] for slot, v in enumerate(node["outputs"])
    }

    def pair(key: str, value: object) -> Any:
        return builder.KeyValue(key=key, value=str(value))

    def edges(names: Sequence[str]) -> list[Any]:
        return [
            builder.IncomingEdge(*made[name], targetNodeInputId=str(slot))
            for slot, name in enumerate(names)
            if name in made
        ]

    def results(values: Sequence[Outline]) -> list[Any]:
        return [
            builder.MetadataItem(id=str(slot), attrs=[pair("tensor_shape", _type(v)), pair("format", v["format"])])
            for slot, v in enumerate(values)
        ]

    inputs = [
        builder.GraphNode(id=f"input {v['name']}", label=v["name"], outputsMetadata=results([v]))
        for v in outline["inputs"]
    ]
    nodes = [
        builder.GraphNode(
            id=node["name"],
            label=node["kind"],
            namespace=_scope(node),
            attrs=[pair(key, value) for key, value in _told(node, constants)],
            incomingEdges=edges(node["inputs"]),
            outputsMetadata=results(node["outputs"]),
        )
        for node in outline["nodes"]
    ]
    outputs = [
        builder.GraphNode(id=f"output {o['name']}", label=o["name"], incomingEdges=edges([o["value"]]))
        for o in outline["outputs"]
    ]
    return [*inputs, *nodes, *outputs]


def _told(node: Outline, constants: Mapping[str, Outline]) -> Iterator[tuple[str, object]]:
    """Yield what is known of a node, without what is empty."""
    yield "name", node["name"]
    yield "primitive", node["primitive"]
    for key in ("placement", "implementation", "annotation"):
        if node[key]:
            yield key, node[key]
    for key in ("fused", "origin"):
        if node[key]:
            yield key, ", ".join(node[key])
    for name in node["inputs"]:
        if name in constants:
            yield f"constant {name}", f"{_type(constants[name])} {constants[name]['format']}"


def _scope(node: Outline) -> str:
    """Return the name scope of the ONNX node that a node stems from first, as the explorer's own page has it."""
    name = node["origin"][0] if node["origin"] else node["name"]
    return "/".join([part for part in name.split("/") if part][:-1])


def _type(value: Outline) -> str:
    return f"{value['dtype']}[{','.join(map(str, value['shape']))}]"
