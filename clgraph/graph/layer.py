"""A layer of a topology: how it becomes a node once its inputs are known, and the error if its rules refuse them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import DeviceMemoryError, ShapeError, UnknownValueError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.graph.known_values import check_evaluated, deciding
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import EVALUATED_ELEMENTS, Bound, Primitive
from clgraph.graph.refusals import refusals
from clgraph.graph.signature import is_absurd


@frozen
class Layer:
    """One primitive with the names it reads and makes."""

    name: str
    primitive: Primitive
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    origin: tuple[str, ...]
    annotation: str | None = None


def enter(layer: Layer, bound: Bound, values: dict[str, Value], nodes: list[Node], most: int) -> None:
    """Enter the results of *layer* into *values* and its node into *nodes*, unless the results are known already.

    Args:
        bound: What the layer's primitive is on its inputs.
        most: Elements of a result that is computed although nobody has asked for it.

    Raises:
        ShapeError, UnsupportedError, DeviceMemoryError: The layer does not fit its inputs.
    """
    primitive, kept = bound.primitive, tuple([values[layer.inputs[i]] for i in bound.keep])
    layouts, constants = [v.layout for v in kept], [v.constant for v in kept]
    constant, small = all(c is not None for c in constants), True
    if constant and type(primitive).evaluate is not Primitive.evaluate:
        check_evaluated(primitive, kept)
    elif constant and most < EVALUATED_ELEMENTS:
        small = all(out.count <= most for out in primitive.infer(layouts))
    known = primitive.evaluate(layouts, constants) if small else None
    if known is not None:
        for name, array in zip(layer.outputs, known, strict=False):
            values[name] = Value(name, Layout.of(array), constant=np.asarray(array))
        return
    inferred, names = primitive.infer(layouts), layer.outputs
    for layout in inferred:
        if is_absurd(layout.shape):
            raise DeviceMemoryError(
                f"the result {list(layout.shape)} is more than 2^48 elements, which no device holds"
            )
    if len(names) < len(inferred):
        names = (*names, *(f"{layer.name}:{i}" for i in range(len(names), len(inferred))))
    outputs = tuple([Value(name, layout) for name, layout in zip(names, inferred, strict=True)])
    for value in outputs:
        values[value.name] = value
    node = Node(layer.name, primitive, kept, outputs, len(kept), origin=layer.origin)
    node.annotation = layer.annotation
    nodes.append(node)


def refuse(layer: Layer, values: Mapping[str, Value], nodes: Sequence[Node]) -> NoReturn:
    """Convert the exception being handled, raised by a rule of *layer*, to an error that names the layer."""
    try:
        with faults(f"a rule of {layer.primitive.kind}", layer.name, layer.origin), refusals():
            raise  # by no name: an error and the frame that knows it would keep all that was built
    except (ShapeError, UnsupportedError, DeviceMemoryError) as refusal:
        shapes = ", ".join(str(values[n].layout) for n in layer.inputs)
        what = f"node {layer.name!r} ({layer.primitive}) on ({shapes}): {refusal}"
        if isinstance(refusal, UnknownValueError):
            raise UnknownValueError(what, deciding(values[refusal.value], nodes)) from refusal
        raise type(refusal)(what) from refusal
