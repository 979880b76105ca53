"""Values that are as wide as the caches, where layers read these as tensors of all their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.state.biases import hides_ahead
from clgraph.model.state.lengths import Lengths

SHOWN = "clgraph.shown"
"""An input of the device's topology: bools ``[places]``, which of them hold tokens."""

SIZES = "clgraph.sizes:"
"""In front of the name of a value that decides sizes, as an input of the device's topology."""


@frozen
class Wide:
    """What the device reads of the host beside numbers of tokens.

    Attributes:
        axes: Of values of the host those that have a place for every token: they are made as wide as the caches.
        sizes: What decides sizes: computed for as many tokens as the caches have places, and a constant then.
        masks: For each softmax over places, the values that may hide some of them.
    """

    axes: Mapping[str, tuple[int, ...]]
    sizes: Lengths
    masks: tuple[frozenset[str], ...]

    def widened(self, values: Mapping[str, Array], places: int) -> dict[str, Array]:
        """Return those of *values* that the device reads, what they have for the last token in all places behind it."""
        found = {}
        for name, axes in self.axes.items():
            array = values[name]
            for axis in axes:
                array = _widened(array, axis, places)
            found[name] = array
        return found

    def with_sizes(self, topology: Topology, arrays: Mapping[str, Array]) -> Topology:
        """Return *topology* for the sizes that follow from *arrays*: of as many tokens as places."""
        values = self.sizes.values(arrays) if self.sizes.topology.outputs else {}
        constants = {**topology.constants, **{f"{SIZES}{name}": a for name, a in values.items()}}
        inputs = {name: s for name, s in topology.inputs.items() if name not in constants}
        return replace(topology, inputs=inputs, constants=constants)

    def causal(self, values: Mapping[str, Array], past: int) -> bool:
        """Whether no token sees one behind it, as the masks of every softmax say."""
        ahead = {name for name in self.axes if values[name].ndim > 1 and hides_ahead(values[name], past)}
        return all(ahead & names for names in self.masks)


def shown(count: int, places: int) -> Array:
    """Return which of the *places* hold tokens, of which there are *count*."""
    return np.arange(places) < count


def _widened(array: Array, axis: int, places: int) -> Array:
    """Return *places* of *axis*: what ``numpy.pad`` makes of edges, in an eighth of its time."""
    before = (slice(None),) * axis
    wide = np.empty((*array.shape[:axis], places, *array.shape[axis + 1 :]), array.dtype)
    count = min(places, array.shape[axis])
    wide[(*before, slice(count))] = array[(*before, slice(count))]
    if count < places:
        wide[(*before, slice(count, None))] = array[(*before, slice(count - 1, count))]
    return wide
