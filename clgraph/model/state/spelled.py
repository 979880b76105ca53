"""Attentions that a model spells out: past keys and values joined with new ones, two products, a softmax in between.

Or past and new ones are joined in front of an Attention, which knows no past then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import interpret
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.topology import Topology
from clgraph.model.state.examples import Examples, joins
from clgraph.model.state.near import with_near_shapes
from clgraph.model.state.scores import Mask, Scores, apart_by_heads, chain, joined_heads
from clgraph.ops.microsoft.attention import CrossAttention
from clgraph.ops.multi_head_attention import MultiHeadAttention
from clgraph.ops.reshape import Reshape

_MOVES = frozenset({"reshape", "unsqueeze", "squeeze", "expand", "transpose", "identity", "reorder"})
"""Kinds through which keys and values reach the products: of their first input."""

_HIDDEN = -1e4
"""Scores below that count for nothing."""

_CLOSE, _CLOSE_HALVES = 1e-4, 2e-2
"""How near mixtures of normal numbers are to each other where two ways to make them mean the same: of absolute and of
relative size, in float32 and wider types, and in narrower ones.

Scores are below 8, and come out of a dozen roundings of either sign: sqrt(12) * 8 * 2**-11 = 1.4e-2 of float16; of
float32 2e-6, and sqrt(512) * 8 * 2**-24 = 1.1e-5 by a sum over depth 512. Another scale, mask or order of heads moves
mixtures by tenths. What is refused for its roundings runs as it is spelled out.
"""

_NONE = np.empty(0)


@frozen
class Spelled:
    """An attention's layers: from *join_keys* and *join_values* to *last*, which makes the mixtures of values.

    Attributes:
        scores: What is made of products of queries and keys.
        heads: Of queries that are rows of tokens; else 0.
        joined: Of queries ``[batch * heads, tokens, D]``; else 0.
        mixed: Whether mixtures are such, too.
        sink: The constant that is joined to the scores for their softmax; "" for none.
    """

    last: Layer
    join_keys: Layer
    join_values: Layer
    queries: str
    scores: Scores
    heads: int = 0
    joined: int = 0
    mixed: bool = False
    sink: str = ""

    @property
    def attention(self) -> MultiHeadAttention:
        """What the layers compute: of the queries, new keys and values, the bias where there is one, and pasts."""
        reads = (*(("mask",) if self.scores.bias else ()), "past_key", "past_value", *(("sink",) if self.sink else ()))
        return MultiHeadAttention(self.heads, scale=self.scores.factor, cap=self.scores.cap, reads=reads)

    @property
    def layers(self) -> Sequence[Layer]:
        """The :attr:`attention` with what makes its bias, and moves its heads."""
        names = (self.last.outputs[0], self.join_keys.outputs[0], self.join_values.outputs[0])
        (past_keys, keys), (past_values, values) = self.join_keys.inputs, self.join_values.inputs
        bias, before, behind = self.scores.bias, list(self.scores.layers), list[Layer]()
        queries = self.queries
        if self.joined:
            before += chain(self.last, apart_by_heads(self.joined), queries, queries := f"{names[0]}/queries")
        if self.mixed:
            behind = chain(self.last, joined_heads(), f"{names[0]}/heads", names[0])
            names = (f"{names[0]}/heads", *names[1:])
        inputs = (queries, keys, values, *((bias,) if bias else ()), past_keys, past_values)
        if self.sink:
            before += chain(self.last, (Reshape((-1,)),), self.sink, f"{names[0]}/sink")
            inputs = (*inputs, f"{names[0]}/sink")
        return [*before, replace(self.last, primitive=self.attention, inputs=inputs, outputs=names), *behind]

    @property
    def cut(self) -> tuple[str, ...]:
        """The values that :attr:`layers` are confirmed for."""
        joined = (*self.join_keys.inputs, *self.join_values.inputs)
        return (self.queries, *joined, *self.scores.added, *(mask.name for mask in self.scores.masks))


def gathered(topology: Topology) -> Topology:
    """Return *topology* with attentions over joined keys and values as :class:`MultiHeadAttention`.

    Each is confirmed by numbers: the layers and the attention make the same of an example.
    """
    makers = {name: layer for layer in topology.layers for name in layer.outputs}
    matcher = _Matcher(topology, makers, Examples(topology))
    found = [s for layer in topology.layers if (s := matcher.match(layer))]
    found = [s for s in found if matcher.confirmed(s)]
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

    def confirmed(self, s: Spelled) -> bool:
        """Whether the layers of *s* make of random numbers what the attention makes."""
        shapes, masks = self.examples.shapes, {mask.name: mask.hides for mask in s.scores.masks}
        if any(name not in shapes for name in s.cut):
            return False
        random = np.random.default_rng(0)
        feeds: dict[str, Array] = {}
        for name in s.cut:
            shape, dtype = shapes[name]
            feeds[name] = random.standard_normal(shape).astype(dtype)
            if name in masks:
                feeds[name] = (random.random(shape) < 0.5) & (np.arange(shape[-1]) > 0) ^ (not masks[name])
        try:
            want = self._made_of(self.topology.layers, feeds, s)
            got = self._made_of(s.layers, feeds, s)
        except ClgraphError:
            return False
        close = _CLOSE if want.dtype.itemsize >= 4 else _CLOSE_HALVES
        return want.shape == got.shape and bool(
            np.allclose(want.astype(np.float32), got.astype(np.float32), close, close)
        )

    def _made_of(self, layers: Iterable[Layer], feeds: Mapping[str, Array], s: Spelled) -> Array:
        """Return what *layers* make of *feeds* for the mixtures of *s*, and of ones for other inputs of the model."""
        body, found, needed = Topology(), list[Layer](), {s.last.outputs[0]}
        for layer in reversed(list(layers)):
            if needed & set(layer.outputs) - feeds.keys():
                found.insert(0, layer)
                needed |= set(layer.inputs)
        ones = {
            name: np.ones(*self.examples.shapes[name]) for name in self.topology.inputs if name in needed - feeds.keys()
        }
        for name in (*feeds, *ones):
            body.input(name, None, None)
        for name, array in (self.topology.constants | s.scores.arrays(self.examples.type_of(s.queries))).items():
            if name in needed:
                body.constant(name, array)
        for x in found:
            outputs = [n if n not in feeds else f"{n}:unused" for n in x.outputs]
            body.add(x.name, x.primitive, *x.inputs, outputs=outputs)
        body.output(s.last.outputs[0])
        return interpret(body, {**feeds, **ones})[s.last.outputs[0]]
