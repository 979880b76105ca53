"""Rows of tokens that a mask chooses for an expert: where a model finds, computes and scatters them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from clgraph.compilation.idioms.one_hot_masks import place_axis
from clgraph.core.dtype import DType
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Topology
from clgraph.ops.arg import ArgExtremum
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Unsqueeze
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.sequence import Sequential
from clgraph.ops.shape import ShapeOf
from clgraph.ops.where import Where

_MOST_BYTES = 8 << 20
"""Weights of an expert: reading more, 0.4 ms, for a row that has not chosen it takes longer than a stage for those that
have."""

_ZERO, _ONE = "chosen rows: 0", "chosen rows: 1"
NUMBERS = {_ZERO: np.array(0, np.int64), _ONE: np.array(1, np.int64)}
"""Constants that the layers for all rows read, by name."""

SMALL = 64
"""Elements of a constant that may say where something is."""


@dataclass
class RowChoice:
    """A NonZero of a mask, what is computed of the rows that it finds, and what scatters them.

    Attributes:
        axis: Of the mask: along it at most one element is not zero.
        rows: The layers whose results are as many rows as were found, in order.
    """

    finder: Layer
    axis: int
    rows: list[Layer] = field(default_factory=list)
    sinks: list[Layer] = field(default_factory=list)

    @property
    def before(self) -> list[Layer]:
        """Layers that make the places of all rows, and which of them were chosen."""
        name, (mask,), (places,) = self.finder.name, self.finder.inputs, self.finder.outputs
        other = 1 - self.axis
        made: list[tuple[str, Primitive, tuple[str, ...]]] = [
            ("numbers", Reorder(DType.F32), (mask,)),
            ("best", ArgExtremum(axis=self.axis, keepdims=False), (f"{name}/numbers",)),
            ("most", Reduce("max", (self.axis,), keepdims=False), (f"{name}/numbers",)),
            ("any", Reorder(DType.BOOL), (f"{name}/most",)),
            ("chosen", Unsqueeze((1,)), (f"{name}/any",)),
            ("size", ShapeOf(other, other + 1), (mask,)),
            ("row", Sequential(), (_ZERO, f"{name}/size", _ONE)),
            ("bests", Unsqueeze((0,)), (f"{name}/best",)),
            ("rows", Unsqueeze((0,)), (f"{name}/row",)),
        ]
        pair = (f"{name}/bests", f"{name}/rows") if self.axis == 0 else (f"{name}/rows", f"{name}/bests")
        layers = [Layer(f"{name}/{n}", p, x, (f"{name}/{n}",), self.finder.origin) for n, p, x in made]
        return [*layers, Layer(name, Concat(0), pair, (places,), self.finder.origin)]

    def behind(self, sink: Layer) -> list[Layer]:
        """Layers that make of all rows what *sink* makes of those that were chosen."""
        data, _, rows = sink.inputs
        layers = list[Layer]()
        if getattr(sink.primitive, "reduction", "") == "add":
            layers.append(Layer(f"{sink.name}/sum", Eltwise("add"), (data, rows), (f"{sink.name}/sum",), sink.origin))
            rows = f"{sink.name}/sum"
        return [*layers, replace(sink, primitive=Where(), inputs=(f"{self.finder.name}/chosen", rows, data))]

    def form(self, constants: Mapping[str, Array], weights: Collection[str] = ()) -> object:
        """Return a key that is equal for choices that compute the same with other large constants and *weights*."""
        known = {self.finder.inputs[0]: "mask", self.finder.outputs[0]: "places"}
        found = list[object]()
        for layer in (*self.rows, *self.sinks):
            reads = list[object]()
            for name in layer.inputs:
                array = constants.get(name)
                whole = array is not None and array.size <= SMALL and name not in weights
                read: object = known.setdefault(name, f"{len(known)}")
                reads.append(read if array is None else (array.tobytes() if whole else "", array.shape, array.dtype))
            known.update((name, f"{len(known)}.{i}") for i, name in enumerate(layer.outputs))
            found.append((str(layer.primitive), tuple(reads)))
        return self.axis, tuple(found)


def row_choices(topology: Topology) -> list[RowChoice]:
    """Return what finds rows; nothing where something else depends on how many there are."""
    found, owners = list[RowChoice](), dict[str, RowChoice]()
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    for layer in topology.layers:
        own = {id(owners[name]): owners[name] for name in layer.inputs if name in owners}
        if layer.primitive.data_dependent:
            axis = place_axis(topology.constants, makers, layer)
            if axis is None or own:
                return []
            found.append(RowChoice(layer, axis))
            owners[layer.outputs[0]] = found[-1]
        elif own:
            if len(own) > 1:
                return []
            (choice,) = own.values()
            if _is_sink(layer, owners):
                choice.sinks.append(layer)
            else:
                choice.rows.append(layer)
                owners.update(dict.fromkeys(layer.outputs, choice))
    if any(value in owners for _, value in topology.outputs):
        return []
    return found if all(choice.sinks for choice in found) else []


def are_small(choices: Sequence[RowChoice], constants: Mapping[str, Array]) -> bool:
    """Whether it pays that each expert of *choices* computes all rows."""
    return all(read_few_bytes(choice.rows, constants) for choice in choices)


def read_few_bytes(rows: Sequence[Layer], constants: Mapping[str, Array]) -> bool:
    """Whether the weights that *rows* read take no longer for all rows than a stage does."""
    read = {name for layer in rows for name in layer.inputs}
    return sum(constants[name].nbytes for name in read if name in constants) <= _MOST_BYTES


def _is_sink(layer: Layer, owners: Mapping[str, RowChoice]) -> bool:
    primitive = layer.primitive
    if not isinstance(primitive, (ScatterElements, ScatterND)) or primitive.reduction not in ("add", "none"):
        return False
    data, *rest = layer.inputs
    return data not in owners and all(name in owners for name in rest) and getattr(primitive, "axis", 0) == 0
