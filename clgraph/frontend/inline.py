"""A model's own functions, expanded into its graph, with the names and annotations that the expansion loses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from clgraph.core.frozen import frozen
from clgraph.core.log import Log
from clgraph.errors import InternalError, ModelError, SchemaError
from clgraph.frontend.bodies import bodies_of
from clgraph.frontend.kept_schemas import Schemas
from clgraph.frontend.opsets import domain_of, levelled, opsets_of
from clgraph.frontend.protobuf import onnx

log = Log(__name__)

FunctionKey = tuple[str, str, str]
"""Domain, name and overload."""

ANNOTATION = "layer_ann"
"""Key of a node's layering annotation in ``metadata_props``."""
MOST_NODES = 1 << 17
"""Of an expanded graph: functions that call functions twice double with every level."""


@frozen
class Label:
    """What a node of the expanded graph came from: names of the calls around it, outermost first, and its own.

    Attributes:
        source: The node that it is a copy of.
        inside: Domain and name of the operators around it that were expanded by the functions of their schemas.
    """

    op_type: str
    name: str
    annotation: str | None
    source: onnx.NodeProto
    inside: tuple[tuple[str, str], ...] = ()


def inline(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Label]]:
    """Return the model with its local functions expanded, and one label a node of its graph.

    A node of a function without an annotation takes that of the call; its name is ``call/node``. In bodies of control
    flow the annotation of a call is written to the nodes that it becomes. Where functions are written for other
    operator sets than the model each node is marked with its own (:func:`~clgraph.frontend.opsets.marked`).

    Raises:
        UnsupportedError: A function is written for a newer operator set than is known.
        ModelError: Functions call themselves, do not fit their calls, or expand to too many nodes.
    """
    counts = Counter(map(_key, model.functions))
    if twice := [key for key, count in counts.items() if count > 1]:
        raise ModelError(f"the model has two functions called {'.'.join(filter(None, twice[0]))!r}")
    model = _without_operators(model)
    if model.functions:
        model = levelled(model)
        if any(function.attribute_proto for function in model.functions):
            model = _completed(model)
    functions = {_key(f): f for f in model.functions}
    labels = list(islice(_expand(model.graph.node, functions, ()), MOST_NODES + 1))
    if len(labels) > MOST_NODES:
        raise ModelError(f"the model's functions expand to more than {MOST_NODES} nodes")
    if not functions:
        return model, labels
    from onnx import inliner

    try:
        model = inliner.inline_local_functions(model)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"the model's functions cannot be expanded: {' '.join(str(error).split())}") from error
    _check(model.graph.node, labels, functions)
    _annotate_bodies(model.graph.node, labels, functions)
    return model, labels


def _key(function: onnx.FunctionProto) -> FunctionKey:
    return domain_of(function.domain), function.name, function.overload


def _key_of_call(node: onnx.NodeProto) -> FunctionKey:
    return domain_of(node.domain), node.op_type, node.overload


def _without_operators(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return *model*, or a copy without functions that are called like operators of ONNX's own set.

    ONNX leaves it to runtimes which of the two counts. ONNX Runtime and ONNX's reference take the operator.
    """
    if not any(domain_of(f.domain) == "" for f in model.functions):
        return model
    opset, schemas = opsets_of(model, "the model").get("", 1), Schemas()
    hidden = [not domain_of(f.domain) and schemas.find(f.name, opset, "") is not None for f in model.functions]
    if not any(hidden):
        return model
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.functions[:]
    for function, is_hidden in zip(model.functions, hidden, strict=True):
        if is_hidden:
            log.warning("the model's function %r is not called: ONNX has an operator of that name", function.name)
        else:
            made.functions.add().CopyFrom(function)
    return made


def _completed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of *model* whose calls of its functions have all attributes: onnx's inliner forgets defaults."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    defaults = {_key(f): f.attribute_proto for f in made.functions}
    waiting = [made.graph.node, *(f.node for f in made.functions)]
    while waiting:
        for node in waiting.pop():
            given = {attribute.name for attribute in node.attribute}
            key = _key_of_call(node)
            node.attribute.extend(a for a in defaults.get(key, ()) if a.name not in given)
            waiting += [body.node for attribute in node.attribute for body in bodies_of(attribute)]
    return made


def _check(
    expanded: Sequence[onnx.NodeProto], labels: Sequence[Label], functions: Mapping[FunctionKey, onnx.FunctionProto]
) -> None:
    """Raise ``InternalError`` where something was not expanded."""
    if [n.op_type for n in expanded] != [label.op_type for label in labels]:
        kept = sorted({n.op_type for n in expanded if _key_of_call(n) in functions})
        raise InternalError(f"onnx left calls of the model's functions {', '.join(kept)}")


def _annotate_bodies(
    expanded: Sequence[onnx.NodeProto], labels: Sequence[Label], functions: Mapping[FunctionKey, onnx.FunctionProto]
) -> None:
    """Give the nodes in bodies of *expanded* the annotations of the calls that they came from."""
    for node, label in zip(expanded, labels, strict=True):
        # A body that a call hands to its function as an attribute is not in the source.
        sources = {a.name: bodies_of(a) for a in label.source.attribute}
        made = [body for a in node.attribute if sources.get(a.name) for body in bodies_of(a)]
        for body, source in zip(made, [body for found in sources.values() for body in found], strict=True):
            inner = list(_expand(source.node, functions, ()))
            _check(body.node, inner, functions)
            for copy, found in zip(body.node, inner, strict=True):
                if found.annotation is not None and annotation_of(copy) is None:
                    copy.metadata_props.add(key=ANNOTATION, value=found.annotation)
            _annotate_bodies(body.node, inner, functions)


def labels_of(nodes: Iterable[onnx.NodeProto], annotation: str | None = None) -> Iterator[Label]:
    """Yield the labels of the nodes of a body, in which nothing is to be expanded, of a node with *annotation*."""
    return _expand(nodes, {}, (), inherited=annotation)


def annotation_of(node: onnx.NodeProto) -> str | None:
    """Return the layering annotation of *node*."""
    marks = node.metadata_props[:]
    return next((entry.value for entry in marks if entry.key == ANNOTATION), None) if marks else None


def _expand(
    nodes: Iterable[onnx.NodeProto],
    functions: Mapping[FunctionKey, onnx.FunctionProto],
    inside: tuple[FunctionKey, ...],
    prefix: str = "",
    inherited: str | None = None,
) -> Iterator[Label]:
    for i, node in enumerate(nodes):
        name, annotation = prefix + (node.name or f"{node.op_type}_{i}"), annotation_of(node) or inherited
        key = _key_of_call(node)
        if key in inside:
            raise SchemaError(f"function {node.op_type!r} calls itself")
        if key in functions:
            for what, given, taken in (
                ("inputs", node.input, functions[key].input),
                ("outputs", node.output, functions[key].output),
            ):
                if len(given) > len(taken):
                    raise ModelError(
                        f"node {name!r} ({node.op_type!r}) has {len(given)} {what}, its function {len(taken)}"
                    )
            yield from _expand(functions[key].node, functions, (*inside, key), f"{name}/", annotation)
        else:
            yield Label(node.op_type, name, annotation, node)
