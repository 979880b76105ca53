"""Attention that keeps one matrix a head in place of all keys and values: ONNX's and ONNX Runtime's LinearAttention."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import FLOATS, General, accesses, bits, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

OPTIONAL = ("past_state", "decay", "beta")
RULES = ("linear", "gated", "delta", "gated_delta")


@primitive
@frozen
class LinearAttention(Primitive):
    """One token after the other, ``S = exp(decay) S + k u`` with ``u = v``, and ``y = scale q S``.

    By the rules with *delta*, ``u = beta (v - k exp(decay) S)`` (Yang et al. 2024, Gated Delta Networks). S is
    ``[K][V]`` for each text and head of values.

    Inputs: queries ``[batch, tokens, queries * K]``; keys ``[batch, tokens, any * K]``; values ``[batch, tokens,
    values * V]``; of those that are *given*: the first S ``[batch, values, K, V]``, zeros at first; the decay
    ``[batch, tokens, values]`` or ``[batch, tokens, values * K]``, and beta ``[batch, tokens, values]`` or
    ``[batch, tokens, 1]``.
    Outputs: y ``[batch, tokens, max(queries, values) * V]``, the last S. Where heads of one kind are fewer, each serves
    as many neighbours of another.

    Attributes:
        queries, values: Heads.
        scale: 0: ``1 / sqrt(K)``.
        given: Which of ``OPTIONAL`` there are.
    """

    queries: int
    values: int
    rule: str = "gated_delta"
    scale: float = 0.0
    given: tuple[str, ...] = OPTIONAL

    kind: ClassVar[str] = "linear_attention"
    holds_sizes: ClassVar[bool] = False

    @property
    def read(self) -> tuple[str, ...]:
        """Those of ``OPTIONAL`` that the rule reads."""
        wanted = {"past_state": True, "decay": "gated" in self.rule, "beta": "delta" in self.rule}
        return tuple(name for name in self.given if wanted[name])

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        query, key, value, *rest = inputs
        given = dict(zip(self.given, rest, strict=True))
        queries, values = self.queries, self.values
        wrong = self.rule not in RULES or min(queries, values) < 1 or max(queries, values) % min(queries, values)
        if wrong or {x.rank for x in inputs[:3]} != {3} or query.shape[2] % queries or value.shape[2] % values:
            told = f"{[list(x.shape) for x in inputs[:3]]} are no queries, keys and values"
            raise ShapeError(f"{told} of {queries} and {values} heads by the rule {self.rule!r}")
        size, width, (batch, tokens) = query.shape[2] // queries, value.shape[2] // values, query.shape[:2]
        keys = key.shape[2] // max(1, size)
        if {x.shape[:2] for x in (query, key, value)} != {(batch, tokens)} or keys * size != key.shape[2]:
            raise ShapeError(
                f"queries {list(query.shape)}, keys {list(key.shape)} and values {list(value.shape)} differ"
            )
        if keys < 1 or values % keys:
            raise ShapeError(f"{values} heads of values do not share {keys} of keys")
        shape = (batch, values, size, width)
        fits = {
            "past_state": (shape,),
            "decay": ((batch, tokens, values), (batch, tokens, values * size)),
            "beta": ((batch, tokens, values), (batch, tokens, 1)),
        }
        for name, x in given.items():
            if x.shape not in fits[name]:
                wanted = " or ".join(str(list(s)) for s in fits[name])
                raise ShapeError(f"{name} is {list(x.shape)}; it must be {wanted}")
        first = given.get("past_state")
        state = Layout(query.dtype if first is None else first.dtype, shape)
        return query.with_shape((batch, tokens, max(queries, values) * width)), state

    def factor(self, size: int) -> float:
        """Return what queries of *size* features are scaled by."""
        return self.scale or 1 / sqrt(max(1, size))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        exact = np.result_type(inputs[0].dtype, np.float32)
        query, key, value, *rest = (x.astype(exact) for x in inputs)
        given = {name: x for name, x in zip(self.given, rest, strict=True) if name in self.read}
        batch, tokens = query.shape[:2]
        size, width = query.shape[2] // self.queries, value.shape[2] // self.values
        heads = max(self.queries, self.values)
        k = _of_heads(key, key.shape[2] // max(1, size), self.values)
        v, q = _of_heads(value, self.values, self.values), _of_heads(query, self.queries, heads)
        decay, beta = (_of_heads(given[n], self.values, self.values) if n in given else None for n in OPTIONAL[1:])
        state = given.get("past_state", np.zeros((batch, self.values, size, width), exact)).copy()
        y = np.zeros((batch, tokens, heads, width), exact)
        for t in range(tokens):
            if decay is not None:
                state *= np.exp(decay[:, t, :, :, None])
            u = v[:, t, :, None]
            if "delta" in self.rule:
                u = (u - k[:, t, :, None] @ state) * (1 if beta is None else beta[:, t, :, None])
            state += k[:, t, :, :, None] @ u
            y[:, t] = (q[:, t, :, None] @ state.repeat(heads // self.values, 1))[:, :, 0] * self.factor(size)
        first = dict(zip(self.given, inputs[3:], strict=True)).get("past_state", inputs[0])
        return y.reshape(batch, tokens, heads * width).astype(inputs[0].dtype), state.astype(first.dtype)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 7.0 * inputs[0].shape[1] * outputs[1].count


def _of_heads(x: Array, own: int, heads: int) -> Array:
    """Return ``[batch, tokens, own * D]`` as ``[batch, tokens, heads, D]``, and one number for all heads for each."""
    own = min(own, x.shape[2])
    return x.reshape(*x.shape[:2], own, x.shape[2] // own).repeat(heads // own, 2)


@onnx("LinearAttention", since=(27,))
@onnx("LinearAttention", since=(1,), domain=MICROSOFT)
def import_linear_attention(node: OnnxNode) -> Sequence[str]:
    if window := node.attribute("state_window", 0):
        raise node.unsupported(f"state_window={window}, states of several tokens, is not supported")
    query, key, value, *rest = node.inputs
    given = {name: x for name, x in zip(OPTIONAL, rest, strict=False) if x}
    made = LinearAttention(
        node.attribute("q_num_heads", 0),
        node.attribute("kv_num_heads", 0),
        node.attribute("update_rule", "gated_delta"),
        node.attribute("scale", 0.0),
        tuple(given),
    )
    return node.emit(made, query, key, value, *given.values(), outputs=2)


@implements(LinearAttention, name="linear_attention.ref", serves=Serves(dtypes=FLOATS, mixed=True), general=True)
class LinearAttentionRef(General[LinearAttention]):
    """One work-item a column of values, which walks over the tokens."""

    @classmethod
    def plan(cls, q: Query[LinearAttention]) -> Plan:
        p, (y, last) = q.primitive, q.outputs
        slots = {name: 3 + i for i, name in enumerate(p.given) if name in p.read}
        batch, values, size, width = last.shape
        keys = q.own[1].shape[2] // max(1, size)
        tensors = [*q.own[:3], *(q.own[slots.get(name, 0)] for name in OPTIONAL), y, last]
        numbers = [q.own[0].shape[1], size, width, max(p.queries, values), p.queries, keys, values]
        numbers += [
            int("delta" in p.rule),
            *(int(name in slots) for name in OPTIONAL),
            int("decay" in slots and tensors[4].shape[2] > values),
            int("beta" in slots and tensors[5].shape[2] == values),
            bits(p.factor(size)),
        ]
        for x in tensors:
            numbers += [x.origin, *(0,) * (4 - x.rank), *x.all_pitches]
        of_state = accesses(last.dtype, "S")
        jit = Jit().define(**accesses(q.own[0].dtype), **of_state)
        args = ["in0", "in1", "in2", *(f"in{slots.get(name, 0)}" for name in OPTIONAL), "out0", "out1", "scratch0"]
        count = batch * values * width
        run = launch("linear_attention/linear_attention_ref", jit, count, *args, table(numbers))
        return Plan((run,), (last.count * DType.F32.itemsize,))
