"""Attentions that a model spells out: past keys and values joined with new ones, two products, a softmax in between.

Or past and new ones are joined in front of an Attention, which knows no past then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.state.confirmation import is_confirmed
from clgraph.model.state.examples import Examples, joins
from clgraph.model.state.near import with_near_shapes
from clgraph.model.state.scores import Mask, Scores
from clgraph.model.state.spelled_attention import Spelled
from clgraph.ops.microsoft.attention import CrossAttention
from clgraph.ops.multi_head_attention import MultiHeadAttention

_MOVES = frozenset({"reshape", "unsqueeze", "squeeze", "expand", "transpose", "identity", "reorder"})
"""Kinds through which keys and values reach the products: of their first input."""

_HIDDEN = -1e4
"""Scores below that count for nothing."""


_NONE = np.empty(0)


def gathered(topology: Topology, latest: int = 0) -> Topology:
    """Return *topology* with attentions over joined keys and values as :class:`MultiHeadAttention`.

    Each is confirmed by numbers: the layers and the attention make the same of an example.
    """
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    matcher = _Matcher(topology, makers, Examples(topology, latest))
    found = [s for layer in topology.layers if (s := matcher.match(layer))]
    found = [s for s in found if is_confirmed(s, topology, matcher.examples)]
    if not found:
        return topology
    last = {s.last.name: s for s in found}
    gone = {x.name for s in found for x in (s.join_keys, s.join_values)}
    constants = dict(topology.constants)
    for s in found:
        constants |= s.scores.arrays(matcher.examples.type_of(s.queries))
    made = replace(topology, layers=[], constants=constants)
    for layer in topology.layers:
        if layer.name not in gone:
            made.layers += last[layer.name].layers if layer.name in last else [layer]
    return with_near_shapes(made.pruned(), matcher.examples.all_shapes)


@dataclass
class _Matcher:
    topology: Topology
    makers: Mapping[str, Layer]
    examples: Examples

    def match(self, last: Layer) -> Spelled | None:
        """Return the attention whose second product is *last*, or that *last* is, of keys that are joined before."""
        if isinstance(last.primitive, MultiHeadAttention):
            return self._of_joined(last, last.primitive)
        if isinstance(last.primitive, CrossAttention):
            return self._of_rows(last, last.primitive)
        return self._of_products(last) if last.primitive.kind == "matmul" else None

    def _of_joined(self, last: Layer, attention: MultiHeadAttention) -> Spelled | None:
        if attention != MultiHeadAttention(scale=attention.scale, reads=attention.reads):
            return None
        if attention.reads not in ((), ("mask",)):
            return None
        bias = last.inputs[3] if attention.reads else None
        return self._over_joined(last, last.inputs[1:3], attention.scale, bias)

    def _of_rows(self, last: Layer, attention: CrossAttention) -> Spelled | None:
        """Return the attention of an operator that reads keys and values once a head of queries, as rows of tokens."""
        given = dict(zip(attention.given, last.inputs[1:], strict=True))
        if attention.causal or not {"key", "value"} <= set(given) <= {"key", "value", "bias"}:
            return None
        scale = attention.scale or None
        return self._over_joined(last, (given["key"], given["value"]), scale, given.get("bias"), attention.heads)

    def _over_joined(
        self, last: Layer, read: Sequence[str], scale: float | None, bias: str | None, heads: int = 0
    ) -> Spelled | None:
        """Return the attention *last* of the keys and values *read*, where these are joined in front of it."""
        keys, values = (self._join(name) for name in read)
        if keys is None or values is None or values[1] != 1 or self.read & set(last.outputs[1:]):
            return None
        depth = (self.topology.inputs[keys[0].inputs[0]].shape or (None,))[-1]
        if not isinstance(depth, int):
            return None
        scores = Scores(last, (1 / sqrt(depth) if scale is None else scale) * keys[1])
        return Spelled(last, keys[0], values[0], last.inputs[0], scores.plus(bias) if bias else scores, heads)

    def _of_products(self, last: Layer) -> Spelled | None:
        join_values = self._join(last.inputs[1])
        if join_values is None or join_values[1] != 1:
            return None
        softmax = self._behind(last.inputs[0], ("softmax", "slice"))
        sliced = softmax is not None and softmax.primitive.kind == "slice"
        softmax = self._behind(softmax.inputs[0], ("softmax",)) if sliced and softmax is not None else softmax
        if softmax is None or getattr(softmax.primitive, "axes", ()) not in ((-1,), (2,), (3,)):
            return None
        source, sink = self._with_sink(softmax.inputs[0]) if sliced else (softmax.inputs[0], "")
        if sink is None or (found := self._scores(source)) is None:
            return None
        product, (join_keys, factor) = found.product, self._keys_of(found.product)
        joined = self._heads_of(join_keys) if len(self.examples.shape(product.inputs[0])) == 3 else 0
        scores = found.of_keys(factor)
        mixed = len(self.examples.shape(last.outputs[0])) == 3
        return Spelled(last, join_keys, join_values[0], product.inputs[0], scores, 0, joined, mixed, sink)

    def _with_sink(self, name: str) -> tuple[str, str | None]:
        """Return the scores that *name* joins with a constant, and this; none of it where it is no such thing."""
        layer = self.makers.get(name)
        if layer is not None and getattr(layer.primitive, "function", "") == "sub":  # their largest, for small powers
            layer = self.makers.get(layer.inputs[0])
        if layer is None or layer.primitive.kind != "concat" or len(layer.inputs) != 2:
            return name, None
        scores, sink = layer.inputs
        while (made := self.makers.get(sink)) is not None and made.primitive.kind in _MOVES:
            sink = made.inputs[0]
        return scores, sink if sink in self.topology.constants else None

    def _join(self, name: str) -> tuple[Layer, float] | None:
        """Return the layer that joins what *name* is made of, and the factor on the way."""
        factor = 1.0
        while (layer := self.makers.get(name)) is not None and not joins(self.topology, layer):
            if (number := self._factor(layer)) is not None:
                factor *= number
            elif layer.primitive.kind not in _MOVES:
                return None
            name = layer.inputs[0]
        return None if layer is None else (layer, factor)

    def _behind(self, name: str, kinds: Sequence[str]) -> Layer | None:
        while (layer := self.makers.get(name)) is not None and layer.primitive.kind not in kinds:
            if layer.primitive.kind not in ("reorder", "identity", "where", "reshape"):
                return None
            name = layer.inputs[0 if layer.primitive.kind == "reshape" else -1]
        return layer

    def _scores(self, name: str) -> Scores | None:
        """Return what is made of products by the layers in front of *name*."""
        layer = self.makers.get(name)
        kind = "" if layer is None else layer.primitive.kind
        if layer is None or (kind == "matmul" and self._join(layer.inputs[1]) is None):
            return None
        if kind == "matmul":
            return Scores(layer)
        if kind in ("reorder", "identity") or self._is_floor(layer):
            return self._scores(layer.inputs[0])
        if kind == "reshape":
            return self._apart(layer)
        if (number := self._factor(layer)) is not None:
            return None if (found := self._scores(layer.inputs[0])) is None else found.times(number)
        if kind == "where":
            return self._masked(layer)
        if getattr(layer.primitive, "function", "") == "tanh":
            return None if (found := self._scores(layer.inputs[0])) is None else found.bounded()
        if getattr(layer.primitive, "function", "") == "add":
            for one, other in (layer.inputs, layer.inputs[::-1]):
                if (found := self._scores(one)) is not None:
                    return found.plus(other)
        return None

    def _masked(self, layer: Layer) -> Scores | None:
        """Return the scores that a Where replaces by a number, or leaves."""
        condition, *branches = layer.inputs
        for hides, (scores, number) in enumerate((branches, branches[::-1])):
            if self.topology.constants.get(number, _NONE).size == 1 and (found := self._scores(scores)) is not None:
                return found.masked(Mask(condition, bool(hides)), number)
        return None

    def _apart(self, layer: Layer) -> Scores | None:
        """Return the scores of all heads of all texts that *layer* reshapes to those of each, or back."""
        found = self._scores(layer.inputs[0])
        ranks = len(self.examples.shape(layer.inputs[0])), len(self.examples.shape(layer.outputs[0]))
        if found is None or ranks == (4, 3):  # as they were: nothing else is added to them then
            return found
        if ranks != (3, 4):
            return None
        rank = None if found.bias is None else max(len(self.examples.shape(name)) for name in found.added)
        return found.of_heads(self._heads_of(self._keys_of(found.product)[0])) if rank in (None, 3) else None

    def _keys_of(self, product: Layer) -> tuple[Layer, float]:
        found = self._join(product.inputs[1])
        assert found is not None
        return found

    def _heads_of(self, join: Layer) -> int:
        """Return the heads of a cache, 0 where they are open."""
        heads = (self.topology.inputs[join.inputs[0]].shape or (0, 0))[1]
        return heads if isinstance(heads, int) else 0

    def _is_floor(self, layer: Layer) -> bool:
        """Whether *layer* leaves all scores as they are, but those that are hidden."""
        floor = self.topology.constants.get(layer.inputs[-1], _NONE)
        return getattr(layer.primitive, "function", "") == "max" and floor.size == 1 and bool(floor < _HIDDEN)

    def _factor(self, layer: Layer) -> float | None:
        """Return the number by which *layer* multiplies its first input."""
        function = getattr(layer.primitive, "function", "")
        if layer.primitive.kind != "eltwise" or function not in ("mul", "div"):
            return None
        constant = self.topology.constants.get(layer.inputs[1])
        if constant is None and layer.inputs[1] in self.makers:
            constant = self.examples.numbers.get(layer.inputs[1])
        if constant is None or constant.size != 1:
            return None
        number = float(constant.reshape(-1)[0])
        return number if function == "mul" else 1 / number

    @cached_property
    def read(self) -> set[str]:
        """What layers read, and the values of outputs."""
        top = self.topology
        return {name for layer in top.layers for name in layer.inputs} | {value for _, value in top.outputs}
