"""The layers of a topology that are bound again for a member of a family, because sizes go into them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen, mutable
from clgraph.core.layout import Layout
from clgraph.errors import BindingError
from clgraph.families.candidates import COMPUTED_ELEMENTS
from clgraph.graph.layer import Layer
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.topology import Inlinable, Topology, bind_layer
from clgraph.ops.expand import Expand
from clgraph.ops.fill import Fill
from clgraph.ops.reorder import Reorder
from clgraph.passes.formats.widen_floats import NARROW

COMPUTED_BYTES = 256 << 20
"""What a node may make of sizes alone, unless all of it is one value: a member of more is compiled by itself."""


class Cone:
    """Finds the layers that have to be bound before each node of the representative, and binds them for a member.

    A layer is bound from the layouts of its inputs; those that the representative's program makes itself come from
    there, so that few layers need others.
    """

    def __init__(self, topology: Topology) -> None:
        """Take the layers of *topology*."""
        self._maker = {name: layer for layer in topology.layers for name in layer.outputs}
        self._layers = {layer.name: layer for layer in topology.layers}
        self.constants: dict[str, Array] = {}
        self._all = topology.constants

    def layer_of(self, node: str) -> Layer | None:
        """Return the layer that the built node called *node* stems from: its own, or one that was inlined."""
        name = node
        while name not in self._layers and "/" in name:
            name = name.rpartition("/")[0]
        return self._layers.get(name)

    def made_by(self, value: str) -> Layer | None:
        """Return the layer that makes *value*, or inside which it is made."""
        return self._maker.get(value) or self.layer_of(value)

    def may_size(self, constant: str) -> bool:
        """Whether *constant* was made where a layer was inlined that sizes may go into."""
        layer = None if constant in self._all else self.layer_of(constant)
        return layer is not None and layer.primitive.holds_sizes

    def expanded(self, deciding: Iterable[str], data: Container[str] = ()) -> dict[str, Layer]:
        """Return by name the layers that others stand for, and may do otherwise where sizes are others.

        Args:
            deciding: Inputs whose elements decide sizes.
            data: Values that the representative computes from its inputs. As long as the same stands for the layers in
                front of them, a member does too: it does not know their elements, so that these decide nothing.
        """
        found = {name: layer for name, layer in self._layers.items() if isinstance(layer.primitive, Inlinable)}
        return {
            name: layer
            for name, layer in found.items()
            if layer.primitive.takes_sizes()
            or any(source not in data and self.depends(source, deciding) for source in layer.inputs)
        }

    def depends(self, value: str, deciding: Iterable[str] = ()) -> bool:
        """Whether sizes, or inputs that decide them, decide the elements of the constant *value* of a layer."""
        waiting, seen = [value], {value}
        while waiting:
            name = waiting.pop()
            if name in deciding:
                return True
            layer = self._maker.get(name)
            if layer is None:
                continue
            if layer.primitive.shapes_only:
                return True
            fresh = [name for name in layer.inputs if name not in seen]
            seen.update(fresh)
            waiting += fresh
        return False

    def above(self, wanted: Sequence[Layer], made: set[str]) -> tuple[Layer, ...]:
        """Return the layers to bind, in order, for *wanted*, where *made* have layouts; adds to *made*."""
        found: list[Layer] = []
        waiting = list(reversed(wanted))
        while waiting:
            layer = waiting[-1]
            if layer.outputs[0] in made and layer not in wanted:
                waiting.pop()
                continue
            needed = [self._maker[n] for n in layer.inputs if n not in made and n in self._maker]
            self.constants.update((n, self._all[n]) for n in layer.inputs if n in self._all)
            if needed:
                waiting += needed
                continue
            waiting.pop()
            if layer not in found:
                found.append(layer)
                made.update(layer.outputs)
        return tuple(found)


@frozen
class Expansion:
    """What stands for a layer: which nodes there are, and what reads what.

    Attributes:
        nodes: The name, kind, inputs and results of each, in order; without those that compute from constants alone:
            they are known where sizes are small, and their results are compared, or computed again.
        results: The values that the layer's results are.
    """

    nodes: tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]
    results: tuple[str, ...]

    @staticmethod
    def of(nodes: Iterable[Node], results: Iterable[Value]) -> Expansion:
        """Return what *nodes* are, and that the layer's results are *results*."""
        rows = [
            (n.name, n.primitive.kind, tuple([v.name for v in n.inputs]), tuple([v.name for v in n.outputs]))
            for n in nodes
        ]
        return Expansion(tuple(rows), tuple([v.name for v in results]))


@mutable
class Bindings:
    """The layers of a cone as they are bound for one member.

    Attributes:
        values: What has a layout, and what of it is known, by name.
        primitives: Of the nodes that the layers became, by name.
        expansions: Of the layers for which others may stand, by name.
        computed: What nodes compute from constants alone.
    """

    values: dict[str, Value]
    nodes: list[Node] = field(default_factory=list)
    primitives: dict[str, Primitive] = field(default_factory=dict)
    expansions: dict[str, Expansion] = field(default_factory=dict)
    computed: set[Value] = field(default_factory=set)

    def bind(self, layers: Iterable[Layer]) -> None:
        """Bind *layers*, whose inputs have layouts. Raises as ``Topology.build``."""
        for layer in layers:
            bind_layer(layer, self.values, self.nodes, COMPUTED_ELEMENTS)
            # Nodes in front may be gone: what they made is known as soon as a layer asks for it.
            first = len(self.nodes)
            while first and self.nodes[first - 1].name not in self.primitives:
                first -= 1
            reads_data = []
            for node in self.nodes[first:]:
                self.primitives[node.name] = node.primitive
                if all(v.constant is not None or v in self.computed for v in node.inputs):
                    self.computed.update(node.outputs)
                else:
                    reads_data.append(node)
            if isinstance(layer.primitive, Inlinable):
                results = [self.values[name] for name in layer.outputs if name in self.values]
                self.expansions[layer.name] = Expansion.of(reads_data, results)

    def primitive(self, node: str) -> Primitive:
        """Return the primitive of the built node called *node*."""
        if node not in self.primitives:
            raise BindingError(f"node {node!r} exists for some sizes only")
        return self.primitives[node]

    def shape(self, value: str) -> tuple[int, ...]:
        """Return the shape of *value*."""
        return self._value(value).layout.shape

    def dtype(self, value: str) -> DType:
        """Return the element type of *value*."""
        return self._value(value).layout.dtype

    def widened(self, value: str) -> Array:
        """Return the elements of *value*, as :meth:`array`, computed in float32 where it has floats of 16 bits."""
        makers = {made: node for node in self.nodes for made in node.outputs}
        found: dict[Value, Array] = {}
        waiting = [self._value(value)]
        while waiting:
            node = makers.get(waiting[-1])
            if node is None:
                source = waiting.pop()
                found[source] = _wide(self.array(source.name))
                continue
            if missing := [v for v in node.inputs if v not in found]:
                waiting += missing
                continue
            waiting.pop()
            given = [found[v] for v in node.inputs]
            rounds = isinstance(node.primitive, Reorder) and node.primitive.dtype in NARROW
            made = (_float(given[0]),) if rounds else _computed(node, given)
            found.update(zip(node.outputs, map(_wide, made), strict=True))
        return found[self._value(value)]

    def array(self, value: str) -> Array:
        """Return the elements of *value*, which constants and sizes decide; computed by references where need be."""
        found = self._value(value)
        if found.constant is not None:
            return found.constant
        makers = {made: node for node in self.nodes for made in node.outputs}
        waiting = [found]
        while waiting:
            node = makers.get(waiting[-1])
            if node is None:
                raise BindingError(f"{value!r} is not known for all sizes")
            if missing := [v for v in node.inputs if v.constant is None]:
                waiting += missing
                continue
            waiting.pop()
            given = [v.constant for v in node.inputs if v.constant is not None]
            for made, array in zip(node.outputs, _computed(node, given), strict=True):
                made.constant = array
        assert found.constant is not None
        return found.constant

    def _value(self, name: str) -> Value:
        if name not in self.values:
            raise BindingError(f"{name!r} exists for some sizes only")
        return self.values[name]


def repeats_one(array: Array) -> bool:
    """Whether *array* is a view that repeats one element, or holds one alone."""
    return bool(array.size) and all(n == 1 or not step for n, step in zip(array.shape, array.strides, strict=True))


def _computed(node: Node, given: Sequence[Array]) -> Sequence[Array]:
    """Return what *node* makes of *given*: a view of one element where every element is the same.

    Sizes may be those of a witness, which nobody runs: what attention adds to its scores has gigabytes there. Raises
    ``BindingError`` where that many differ.
    """
    primitive, shapes = node.primitive, [v.layout.shape for v in node.outputs]
    if isinstance(primitive, Expand):
        return [np.broadcast_to(given[0], shape) for shape in shapes]
    if isinstance(primitive, Fill):
        return [np.broadcast_to(np.asarray(primitive.value, primitive.dtype.numpy), shape) for shape in shapes]
    by_element = primitive.elementwise or isinstance(primitive, Reorder)
    if given and by_element and all(map(repeats_one, given)):
        ones = node.reference(*[a[(slice(1),) * a.ndim] for a in given])
        return [np.broadcast_to(one, shape) for one, shape in zip(ones, shapes, strict=True)]
    if (nbytes := sum(v.layout.nbytes for v in node.outputs)) > COMPUTED_BYTES:
        raise BindingError(f"what sizes make of node {node.name!r} takes {nbytes} bytes, and would be computed anew")
    return node.reference(*given)


def _float(array: Array) -> Array:
    if repeats_one(array):
        return np.broadcast_to(array[(slice(1),) * array.ndim].astype(np.float32), array.shape)
    return array.astype(np.float32, copy=False)


def _wide(array: Array) -> Array:
    return _float(array) if DType.of(array.dtype) in NARROW else array


def beginning(
    inputs: Iterable[tuple[str, Layout]], constants: Mapping[str, Value], known: Mapping[str, Array]
) -> Bindings:
    """Return what is there before any layer is bound: *inputs*, *constants*, and what inputs that are *known* hold."""
    values = {name: Value(name, layout) for name, layout in inputs}
    values |= constants
    values |= {name: Value(name, Layout.of(array), constant=array) for name, array in known.items()}
    return Bindings(values)
