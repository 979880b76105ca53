"""Results of last tokens alone: the product in front of a result, often the largest of all, is computed for one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul

LAST = "clgraph.last"
"""The input that tells which row is the last token's: int64 ``[1]``."""


def of_last_tokens(topology: Topology, axes: Mapping[str, int | None]) -> Topology:
    """Return *topology* with one token in those results that are a product with weights; it reads ``LAST`` then.

    Args:
        axes: The tokens' axis in each result.
    """
    fixed, makers, readers = _fixed(topology), dict[str, Layer](), dict[str, int]()
    for layer in topology.layers:
        makers |= dict.fromkeys(layer.outputs, layer)
        for name in layer.inputs:
            readers[name] = readers.get(name, 0) + 1
    cut: dict[str, int] = {}
    for name, value in topology.outputs:
        product, axis = makers.get(value), axes.get(name)
        if product is not None and axis is not None and not readers.get(value) and _is_by_rows(product, fixed):
            cut[product.name] = axis
    if not cut:
        return topology
    layers = []
    for layer in topology.layers:
        if (axis := cut.get(layer.name)) is not None:
            row = f"{layer.name}/last"
            layers.append(Layer(row, Gather(axis), (layer.inputs[0], LAST), (row,), layer.origin))
            layer = replace(layer, inputs=(row, *layer.inputs[1:]))  # the layer that is added
        layers.append(layer)
    made = replace(topology, inputs=dict(topology.inputs), layers=layers)
    made.input(LAST, (1,), np.int64)
    return made


def _is_by_rows(layer: Layer, fixed: Mapping[str, int]) -> bool:
    """Whether *layer* multiplies each row of its first input by the same weights, and adds what all rows add."""
    product, ranks = layer.primitive, [fixed.get(name) for name in layer.inputs[1:]]
    if None in ranks:
        return False
    if isinstance(product, MatMul):
        return not product.transpose_a and ranks[0] in (1, 2)
    return isinstance(product, BlockMatMul)


def _fixed(topology: Topology) -> dict[str, int]:
    """Return the rank of every value that is a constant, or of constants alone: about that of the first of them."""
    found = {name: array.ndim for name, array in topology.constants.items()}
    for layer in topology.layers:
        if layer.inputs and all(name in found for name in layer.inputs):
            found |= dict.fromkeys(layer.outputs, found[layer.inputs[0]])
    return found
