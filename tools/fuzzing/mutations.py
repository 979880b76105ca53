"""Changes of a model that know what it is made of: attributes, shapes, types, edges, weights, versions, nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, defs, helper, numpy_helper

from tools.fuzzing.damage import damaged

Random = np.random.Generator
Mutation = Callable[[onnx.ModelProto, Random], None]

MUTATIONS: dict[str, Mutation] = {}
"""By name, each with the share of its name's group; ``bytes`` stands beside them."""

INTS = (0, 1, -1, 2, 3, 7, -2, 16, 255, 256, 2**31 - 1, 2**31, -(2**31), 2**48, 2**62, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = ("", "nonsense", "SAME_UPPER", "SAME_LOWER", "VALID", "linear", "cubic", "reflect", "max", "tanh", "\x00", "é")
VERSIONS = (*range(1, 27), 0, -1, 99, 2**40)


def mutation(function: Mutation) -> Mutation:
    """Make a change known under its function's name."""
    MUTATIONS[function.__name__] = function
    return function


def mutated(model: onnx.ModelProto, random: Random, only: frozenset[int] | None = None) -> tuple[bytes, list[str]]:
    """Return the bytes of *model* after one to three changes, and the names of these.

    Args:
        only: The numbers of the changes that are made; each has random numbers of its own, so that one of several
            can be left out and the others stay as they are.
    """
    names = [str(n) for n in random.choice([*MUTATIONS, "bytes"], random.choice([1, 1, 1, 2, 3]))]
    streams = random.spawn(len(names))
    changed, made = onnx.ModelProto(), list[str]()
    changed.CopyFrom(model)
    for i, (name, stream) in enumerate(zip(names, streams, strict=True)):
        if name != "bytes" and (only is None or i in only):
            MUTATIONS[name](changed, stream)
            made.append(name)
    data = changed.SerializeToString()
    for i, (name, stream) in enumerate(zip(names, streams, strict=True)):
        if name == "bytes" and (only is None or i in only):
            data = damaged(data, stream)
            made.append(name)
    return data, made


def _one(items: Any, random: Random) -> Any:
    """Return one of *items*, ``None`` when there is none."""
    return items[int(random.integers(len(items)))] if len(items) else None


def _number(random: Random) -> int:
    return int(_one(INTS, random)) if random.random() < 0.4 else int(random.integers(-3, 6))


def _real(random: Random) -> float:
    return float(_one(FLOATS, random)) if random.random() < 0.7 else float(random.normal())


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    bodies = [a.g for node in graph.node for a in node.attribute if a.HasField("g")]
    return [graph, *(inner for body in bodies for inner in _graphs(body))]


def _graph(model: onnx.ModelProto, random: Random) -> onnx.GraphProto:
    found = _graphs(model.graph)
    return found[0] if random.random() < 0.5 else _one(found, random)


def _node(model: onnx.ModelProto, random: Random) -> onnx.NodeProto | None:
    nodes = [n for graph in _graphs(model.graph) for n in graph.node] + [n for f in model.functions for n in f.node]
    found = _one(nodes, random)
    return found if isinstance(found, onnx.NodeProto) else None


def _values(graph: onnx.GraphProto) -> list[str]:
    made = [v.name for v in graph.input] + [t.name for t in graph.initializer]
    return [*made, *(n for node in graph.node for n in node.output if n)]


@cache
def _schemas() -> list[defs.OpSchema]:
    return [s for s in defs.get_all_schemas_with_history() if s.domain == ""]


@cache
def _operators() -> list[str]:
    return sorted({s.name for s in _schemas()})


def _schema(model: onnx.ModelProto, node: onnx.NodeProto) -> defs.OpSchema | None:
    version = next((o.version for o in model.opset_import if o.domain == ""), 1)
    known = [s for s in _schemas() if s.name == node.op_type and s.since_version <= version]
    return max(known, key=lambda s: int(s.since_version), default=None)


def _change_value(attribute: onnx.AttributeProto, random: Random) -> None:
    """Give an attribute another value of its type."""
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = _number(random)
        case AttributeProto.FLOAT:
            attribute.f = _real(random)
        case AttributeProto.STRING:
            attribute.s = str(_one(TEXTS, random)).encode() if random.random() < 0.9 else b"\xff\xfe"
        case AttributeProto.INTS:
            _change_list(attribute.ints, lambda: _number(random), random)
        case AttributeProto.FLOATS:
            _change_list(attribute.floats, lambda: _real(random), random)
        case AttributeProto.STRINGS:
            _change_list(attribute.strings, lambda: str(_one(TEXTS, random)).encode(), random)
        case AttributeProto.TENSOR:
            _change_tensor(attribute.t, random)
        case _:
            attribute.type = int(random.integers(0, 15))


def _change_list(values: Any, fresh: Callable[[], Any], random: Random) -> None:
    """Change, drop, swap or add elements of a repeated field."""
    choice = random.random()
    if len(values) > 1 and choice > 0.85:
        first, second = random.choice(len(values), 2, replace=False)
        values[int(first)], values[int(second)] = values[int(second)], values[int(first)]
    elif not len(values) or choice < 0.2:
        values.append(fresh())
    elif choice < 0.4:
        values.pop()
    elif choice < 0.45:
        del values[:]
    else:
        values[int(random.integers(len(values)))] = fresh()


def _change_tensor(tensor: onnx.TensorProto, random: Random) -> None:
    """Change elements, dimensions, the type or the data of a tensor."""
    choice = random.random()
    if choice < 0.15:
        tensor.data_type = int(random.integers(0, 26))
    elif choice < 0.4:
        _change_list(tensor.dims, lambda: _number(random), random)
    elif choice < 0.5:
        tensor.raw_data = damaged(tensor.raw_data, random)
    elif choice < 0.55:
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "../x"), ("offset", str(_number(random))), ("length", str(_number(random)))):
            tensor.external_data.add(key=key, value=value)
    else:
        change_elements(tensor, random)


def change_elements(tensor: onnx.TensorProto, random: Random) -> None:
    """Change an element of a tensor, where it holds any."""
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, AttributeError, OverflowError, onnx.checker.ValidationError):
        return  # changed before: it holds nothing any more
    if array.size and array.dtype.kind in "iufb":
        with np.errstate(all="ignore"):
            number = _number(random) if array.dtype.kind in "iu" else _real(random)
            array.flat[int(random.integers(array.size))] = np.array(number).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


@mutation
def attribute_value(model: onnx.ModelProto, random: Random) -> None:
    if (node := _node(model, random)) is not None and node.attribute:
        _change_value(_one(node.attribute, random), random)


@mutation
def attribute_value_twice(model: onnx.ModelProto, random: Random) -> None:
    attribute_value(model, random)
    attribute_value(model, random)


@mutation
def attribute_of_schema(model: onnx.ModelProto, random: Random) -> None:
    if (node := _node(model, random)) is None or (schema := _schema(model, node)) is None or not schema.attributes:
        return
    chosen = schema.attributes[str(_one(sorted(schema.attributes), random))]
    made = node.attribute.add(name=chosen.name, type=int(chosen.type))  # type: ignore[call-overload,arg-type]
    for _ in range(int(random.integers(1, 4))):
        _change_value(made, random)


@mutation
def attribute_form(model: onnx.ModelProto, random: Random) -> None:
    if (node := _node(model, random)) is None or not node.attribute:
        return
    attribute = _one(node.attribute, random)
    match int(random.integers(5)):
        case 0:
            node.attribute.remove(attribute)
        case 1:
            attribute.name = str(_one(("axis", "axes", "", "unknown", attribute.name + "x"), random))
        case 2:
            attribute.type = int(random.integers(0, 15))
        case 3:
            node.attribute.add().CopyFrom(attribute)
        case _:
            node.attribute.append(helper.make_attribute("made_up", int(random.integers(5))))


@mutation
def shape(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    values = [v for v in (*graph.input, *graph.output) if v.type.HasField("tensor_type")]
    if (value := _one(values, random)) is None:
        return
    dims = value.type.tensor_type.shape.dim
    choice = random.random()
    if choice < 0.1:
        value.type.tensor_type.ClearField("shape")
    elif choice < 0.2 or not dims:
        dims.add(dim_value=_number(random))
    elif choice < 0.3:
        dims.pop()
    elif choice < 0.4:
        _one(dims, random).dim_param = "n"
    elif choice < 0.5:
        _one(dims, random).Clear()
    else:
        _one(dims, random).dim_value = _number(random) if random.random() < 0.5 else int(random.integers(0, 6))


@mutation
def element_type(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if (value := _one([*graph.input, *graph.output], random)) is not None:
        kind = random.random()
        if kind < 0.1:
            value.ClearField("type")
        elif kind < 0.2:
            value.type.sequence_type.elem_type.tensor_type.elem_type = 1
        elif kind < 0.25:
            value.type.optional_type.elem_type.tensor_type.elem_type = 1
        elif kind < 0.3:
            value.type.map_type.key_type = 7
        else:
            value.type.tensor_type.elem_type = int(random.integers(0, 24 if kind < 0.5 else 13))


@mutation
def edge(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if (node := _one(graph.node, random)) is None:
        return
    _change_list(node.input, lambda: _one(["", "nothing", *_values(graph) * 2], random), random)


@mutation
def node_output(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if (node := _one(graph.node, random)) is not None:
        _change_list(node.output, lambda: _one(["", "other", *_values(graph)], random), random)


@mutation
def name(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    new = str(_one(("", "x", "y", "a/b", "n" * 5000, "\n", "%s{}", *_values(graph)), random))
    things = [*graph.node, *graph.input, *graph.output, *graph.initializer]
    if (thing := _one(things, random)) is not None:
        thing.name = new


@mutation
def weight(model: onnx.ModelProto, random: Random) -> None:
    if (tensor := _one(_graph(model, random).initializer, random)) is not None:
        _change_tensor(tensor, random)


@mutation
def weights_and_inputs(model: onnx.ModelProto, random: Random) -> None:
    """Make an initializer an input, or an input an initializer."""
    graph = model.graph
    if graph.initializer and random.random() < 0.5:
        tensor = _one(graph.initializer, random)
        graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
        if random.random() < 0.8:
            graph.initializer.remove(tensor)
    elif (value := _one(graph.input, random)) is not None:
        tensor = value.type.tensor_type
        dims = [d.dim_value or 2 for d in tensor.shape.dim]
        if tensor.elem_type in (1, 6, 7, 9, 11) and all(0 <= d < 100 for d in dims) and np.prod(dims) < 10_000:
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            array = np.asarray(random.integers(-2, 5, dims)).astype(dtype)
            graph.initializer.append(numpy_helper.from_array(array, value.name))
            graph.input.remove(value)


@mutation
def version(model: onnx.ModelProto, random: Random) -> None:
    choice = random.random()
    if choice < 0.1:
        del model.opset_import[:]
    elif choice < 0.2 or not model.opset_import:
        model.opset_import.append(helper.make_opsetid(str(_one(("", "ai.onnx", "ai.onnx.ml", "x"), random)), 3))
    elif choice < 0.25:
        _one(model.opset_import, random).domain = "ai.onnx.ml"
    else:
        _one(model.opset_import, random).version = int(_one(VERSIONS, random))


@mutation
def drop_node(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if (node := _one(graph.node, random)) is not None:
        graph.node.remove(node)


@mutation
def repeat_node(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if (node := _one(graph.node, random)) is None:
        return
    copy = graph.node.add()
    copy.CopyFrom(node)
    if random.random() < 0.8:
        for i, output in enumerate(copy.output):
            copy.output[i] = f"{output}_again" if output else ""
        if copy.output and copy.output[0]:
            graph.output.append(helper.make_empty_tensor_value_info(copy.output[0]))


@mutation
def operator(model: onnx.ModelProto, random: Random) -> None:
    if (node := _node(model, random)) is not None:
        if random.random() < 0.1:
            node.domain = str(_one(("x", "ai.onnx", "ai.onnx.ml", "com.microsoft"), random))
        else:
            node.op_type = str(_one(_operators(), random))


@mutation
def node_behind(model: onnx.ModelProto, random: Random) -> None:
    """Put a node without attributes behind a value, as a further output."""
    graph = model.graph
    if (source := _one(_values(graph), random)) is None:
        return
    op_type = str(
        _one(("Relu", "Neg", "Transpose", "Shape", "Softmax", "Identity", "NonZero", "Flatten", "Not"), random)
    )
    graph.node.append(helper.make_node(op_type, [source], ["behind"]))
    graph.output.append(helper.make_empty_tensor_value_info("behind"))


@mutation
def output(model: onnx.ModelProto, random: Random) -> None:
    graph = _graph(model, random)
    if graph.output and random.random() < 0.5:
        graph.output.pop()
    else:
        new = str(_one([*_values(graph), "nothing"], random))
        graph.output.append(helper.make_empty_tensor_value_info(new))
