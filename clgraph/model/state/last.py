"""Results of last tokens alone: what computes each row by itself, up to the last attention, computes one row.

That is the product in front of a result, often the largest of all, and most of the last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul

LAST = "clgraph.last"
"""The input that tells which row is the last token's: int64 ``[1]``."""

Places = Mapping[str, tuple[int, int | None]]
"""The rank of each value that is known, and its tokens' axis, ``None`` where it has none."""


def of_last_tokens(topology: Topology, results: Mapping[str, int | None], places: Places) -> Topology:
    """Return *topology* with one token in those results that rows alone and a product make; it reads ``LAST`` then.

    Args:
        results: The tokens' axis in each result.
    """
    places = {**_fixed(topology), **places}
    alone = _alone(topology, results, places)
    if not any(isinstance(layer.primitive, MatMul | BlockMatMul) for layer in alone):
        return topology
    made_alone = {layer.outputs[0] for layer in alone}
    layers, rows = [], dict[str, str]()
    for layer in topology.layers:
        if layer.outputs[0] in made_alone:
            for name in layer.inputs:
                axis = places[name][1]
                if axis is not None and name not in made_alone and name not in rows:
                    rows[name] = f"{name}/last"
                    layers.append(Layer(rows[name], Gather(axis), (name, LAST), (rows[name],), layer.origin))
            layer = replace(layer, inputs=tuple(rows.get(n, n) for n in layer.inputs))  # the layer that is added
        layers.append(layer)
    made = replace(topology, inputs=dict(topology.inputs), layers=layers)
    made.input(LAST, (1,), np.int64)
    return made


def _fixed(topology: Topology) -> Places:
    """Return the places of what is a constant, or of constants alone, whose rank is taken for the first one's."""
    found: dict[str, tuple[int, int | None]] = {name: (a.ndim, None) for name, a in topology.constants.items()}
    for layer in topology.layers:
        if layer.inputs and all(name in found for name in layer.inputs):
            found |= dict.fromkeys(layer.outputs, found[layer.inputs[0]])
    return found


def _alone(topology: Topology, results: Mapping[str, int | None], places: Places) -> list[Layer]:
    """Return the layers of whose results no row but the last token's is read, and whose rows are computed apart."""
    found, whole, last = list[Layer](), set[str](), set[str]()
    for name, value in topology.outputs:
        (whole if results.get(name) is None else last).add(value)
    for layer in reversed(topology.needed()):
        if whole.isdisjoint(layer.outputs) and not last.isdisjoint(layer.outputs) and _is_by_rows(layer, places):
            found.append(layer)
            last.update(layer.inputs)
        else:
            whole.update(layer.inputs)
    return found


def _is_by_rows(layer: Layer, places: Places) -> bool:
    """Whether a token's row of the result depends on the same row alone of every input that has tokens."""
    primitive, known = layer.primitive, [places.get(name) for name in layer.inputs]
    (rank, axis), first = places.get(layer.outputs[0], (0, None)), known[0] if known else None
    if axis is None or first is None or None in known or len(layer.outputs) > 1:
        return False
    if isinstance(primitive, MatMul | BlockMatMul):
        return first == (rank, axis)  # else the sums are over tokens
    if isinstance(primitive, LayerNormalization):
        return axis < primitive.axis % rank
    if not primitive.elementwise and primitive.kind not in ("reduce", "skip_sum"):
        return False
    # Broadcasting aligns last axes. Sums over tokens have none, and those that drop an axis have them elsewhere.
    return all(p is None or p[1] is None or p[0] - p[1] == rank - axis for p in known)
