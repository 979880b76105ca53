"""Finds the layers that produce values, for rewrites that match the subgraphs that an exporter writes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder

_EXACT = frozenset({DType.I64, DType.BOOL})


@frozen
class Producers:
    """The layer or constant that produces each value of a topology."""

    layers: Mapping[str, Layer]
    constants: Mapping[str, Array]

    @classmethod
    def of(cls, topology: Topology) -> Producers:
        """Index the values of *topology*."""
        return cls({name: x for x in topology.layers for name in x.outputs}, topology.constants)

    def find(self, name: str, *kinds: str) -> Layer | None:
        """Return the layer of the last of *kinds* from which *name* is made, the others behind it one by one."""
        layer = None
        for kind in kinds:
            layer = self.layers.get(self.past_casts(name))
            if layer is None or layer.primitive.kind != kind:
                return None
            name = layer.inputs[0] if layer.inputs else ""
        return layer

    def past_casts(self, name: str) -> str:
        """Return what *name* is but for conversions that keep sizes and places."""
        while isinstance(cast := getattr(self.layers.get(name), "primitive", None), Reorder) and cast.dtype in _EXACT:
            name = self.layers[name].inputs[0]
        return name

    def holds(self, name: str, *numbers: int) -> bool:
        """Whether *name* is a constant of these *numbers*."""
        array = self.constants.get(self.past_casts(name))
        return array is not None and np.ravel(array).tolist() == list(numbers)

    def function(self, name: str, function: str) -> Layer | None:
        """Return the elementwise layer of this *function* that makes *name*."""
        layer = self.layers.get(name)
        made = layer is not None and isinstance(layer.primitive, Eltwise) and layer.primitive.function == function
        return layer if made else None

    def adds(self, name: str, to: str, number: int) -> bool:
        """Whether *name* is *to* and a constant *number*, of the type of *to*."""
        layer = self.function(name, "add")
        if layer is None or layer.inputs[0] != to:
            return False
        added = self.layers.get(layer.inputs[1])
        like = added is not None and added.primitive.kind == "cast_like"
        return self.holds(added.inputs[0] if added is not None and like else layer.inputs[1], number)

    def shift(self, name: str, index: str) -> int | None:
        """Return 0, 1 or 2 where *name* is *index* in one axis, and as much more."""
        for number in (1, 2):
            layer = self.layers.get(name)
            if layer is not None and layer.inputs and self.adds(name, layer.inputs[0], number):
                return number if self.shift(layer.inputs[0], index) == 0 else None
        wide = self.find(name, "reshape")
        return 0 if wide is not None and wide.inputs[0] == index and self.holds(wide.inputs[1], -1) else None
