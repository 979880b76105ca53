"""Attentions that a model spells out: past keys and values joined with new ones, two products, a softmax in between.

Or past and new ones are joined in front of an Attention, which knows no past then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ClgraphError
from clgraph.graph.interpret import interpret
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.state.needed import needed
from clgraph.ops.microsoft.attention import CrossAttention
from clgraph.ops.multi_head_attention import MultiHeadAttention

_MOVES = frozenset({"reshape", "unsqueeze", "squeeze", "expand", "transpose", "identity", "reorder"})
"""Kinds through which keys and values reach the products: of their first input."""

_EXAMPLES = (((3, 2), (5, 5)), ((3, 1), (5, 1)))
"""Past and new tokens of the example by which an attention is confirmed, and of another of other sizes.

Those of one new token are for models whose masks are made for a whole prompt or one token.
"""


@frozen
class Spelled:
    """An attention's layers: from *join_keys* and *join_values* to *last*, which makes the mixtures of values."""

    last: Layer
    join_keys: Layer
    join_values: Layer
    queries: str
    scale: float
    bias: str | None
    heads: int = 0

    @property
    def attention(self) -> MultiHeadAttention:
        """What the layers compute: of the queries, new keys and values, the bias where there is one, and pasts."""
        reads = (*(("mask",) if self.bias else ()), "past_key", "past_value")
        return MultiHeadAttention(self.heads, scale=self.scale, reads=reads)

    @property
    def inputs(self) -> tuple[str, ...]:
        """What :attr:`attention` reads, in its order."""
        joined = (self.join_keys.inputs, self.join_values.inputs)
        bias = (self.bias,) if self.bias else ()
        return (self.queries, *(new for _, new in joined), *bias, *(past for past, _ in joined))


def joins(topology: Topology, layer: Layer) -> bool:
    """Whether *layer* joins an input of the model and something new along the tokens' axis, as an output."""
    axis = getattr(layer.primitive, "axis", None)
    made = {value for _, value in topology.outputs}
    two = len(layer.inputs) == 2 and layer.inputs[0] in topology.inputs
    return layer.primitive.kind == "concat" and two and axis in (2, -2) and layer.outputs[0] in made


def gathered(topology: Topology) -> Topology:
    """Return *topology* with attentions over joined keys and values as :class:`MultiHeadAttention`.

    Each is confirmed by numbers: the layers and the attention make the same of an example.
    """
    matcher = _Matcher(topology, {name: layer for layer in topology.layers for name in layer.outputs})
    found = [s for layer in topology.layers if (s := matcher.match(layer))]
    found = [s for s in found if matcher.confirmed(s)]
    if not found:
        return topology
    last = {s.last.name: s for s in found}
    gone = {x.name for s in found for x in (s.join_keys, s.join_values)}
    made = replace(topology, layers=[], _made={*topology.inputs, *topology.constants})
    for layer in topology.layers:
        if layer.name in gone:
            continue
        if (s := last.get(layer.name)) is None:
            made.layers.append(layer)
            continue
        names = (layer.outputs[0], s.join_keys.outputs[0], s.join_values.outputs[0])
        made.layers.append(replace(layer, primitive=s.attention, inputs=s.inputs, outputs=names))
    return needed(made)


@dataclass
class _Matcher:
    topology: Topology
    makers: Mapping[str, Layer]

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
        scale = 1 / sqrt(depth) if scale is None else scale
        return Spelled(last, keys[0], values[0], last.inputs[0], scale * keys[1], bias, heads)

    def _of_products(self, last: Layer) -> Spelled | None:
        join_values = self._join(last.inputs[1])
        if join_values is None or join_values[1] != 1:
            return None
        softmax = self._behind(last.inputs[0], ("softmax",))
        if softmax is None or getattr(softmax.primitive, "axes", ()) not in ((-1,), (3,)):
            return None
        found = self._scores(softmax.inputs[0], 1.0, None)
        if found is None or (join_keys := self._join(found[0].inputs[1])) is None:
            return None
        product, scale, bias = found
        return Spelled(last, join_keys[0], join_values[0], product.inputs[0], scale * join_keys[1], bias)

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
            if layer.primitive.kind not in ("reorder", "identity", "where"):
                return None
            name = layer.inputs[-1]
        return layer

    def _scores(self, name: str, scale: float, bias: str | None) -> tuple[Layer, float, str | None] | None:
        """Return the product that makes the scores *name*, the factor, and what is added."""
        layer = self.makers.get(name)
        if layer is None or layer.primitive.kind == "matmul":
            return None if layer is None else (layer, scale, bias)
        if layer.primitive.kind in ("reorder", "identity"):
            return self._scores(layer.inputs[0], scale, bias)
        if (number := self._factor(layer)) is not None:
            return self._scores(layer.inputs[0], scale * number, bias)
        if getattr(layer.primitive, "function", "") == "add" and bias is None and scale == 1:
            one, two = layer.inputs
            return self._scores(one, scale, two) or self._scores(two, scale, one)
        return None

    def _factor(self, layer: Layer) -> float | None:
        """Return the number by which *layer* multiplies its first input."""
        function = getattr(layer.primitive, "function", "")
        if layer.primitive.kind != "eltwise" or function not in ("mul", "div"):
            return None
        constant = self.topology.constants.get(layer.inputs[1])
        if constant is None and layer.inputs[1] in self.makers:
            constant = self.numbers.get(layer.inputs[1])
        if constant is None or constant.size != 1:
            return None
        number = float(constant.reshape(-1)[0])
        return number if function == "mul" else 1 / number

    @cached_property
    def read(self) -> set[str]:
        """What layers read, and the values of outputs."""
        top = self.topology
        return {name for layer in top.layers for name in layer.inputs} | {value for _, value in top.outputs}

    @cached_property
    def numbers(self) -> dict[str, Array]:
        """Single numbers that are computed of shapes, and are the same in two examples, such as the root of a depth."""
        program, other = self.built
        one, two = (
            {} if x is None else {v.name: v.constant for v in x.values if v.constant is not None}
            for x in (program, self.example(*other))
        )
        return {n: a for n, a in one.items() if a.size == 1 and n in two and np.array_equal(a, two[n])}

    @cached_property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
        """Shapes and types of values in an example; nothing where there is none."""
        program, _ = self.built
        values = () if program is None else (*program.inputs, *program.values)
        return {v.name: (v.layout.shape, v.layout.dtype.numpy) for v in values}

    @cached_property
    def built(self) -> tuple[Program | None, tuple[int, int]]:
        """The program of the first example that can be built, and the sizes of another."""
        for sizes, other in _EXAMPLES:
            if (program := self.example(*sizes)) is not None:
                return program, other
        return None, _EXAMPLES[0][1]

    def example(self, past: int, tokens: int) -> Program | None:
        """Return the program of *tokens* behind a *past*; ``None`` where the topology's sizes cannot be guessed."""
        top = self.topology
        outputs = {value: name for name, value in top.outputs}
        joined = [x for x in top.layers if joins(top, x)]
        named: dict[object, int] = {}
        for layer in joined:
            shape = top.inputs[layer.inputs[0]].shape or ()
            signature = top.declared.get(outputs[layer.outputs[0]])
            total = signature.shape if signature is not None else None
            if len(shape) != 4 or total is None or len(total) != 4:
                return None
            named |= {shape[0]: 1, shape[2]: past}
            named.setdefault(total[2], past + tokens)
        sizes = {
            name: tuple(d if isinstance(d, int) else named.get(d, tokens) for d in s.shape or ())
            for name, s in top.inputs.items()
        }
        try:
            return top.build(sizes)
        except ClgraphError:
            return None

    def confirmed(self, s: Spelled) -> bool:
        """Whether the layers of *s* make of random numbers what the attention makes."""
        shapes = self.shapes
        cut = s.inputs
        if any(name not in shapes for name in cut):
            return False
        random = np.random.default_rng(0)
        feeds: dict[str, Array] = {n: random.standard_normal(shapes[n][0]).astype(shapes[n][1]) for n in cut}
        body = Topology()
        layers, needed = list[Layer](), {s.last.outputs[0]}
        for layer in reversed(self.topology.layers):
            if needed & set(layer.outputs) - set(cut):
                layers.insert(0, layer)
                needed |= set(layer.inputs)
        for name in self.topology.inputs:
            if name in needed and name not in feeds:
                feeds[name] = np.ones(*shapes[name])
        for name in feeds:
            body.input(name, None, None)
        for name, array in self.topology.constants.items():
            if name in needed:
                body.constant(name, array)
        try:
            for x in layers:
                body.add(
                    x.name, x.primitive, *x.inputs, outputs=[n if n not in cut else f"{n}:unused" for n in x.outputs]
                )
            body.output(s.last.outputs[0])
            want = interpret(body, feeds)[s.last.outputs[0]]
            got = s.attention.reference(*(feeds[n] for n in cut))[0]
        except ClgraphError:
            return False
        close = 1e-4 if want.dtype == np.float32 else 2e-2
        return want.shape == got.shape and bool(
            np.allclose(want.astype(np.float32), got.astype(np.float32), close, close)
        )
