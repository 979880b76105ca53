"""Operators that no importer reads and whose schemas define them by a function: expanded into the nodes of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import SchemaError, UnsupportedError
from clgraph.frontend.bodies import bodies_of
from clgraph.frontend.inline import Label, annotation_of
from clgraph.frontend.protobuf import onnx


@frozen
class FunctionBody:
    """A call of an operator, as the nodes that its schema defines it by.

    Attributes:
        nodes: With the values of the graph around in place of the function's; others have fresh names.
        opsets: The operator sets that the function is written for.
    """

    nodes: tuple[tuple[onnx.NodeProto, Label], ...]
    opsets: Mapping[str, int]


Schema = Any
"""``onnx.defs.OpSchema``, whose functions its stubs leave out."""


def has_function(schema: Schema) -> bool:
    """Return whether ONNX defines the operator by others."""
    return bool(schema.has_function or schema.has_context_dependent_function)


def expand(
    call: onnx.NodeProto,
    label: Label,
    schema: Schema,
    types: Sequence[onnx.TypeProto],
    fresh: Callable[[str], str],
) -> FunctionBody:
    """Return what stands for *call*, a node of an operator that :func:`has_function`.

    A node of the function is named ``call/node`` and takes the annotation of the call, as those of a model's own
    functions do.

    Args:
        types: Of the call's inputs, empty where not known; some functions are written for element types and shapes.
        fresh: Returns a name that no value of the model has, the given one where possible.

    Raises:
        UnsupportedError: The function is not defined for such a call.
        SchemaError: The function calls itself.
    """
    if (schema.domain, schema.name) in label.inside:
        raise SchemaError(f"node {label.name!r}: the function of {schema.name} calls itself")
    inside = (*label.inside, (schema.domain, schema.name))
    function = _function_of(call, label, schema, types)
    names = {formal: call.input[i] if i < len(call.input) else "" for i, formal in enumerate(function.input)}
    for i, formal in enumerate(function.output):
        actual = call.output[i] if i < len(call.output) else ""
        names[formal] = actual or fresh(f"{label.name}/{formal}")
    for node in function.node:
        names.update((n, fresh(f"{label.name}/{n}")) for n in node.output if n and n not in names)
    given = _attributes(call, schema, function)
    nodes = []
    for i, inner in enumerate(function.node):
        name = f"{label.name}/{inner.name or f'{inner.op_type}_{i}'}"
        copy = _bound(inner, names, given)
        nodes.append((copy, Label(inner.op_type, name, annotation_of(inner) or label.annotation, label.source, inside)))
    return FunctionBody(tuple(nodes), {entry.domain: int(entry.version) for entry in function.opset_import})


def _function_of(
    call: onnx.NodeProto, label: Label, schema: Schema, types: Sequence[onnx.TypeProto]
) -> onnx.FunctionProto:
    """Return the body of the operator for *call*."""
    # The whole package gives schemas the attributes that are asked for here.
    import onnx.defs

    if schema.has_function:
        function: onnx.FunctionProto = schema.function_body
        return function
    made = onnx.FunctionProto()
    version = max(schema.context_dependent_function_opset_versions)
    data = schema.get_context_dependent_function_with_opset_version(
        version, call.SerializeToString(), [t.SerializeToString() for t in types]
    )
    made.ParseFromString(data)
    written = {name for node in made.node for name in node.output}
    promised = made.output[: len(call.output)]
    # onnx stops half-way where it finds something that it does not know.
    if len(promised) < len(call.output) or not written.issuperset(promised):
        found = ", ".join(onnx.helper.printable_type(t) if t.WhichOneof("value") else "unknown" for t in types)
        raise UnsupportedError(
            f"node {label.name!r} ({call.op_type}): ONNX defines the operator by a function, but not for inputs of "
            f"the types ({found}); declare their element types and shapes"
        )
    return made


def _attributes(call: onnx.NodeProto, schema: Schema, function: onnx.FunctionProto) -> dict[str, onnx.AttributeProto]:
    """Return what attributes of the function's nodes may stand for: those of the call, else their defaults."""
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.type]
    return {a.name: a for a in (*defaults, *function.attribute_proto, *call.attribute)}


def _bound(
    node: onnx.NodeProto, names: Mapping[str, str], attributes: Mapping[str, onnx.AttributeProto]
) -> onnx.NodeProto:
    """Return a copy of *node* with other *names* and the call's *attributes*; what stands for an absent one goes."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.input[:] = [names.get(n, n) for n in node.input]
    made.output[:] = [names.get(n, n) for n in node.output]
    del made.attribute[:]
    for attribute in node.attribute:
        source = attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is None:
            continue
        copy = made.attribute.add()
        copy.CopyFrom(source)
        copy.name = attribute.name
        if source is attribute:  # a graph that the call hands over is not the function's
            for body in bodies_of(copy):
                _bind_body(body, names, attributes)
    return made


def _bind_body(body: onnx.GraphProto, names: Mapping[str, str], attributes: Mapping[str, onnx.AttributeProto]) -> None:
    """Do the same in place to a graph of the function, whose own values keep their names."""
    own = {v.name for v in body.input} | {t.name for t in body.initializer} | {n for b in body.node for n in b.output}
    outer = {name: to for name, to in names.items() if name not in own}
    nodes = [_bound(node, outer, attributes) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)
    for value in body.output:
        value.name = outer.get(value.name, value.name)


def type_of(spelled: str | None, shape: Sequence[int | str | None] | None = None) -> onnx.TypeProto:
    """Return the type that schemas spell as *spelled*, empty where that says too little.

    Args:
        shape: Of a tensor, where known.
    """
    made = onnx.TypeProto()
    if spelled is None or spelled.endswith("...)"):
        return made
    kind, _, inner = spelled.removesuffix(")").partition("(")
    if kind == "tensor":
        return onnx.helper.make_tensor_type_proto(_CODES[inner], shape)
    if kind == "seq":
        made.sequence_type.elem_type.CopyFrom(type_of(inner))
    elif kind == "optional":
        made.optional_type.elem_type.CopyFrom(type_of(inner))
    return made


_CODES = {name.lower(): code for name, code in onnx.TensorProto.DataType.items()}
