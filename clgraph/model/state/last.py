"""Results of last tokens alone: what computes each row by itself, up to the last attention, computes one row.

That is the product in front of a result, often the largest of all, and most of the last layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.expand import Expand
from clgraph.ops.gather import Gather
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.moe import MixtureOfExperts
from clgraph.ops.reshape import Flatten, Reshape, Squeeze, Unsqueeze
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split

LAST = "clgraph.last"
"""The input that tells which row is the last token's: int64 ``[1]``."""

_BY_ELEMENTS = frozenset({"reduce", "skip_sum", "reorder", "identity", "power", "where"})
"""Kinds that are computed row by row where their result has the tokens' axis, beside elementwise ones."""


@frozen
class TokenAxis:
    """The shape of a value of one text, and its tokens' axis, ``None`` where it has none."""

    shape: tuple[int, ...]
    axis: int | None = None

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def leads(self) -> bool:
        """Whether axes in front of the tokens' one have size 1."""
        return set(self.shape[: self.axis]) <= {1}


Places = Mapping[str, TokenAxis]
"""The place of each value that is known."""


def of_last_tokens(topology: Topology, results: Mapping[str, int | None], places: Places, texts: int) -> Topology:
    """Return *topology* with one token in those results that rows alone and a product make; it reads ``LAST`` then.

    Of one text tokens are followed to where exporters join them with texts, as in front of mixtures of experts.

    Args:
        results: The tokens' axis in each result.
        texts: How many texts it is for.
    """
    rows = _Rows(topology, {**_fixed(topology), **places}, texts == 1)
    alone = {layer.name: layer for layer in rows.alone(results)}
    if not any(isinstance(x.primitive, MatMul | BlockMatMul | MixtureOfExperts) for x in alone.values()):
        return topology
    made_alone = {name for layer in alone.values() for name in layer.outputs}
    made, taken = replace(topology, inputs=dict(topology.inputs), layers=[]), set[str]()
    for layer in topology.layers:
        if layer.name not in alone:
            whole = made_alone.intersection(layer.inputs)  # of these it reads shapes
            made.layers.append(replace(layer, inputs=tuple(f"{n}/all" if n in whole else n for n in layer.inputs)))
            continue
        names = {n: f"{n}/all" for n in (*layer.inputs, *layer.outputs) if n in made_alone}
        inputs, outputs = (tuple(names.get(n, n) for n in own) for own in (layer.inputs, layer.outputs))
        made.layers.append(replace(layer, name=f"{layer.name}/all", inputs=inputs, outputs=outputs))
        layer, own = rows.of_last(layer), {}
        for name in layer.inputs:
            place = rows.places.get(name)
            if place is not None and place.axis is not None and name not in made_alone:
                own[name] = f"{name}/last"
                if name not in taken:
                    made.layers.append(Layer(own[name], Gather(place.axis), (name, LAST), (own[name],), layer.origin))
                    taken.add(name)
        made.layers.append(replace(layer, inputs=tuple(own.get(n, n) for n in layer.inputs)))
    made.input(LAST, (1,), np.int64)
    return made.pruned()


def _fixed(topology: Topology) -> Places:
    """Return the places of what is a constant, or of constants alone, whose shape is taken for the first one's."""
    found = {name: TokenAxis(a.shape) for name, a in topology.constants.items()}
    for layer in topology.layers:
        if layer.inputs and all(name in found for name in layer.inputs):
            found |= dict.fromkeys(layer.outputs, found[layer.inputs[0]])
    return found


@frozen
class _Rows:
    """Which layers compute a token's row of their results of the same row alone.

    Attributes:
        joined: Whether tokens may be followed to an axis that they share with texts: there is one text.
    """

    topology: Topology
    places: Places
    joined: bool

    def alone(self, results: Mapping[str, int | None]) -> list[Layer]:
        """Return the layers of whose results no row but the last token's is read, but for their shapes."""
        found, whole, last = list[Layer](), set[str](), set[str]()
        for name, value in self.topology.outputs:
            (whole if results.get(name) is None else last).add(value)
        for layer in reversed(self.topology.needed()):
            is_whole, is_last = (not own.isdisjoint(layer.outputs) for own in (whole, last))
            if is_last and not is_whole and self._is_by_rows(layer):
                found.append(layer)
                last.update(layer.inputs)
            elif (is_last or is_whole) and not layer.primitive.shapes_only:
                whole.update(layer.inputs)
        return found

    def of_last(self, layer: Layer) -> Layer:
        """Return *layer*, one of those alone, for one token."""
        place = self.places[layer.outputs[0]]
        assert place.axis is not None
        if isinstance(layer.primitive, Expand):
            shape = (0,) * place.rank
        elif isinstance(layer.primitive, Reshape | Squeeze | Unsqueeze | Flatten):
            shape = (1,) * (place.axis + 1) + (-1,) * (place.rank - place.axis - 1)
        else:
            return layer
        return replace(layer, primitive=Reshape(shape), inputs=layer.inputs[:1])

    def _is_by_rows(self, layer: Layer) -> bool:
        primitive, known = layer.primitive, [self.places.get(name) for name in layer.inputs]
        places = [self.places.get(name) for name in layer.outputs]
        place, first = places[0], known[0] if known else None
        if place is None or place.axis is None or first is None:
            return False
        if any(p is None or (p.rank, p.axis) != (place.rank, place.axis) for p in places):
            return False
        same = (first.rank, first.axis) == (place.rank, place.axis)
        if isinstance(primitive, Reshape | Squeeze | Unsqueeze | Flatten):
            return self.joined and first.leads and place.leads and place.rank - place.axis <= 2
        if isinstance(primitive, Expand):
            return self.joined and first == place  # it may be of one text to several
        if isinstance(primitive, Slice | Split):
            return same and place.axis not in self._cut_axes(layer, place.rank)
        if None in known:
            return False
        if isinstance(primitive, MatMul | BlockMatMul):
            return same  # else the sums are over tokens
        if isinstance(primitive, MixtureOfExperts):
            return self.joined and same
        if isinstance(primitive, LayerNormalization):
            return place.axis < primitive.axis % place.rank
        if not primitive.elementwise and primitive.kind not in _BY_ELEMENTS:
            return False
        # Broadcasting aligns last axes. Sums over tokens have none, and those that drop an axis have them elsewhere.
        return all(p is None or p.axis is None or p.rank - p.axis == place.rank - place.axis for p in known)

    def _cut_axes(self, layer: Layer, rank: int) -> set[int]:
        """Return the axes that a Slice or Split cuts; all where that is not known."""
        if isinstance(layer.primitive, Split):
            return {layer.primitive.axis % rank}
        assert isinstance(layer.primitive, Slice)
        axes, reads = layer.primitive.axes, getattr(layer.primitive, "reads", ())
        if "axes" in reads:
            constant = self.topology.constants.get(layer.inputs[1 + reads.index("axes")])
            axes = None if constant is None else tuple(constant.reshape(-1).tolist())
        return set(range(rank)) if axes is None else {axis % rank for axis in axes}
