"""A program after a pass as an ONNX file, for programs that draw such files; it holds no weights and cannot be run."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.version import __version__
from clgraph.frontend.protobuf import TensorProto, onnx

DOMAIN = "clgraph"
"""Domain of the nodes, whose operators are kinds of primitives."""


def export_outline(outline: Mapping[str, Any], name: str) -> onnx.ModelProto:
    """Return the program that *outline* tells of (:func:`clgraph.graph.outline.outline`) as a graph called *name*.

    A node is an operator of domain ``clgraph`` with the program's decisions as attributes; a value has its logical
    shape, and its memory format in its documentation. Constants are initialisers whose data is said to lie in a file
    that there is not.
    """
    nodes = [_node(node) for node in outline["nodes"]]
    made = {v["name"]: v for node in outline["nodes"] for v in node["outputs"]} | {
        v["name"]: v for v in outline["inputs"]
    }
    results = [_value(made[o["value"]]) for o in outline["outputs"] if o["value"] in made]
    graph = onnx.helper.make_graph(
        nodes,
        name,
        [_value(v) for v in outline["inputs"]],
        results,
        [_constant(v) for v in outline["constants"]],
        value_info=[_value(v) for v in made.values()],
    )
    versions = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid(DOMAIN, 1)]
    return onnx.helper.make_model(graph, producer_name="clgraph", producer_version=__version__, opset_imports=versions)


@functools.cache
def _type(name: str) -> int:
    """Return ONNX's number of the element type that prints as *name*."""
    (dtype,) = (d for d in DType if str(d) == name)
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy))


def _node(node: Mapping[str, Any]) -> onnx.NodeProto:
    made = onnx.helper.make_node(
        node["kind"], node["inputs"], [v["name"] for v in node["outputs"]], name=node["name"], domain=DOMAIN
    )
    told = {
        "primitive": node["primitive"],
        "fused": node["fused"],
        "origin": node["origin"],
        "annotation": node["annotation"],
        "placement": node["placement"],
        "implementation": node["implementation"],
        "layouts": [f"{v['format']} +{v['nbytes']} bytes" for v in node["outputs"]],
    }
    made.attribute.extend(onnx.helper.make_attribute(key, value) for key, value in told.items() if value)
    return made


def _value(value: Mapping[str, Any]) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(value["name"], _type(value["dtype"]), value["shape"], value["format"])


def _constant(value: Mapping[str, Any]) -> TensorProto:
    made = TensorProto(name=value["name"], dims=value["shape"], data_type=_type(value["dtype"]))
    made.data_location = TensorProto.EXTERNAL
    made.external_data.add(key="location", value="not_exported")
    made.doc_string = value["format"]
    return made
