"""Programs that compute one of equal slices of a batch: the shapes of the whole, and the feeds of each slice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clgraph.core.layout import Shape
from clgraph.graph.node import Value
from clgraph.graph.program import Program


def whole_shape(program: Program, value: Value) -> Shape:
    """Return the shape of an input or output of *program*, all slices together.

    Inputs that have not as many entries as the first one are the same for all slices.
    """
    shape = value.layout.shape
    is_given = value.constant is not None or value in program.inputs
    if program.batch_slices == 1 or (is_given and shape[:1] != program.inputs[0].layout.shape[:1]):
        return shape
    return (shape[0] * program.batch_slices, *shape[1:])


def slices_of(program: Program, feeds: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the feeds of each slice out of arrays for the whole batch, by name: views of what is cut, and the rest."""
    sizes = {v.name: v.layout.shape[0] for v in program.inputs if whole_shape(program, v) != v.layout.shape}
    for number in range(program.batch_slices):
        yield {
            name: given[number * sizes[name] : (number + 1) * sizes[name]] if name in sizes else given
            for name, given in feeds.items()
        }
