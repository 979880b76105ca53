"""Indices that are fed and pick from constants, as the numbers of tokens from a table of embeddings do.

Kernels clamp an index that lies outside; one that is fed is refused before the run, with the layer that it is for.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError

if TYPE_CHECKING:
    from clgraph.graph.layer import Layer
    from clgraph.graph.primitive import Array

_KEEPING = frozenset({"reorder", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "expand", "tile"})
"""Layers whose results are elements of their first input, of whatever integer type."""


@frozen
class FedIndices:
    """The input *name*, whose elements pick from *size* slices of a constant; *layer* reads it."""

    name: str
    size: int
    layer: str


def fed_indices(
    inputs: Container[str], constants: Mapping[str, Array], layers: Iterable[Layer]
) -> tuple[FedIndices, ...]:
    """Return the *inputs* whose elements are indices into *constants* in *layers*."""
    made: dict[str, str] = {}
    found: dict[tuple[str, int], FedIndices] = {}
    for layer in layers:
        if layer.primitive.kind in _KEEPING:
            made[layer.outputs[0]] = layer.inputs[0]
        for data, indices, axis in layer.primitive.picks:
            table, name = constants.get(layer.inputs[data]), layer.inputs[indices]
            while name in made:
                name = made[name]
            # An axis that the table does not have is refused where the layer is bound.
            if name in inputs and table is not None and -table.ndim <= axis < table.ndim:
                size = table.shape[axis]
                found.setdefault((name, size), FedIndices(name, size, layer.origin[0]))
    return tuple(found.values())


def check_indices(feeds: Mapping[str, Any], indices: Iterable[FedIndices]) -> None:
    """Refuse *feeds* in which an element of an array does not pick a slice; tensors on a device are not read.

    Raises:
        InputError: An index is smaller than the negative size, or no smaller than the size.
    """
    for picked in indices:
        array = feeds.get(picked.name)
        if type(array) is not np.ndarray or array.dtype.kind not in "iu" or not array.size:
            continue
        # Of the one token of a text there is no least to look for.
        least, most = (int(array.item()),) * 2 if array.size == 1 else (int(array.min()), int(array.max()))
        if least < -picked.size or most >= picked.size:
            wrong = most if most >= picked.size else least
            raise InputError(
                f"input {picked.name!r}: index {wrong} is out of range: {picked.layer!r} picks from {picked.size} "
                f"slices, so that indices are {-picked.size} to {picked.size - 1}"
            )
