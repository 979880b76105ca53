"""An attention that a model spells out, and the layers that take its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.model.state.scores import Scores, apart_by_heads, chain, joined_heads
from clgraph.ops.multi_head_attention import MultiHeadAttention
from clgraph.ops.reshape import Reshape


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
