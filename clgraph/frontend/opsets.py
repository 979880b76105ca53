"""The operator sets that a model is written for, and its functions, where those have others.

onnx's inliner leaves calls of functions of other sets as they are. Here they come to be of the model's sets, after
every node of the model has been marked with those that it is read by.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from clgraph.errors import ModelError, OpsetError, SchemaError
from clgraph.frontend.bodies import bodies_of
from clgraph.frontend.kept_schemas import Schemas
from clgraph.frontend.protobuf import onnx

OPSETS = "clgraph_opsets"
"""Key of a mark in ``metadata_props``."""


def opsets_of(
    model: onnx.ModelProto | onnx.FunctionProto, label: str, schemas: Schemas | None = None
) -> dict[str, int]:
    """Return the operator set version by domain, ``""`` for ONNX's own, of a model or a function.

    Raises:
        ModelError: The model names none, or a version that there cannot be.
        OpsetError: It is newer than the installed onnx package knows.
    """
    opsets = {domain_of(entry.domain): int(entry.version) for entry in model.opset_import}
    if not opsets:
        raise ModelError(f"{label} does not say which operator set it is written for (opset_import is empty)")
    if odd := [version for version in opsets.values() if not 0 < version < 1 << 31]:
        raise SchemaError(f"{label} declares version {odd[0]} of an operator set")
    if (wanted := opsets.get("", 1)) > (known := (schemas or Schemas()).newest_opset()):
        raise OpsetError(
            f"{label} is written for operator set {wanted}; onnx {onnx.__version__} knows those up to {known}: "
            "install a newer onnx"
        )
    return opsets


def domain_of(name: str) -> str:
    """Return the name of a domain, of ONNX's own the empty one."""
    return "" if name == "ai.onnx" else name


def levelled(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model*, or a copy with marks whose functions are all written for the same operator sets.

    Where the model names a set twice, the last version counts, as in ONNX Runtime; onnx's inliner takes the first.

    Raises:
        ModelError: A function names a version that there cannot be.
        OpsetError: It is written for a newer operator set than the installed onnx package knows.
    """
    sets = {}
    for f in model.functions:
        if f.opset_import:
            sets[f.domain, f.name, f.overload] = opsets_of(f, f"the model's function {f.name!r}")
    own = opsets_of(model, "the model")
    common = {domain: version for found in sets.values() for domain, version in found.items()} | own
    twice = len(own) < len(model.opset_import)
    if not twice and all(common[domain] == version for found in sets.values() for domain, version in found.items()):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for entry in made.opset_import:
        entry.version = own[domain_of(entry.domain)]
    _mark(made.graph.node, own)
    for function in made.functions:
        _mark(function.node, {**own, **sets.get((function.domain, function.name, function.overload), {})})
        for entry in function.opset_import:
            entry.version = common[domain_of(entry.domain)]
    return made


def _mark(nodes: Iterable[onnx.NodeProto], opsets: Mapping[str, int]) -> None:
    text = " ".join(f"{domain}:{version}" for domain, version in sorted(opsets.items()))
    for node in nodes:
        node.metadata_props.add(key=OPSETS, value=text)
        for attribute in node.attribute:
            for body in bodies_of(attribute):
                _mark(body.node, opsets)


def marked(node: onnx.NodeProto) -> dict[str, int] | None:
    """Return the operator sets that *node* is marked with, ``None`` where the model's functions differ in nothing."""
    text = next((entry.value for entry in node.metadata_props if entry.key == OPSETS), None)
    if text is None:
        return None
    pairs = (entry.rpartition(":") for entry in text.split(" "))
    return {domain: int(version) for domain, _, version in pairs}
