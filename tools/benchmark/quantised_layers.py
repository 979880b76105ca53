"""Quantised models cut into layers, each from integers to integers, and how well two runtimes agree on each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Layer:
    """The nodes between two cuts.

    Attributes:
        name: Of the value that it makes, integers or a result of the model.
        kinds: Of its nodes but those that round and widen.
    """

    name: str
    kinds: tuple[str, ...]
    model: onnx.ModelProto


@dataclass(frozen=True)
class Agreement:
    """The shares of a layer's elements that are equal to another runtime's, and within a step of them."""

    layer: Layer
    equal: float
    near: float


def cuts(model: onnx.ModelProto) -> list[str]:
    """Return the values that rounding makes while the model runs, in order."""
    constant = _constants(model)
    return [
        node.output[i]
        for node in model.graph.node
        if node.op_type.endswith("QuantizeLinear") or node.op_type.startswith("QLinear")
        if node.op_type != "DequantizeLinear" and not set(node.output) & constant
        for i in range(len(node.output))
    ]


def layers(model: onnx.ModelProto, values: Arrays) -> Iterator[Layer]:
    """Yield each layer as a model of its own, with the cuts that it reads as inputs.

    Args:
        values: The cuts and the inputs, for their types and shapes.
    """
    makers = {o: n for n in model.graph.node for o in n.output}
    order = {id(n): i for i, n in enumerate(model.graph.node)}
    held = {t.name: t for t in model.graph.initializer}
    given = {v.name for v in model.graph.input if v.name not in held}
    ends = [n for n in cuts(model) if makers[n].output[0] == n]
    for end in dict.fromkeys([*ends, *(o.name for o in model.graph.output)]):
        found, inputs, left = dict[int, onnx.NodeProto](), dict[str, None](), [end]
        while left:
            name = left.pop()
            if not name or name in held:
                continue
            if name in given or (name in values and name != end):
                inputs[name] = None
            elif id(makers[name]) not in found:
                found[id(makers[name])] = makers[name]
                left += makers[name].input
        nodes = sorted(found.values(), key=lambda n: order[id(n)])
        read = {i for n in nodes for i in n.input}
        graph = onnx.helper.make_graph(
            nodes,
            "layer",
            [_info(n, values[n]) for n in inputs],
            [_info(end, values[end])],
            [t for n, t in held.items() if n in read],
        )
        kinds = tuple(
            dict.fromkeys(n.op_type for n in nodes if n.op_type not in ("QuantizeLinear", "DequantizeLinear"))
        )
        made = onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        yield Layer(end, kinds, made)


def agreement(layer: Layer, got: NDArray[Any], want: NDArray[Any]) -> Agreement:
    """Compare a layer's results: a step is 1 of integers, and 1/255 of the range of floats."""
    step = 1.0 if want.dtype.kind in "iu" else float(np.ptp(want)) / 255 or 1.0
    far = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return Agreement(layer, float(np.mean(far == 0)), float(np.mean(far <= 1.01 * step)))


def with_cuts(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with its cuts among its results."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {o.name for o in made.graph.output}
    made.graph.output.extend(onnx.ValueInfoProto(name=n) for n in cuts(model) if n not in known)
    return made


def _info(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _constants(model: onnx.ModelProto) -> set[str]:
    found = {t.name for t in model.graph.initializer}
    for node in model.graph.node:
        if all(not i or i in found for i in node.input):
            found.update(node.output)
    return found
