"""Every slice of a tensor against another tensor at once: scans that carry nothing, which compute distances of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.attributes import ints, positive_axes
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice

_BLOCK_ELEMENTS = 1 << 16
"""Pairs of elements that are computed at once, so that they stay in a cache."""

_MOST_BLOCKS = 256
"""Each is some layers more for the passes."""


@primitive
@frozen
class Pairwise(Composite):
    """``y[i] = reduce(f(a op b[i]))``, stacked over the slices of b ``[slices, ...]``.

    Attributes:
        combined: What makes one tensor of a and a slice.
        slice_first: The slice is its first operand.
        functions: What is applied to its elements, one behind the other.
        reduced: Behind them; its axes are those of a slice's result.
    """

    combined: Eltwise
    slice_first: bool
    functions: tuple[Activation, ...]
    reduced: Reduce

    kind: ClassVar[str] = "pairwise"

    def compose(self, c: Composition) -> Sequence[str]:
        a, b = c.inputs
        one, (count, *own) = c.layout(a).shape, c.layout(b).shape
        rank = max(len(one), len(own))
        reduced = replace(self.reduced, axes=tuple(1 + axis for axis in positive_axes(self.reduced.axes or (), rank)))
        # In front of a slice's own axes stand those of a that it has not.
        b = c.add(Reshape((count, *(1,) * (rank - len(own)), *own), zero_is_zero=True), b)
        most = max(_BLOCK_ELEMENTS // max(prod(broadcast(one, tuple(own))), 1), 1)
        bounds = [*range(0, count, max(most, -(-count // _MOST_BLOCKS))), count]
        made = []
        for begin, end in pairwise(bounds):
            block = b if end - begin == count else c.add(Slice((begin,), (end,), axes=(0,)), b)
            y = c.add(self.combined, *((block, a) if self.slice_first else (a, block)))
            for function in self.functions:
                y = c.add(function, y)
            made.append(c.add(reduced, y))
        return (made[0] if len(made) == 1 else c.add(Concat(0), *made),)


def pairwise_of(body: Topology, kept: str, cut: str, axes: Mapping[str, Array]) -> Pairwise | None:
    """Return what stacks the last result of *body* over slices; ``None`` where it does not reduce a chain of layers.

    Args:
        kept, cut: The input that is the same for all slices, and the slice.
        axes: Constants that a reduction may read, by name.
    """
    if len(body.layers) < 2:
        return None
    first, *middle, last = body.layers
    chained = all(made.outputs == after.inputs[:1] for made, after in pairwise(body.layers))
    functions = tuple(layer.primitive for layer in middle if isinstance(layer.primitive, Activation))
    reduced = _with_axes(last, axes)
    if not chained or last.outputs[0] != body.outputs[-1][1] or len(functions) < len(middle) or reduced is None:
        return None
    if not isinstance(first.primitive, Eltwise) or sorted(first.inputs) != sorted((kept, cut)):
        return None
    return Pairwise(first.primitive, first.inputs[0] == cut, functions, reduced)


def _with_axes(layer: Layer, axes: Mapping[str, Array]) -> Reduce | None:
    """Return the reduction of *layer* over its axes; ``None`` where they are not told, or it is another operator."""
    reduce = layer.primitive
    if not isinstance(reduce, Reduce):
        return None
    found = ints(axes[layer.inputs[1]]) if reduce.reads and layer.inputs[1] in axes else reduce.axes
    return replace(reduce, axes=found, no_axes_is_none=False, reads=()) if found else None
