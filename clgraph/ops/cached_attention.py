"""Attention of new tokens over caches of keys and values that stay in memory from one run to the next."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, sqrt
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import FLOATS, General, accesses, bits, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Launch, Plan, Table
from clgraph.selector.query import Query
from clgraph.selector.views import View

QUERIES, KEYS, VALUES, LENGTHS, STATE = range(5)
"""The slots of the inputs that there always are."""

CACHED = FLOATS | {DType.F64, DType.I8, DType.U8}
"""What caches may hold: numbers, integers of 8 bits, or of 4, of which a byte of U8 holds two (:func:`held`)."""

LANES = 16
"""Sums of a product are computed beside each other in the general kernel, at most."""


@primitive
@frozen
class CachedAttention(Primitive):
    """Write keys and values of new tokens into their caches; ``y = softmax(cap(scale q k') + bias) v`` over these.

    Inputs: q ``[batch, heads, tokens, D]``, new keys ``[batch, shared, tokens, D]`` and values ``[batch, shared,
    tokens, E]``; int32 lengths ``[1 + batch]``: the places that a cache has, then for each text the place of its first
    new token; the state, any number of elements, in which the caches lie; then as *reads* says a bias ``[batch, heads,
    tokens, 1]``, each size perhaps 1, that has a float for every place of the caches in memory, and a sink ``[heads]``.
    Result: y ``[batch, heads, tokens, E]``.

    A state of I8 or U8 holds integers of 8 or 4 bits, and new keys and values are such integers, as numbers.

    The lengths are run-time values: one program serves every length and every number of places. A cache of keys is
    ``[batch][shared][places][D]``, and what the state holds in front of it grows with the places, too. A token sees the
    keys from the first of its *window* to its own. Where all are masked, y is 0.

    Attributes:
        keys_at, values_at: Elements of all texts' caches in front of those of keys and of values, for each place and
            text.
        scale: ``None`` for 1 / sqrt(D).
        cap: Products become ``cap * tanh(x / cap)``; 0: they stay.
        causal: Tokens see nothing behind themselves; else all new ones.
        window: How many keys a token sees, itself the last of them; -1: all.
        reads: Names of the inputs behind the state: ``bias``, ``sink``.
    """

    keys_at: int
    values_at: int
    scale: float | None = None
    cap: float = 0.0
    causal: bool = True
    window: int = -1
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "cached_attention"

    @property
    def updates(self) -> frozenset[int]:
        return frozenset({STATE, *(STATE + 1 + i for i, name in enumerate(self.reads) if name == "bias")})

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        q, k, v, lengths, state = inputs[:5]
        given = dict(zip(self.reads, inputs[5:], strict=True))
        if any(x.rank != 4 or x.dtype != q.dtype for x in (q, k, v)) or not q.dtype.floating:
            raise ShapeError(f"attention requires [batch, heads, tokens, D] of one floating type, not {q}, {k} and {v}")
        (batch, heads, tokens, depth), shared = q.shape, k.shape[1]
        if k.shape != (batch, shared, tokens, depth) or v.shape[:3] != k.shape[:3] or not shared or heads % shared:
            raise ShapeError(f"new keys {k} and values {v} do not fit queries {q}")
        if lengths.shape != (1 + batch,) or lengths.dtype != DType.I32 or state.rank != 1 or state.dtype not in CACHED:
            raise ShapeError(f"lengths {lengths} and state {state} are not int32 [{1 + batch}] and floats in a row")
        if state.dtype == DType.U8 and (depth % 2 or v.shape[3] % 2):
            raise ShapeError(f"integers of 4 bits lie two in a byte: heads of {depth} and {v.shape[3]} are not even")
        if "sink" in given and given["sink"].shape != (heads,):
            raise ShapeError(f"a sink {given['sink']} is not one for each of {heads} heads")
        if "bias" in given:
            shape = given["bias"].shape
            if given["bias"].dtype != DType.F32:
                raise ShapeError(f"bias {given['bias']} is not of float32")
            if len(shape) != 4 or any(a not in (1, b) for a, b in zip(shape, (batch, heads, tokens, 1), strict=True)):
                raise ShapeError(f"bias {given['bias']} is not one of {[batch, heads, tokens]} tokens and all places")
        return (q.with_shape((*q.shape[:-1], v.shape[-1])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        """Compute the result; the caches in the fifth input are written to. A bias is ``[..., tokens, places]``."""
        new_keys, new_values, lengths = inputs[1:4]
        exact = np.result_type(inputs[0].dtype, np.float32)
        given = dict(zip(self.reads, inputs[5:], strict=True))
        q, (batch, heads, tokens, depth), shared = inputs[0].astype(exact), inputs[0].shape, new_keys.shape[1]
        keys, values = self.caches(inputs[4], lengths, new_keys.shape, new_values.shape[3])
        y = np.zeros((*q.shape[:3], new_values.shape[3]), exact)
        bias = None
        if "bias" in given:
            bias = np.broadcast_to(given["bias"].astype(exact), (batch, heads, tokens, int(lengths[0])))
        for text, first in enumerate(lengths[1:].tolist()):
            keys[text, :, first : first + tokens] = held(new_keys[text], keys.dtype)
            values[text, :, first : first + tokens] = held(new_values[text], values.dtype)
            total = first + tokens
            seen = (numbers(x[text, :, :total]).astype(exact) for x in (keys, values))
            k, v = (np.repeat(x, heads // shared, axis=0) for x in seen)
            scores = np.matmul(q[text], k.swapaxes(-1, -2)) * exact.type(self.factor(depth))
            if self.cap:
                scores = self.cap * np.tanh(scores / exact.type(self.cap))
            if bias is not None:
                scores = scores + bias[text, ..., :total]
            scores = np.where(self._sees(first, tokens), scores, exact.type(-np.inf))
            sink = given["sink"].astype(exact)[:, None, None] if "sink" in given else exact.type(-np.inf)
            most = np.maximum(scores.max(-1, keepdims=True), sink)
            most = np.where(most == -np.inf, exact.type(0), most)
            weights = np.exp(scores - most)
            whole = weights.sum(-1, keepdims=True) + np.exp(sink - most)
            y[text] = np.matmul(weights / np.where(whole == 0, exact.type(1), whole), v)
        return (y.astype(inputs[0].dtype),)

    def caches(self, state: Array, lengths: Array, keys: Sequence[int], width: int) -> tuple[Array, Array]:
        """Return the caches in the *state* as views ``[batch, shared, places, D]`` and ``[batch, shared, places, E]``.

        Of U8 these have half as many elements in the last axis.

        Args:
            keys: The shape of the new keys; *width*, the last size of the new values.
        """
        places, (batch, shared, _, depth) = int(lengths[0]), keys
        depth, width = (n // in_element(state.dtype) for n in (depth, width))
        starts = ((self.keys_at, depth), (self.values_at, width))
        found = (state[batch * places * at :][: batch * shared * places * n] for at, n in starts)
        one, two = (x.reshape(batch, shared, places, n) for x, n in zip(found, (depth, width), strict=True))
        return one, two

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * inputs[QUERIES].count * inputs[QUERIES].shape[2]

    def factor(self, depth: int) -> float:
        """Return what the products of queries and keys of *depth* elements are multiplied by."""
        return 1 / sqrt(depth) if self.scale is None else self.scale

    def _sees(self, first: int, tokens: int) -> Array:
        place, key = np.arange(first, first + tokens)[:, None], np.arange(first + tokens)
        seen: Array = key <= place if self.causal else np.ones((tokens, first + tokens), np.bool_)
        return seen if self.window < 0 else seen & (key > place - self.window)


def in_element(dtype: np.dtype[Any]) -> int:
    """Return how many numbers an element of a cache of *dtype* holds."""
    return 2 if dtype == np.uint8 else 1


def held(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return new keys or values as a cache of *dtype* holds them.

    Of U8 the first of two integers is in the low half of a byte, the second one in the high half, each 8 larger.
    """
    if in_element(dtype) == 1:
        return x.astype(dtype)
    halves = (x + 8).astype(dtype)
    both: Array = halves[..., ::2] | halves[..., 1::2] << 4
    return both


def numbers(cache: Array) -> Array:
    """Return what :func:`held` is given."""
    if in_element(cache.dtype) == 1:
        return cache
    halves = np.stack([cache & 15, cache >> 4], axis=-1).astype(np.int8) - 8
    return halves.reshape(*cache.shape[:-1], 2 * cache.shape[-1])


def bias_rows(q: Query[CachedAttention]) -> tuple[int, int, int]:
    """Return the rows of the bias, each an element a place, from one text, head, token to the next; zeros: the same."""
    if "bias" not in q.primitive.reads:
        return 0, 0, 0
    batch, heads, tokens, _ = q.own[STATE + 1 + q.primitive.reads.index("bias")].shape
    return (heads * tokens if batch > 1 else 0, tokens if heads > 1 else 0, int(tokens > 1))


def append_launch(q: Query[CachedAttention]) -> Launch:
    """Return the launch that writes new keys and values into their caches: a work-item a row."""
    (batch, shared, tokens, depth), width = q.own[KEYS].shape, q.own[VALUES].shape[3]
    at = [q.primitive.keys_at, q.primitive.values_at]
    rows = table([shared, tokens, depth, width], at, View.of(q.own[KEYS]), View.of(q.own[VALUES]))
    count = batch * shared * tokens if depth or width else 0
    return launch("cached_attention/cached_attention_append", _types(q), count, "in1", "in2", "in3", "in4", rows)


def attend_parts(q: Query[CachedAttention]) -> tuple[Jit, tuple[str, ...], Table]:
    """Return what kernels that read the caches are compiled for, the tensors that they take, and their table."""
    p, queries, (y,) = q.primitive, q.own[QUERIES], q.outputs
    roles = {name: f"in{STATE + 1 + i}" for i, name in enumerate(p.reads)}
    heads, tokens, depth = queries.shape[1:]
    numbers = table(
        [heads, q.own[KEYS].shape[1], tokens, p.keys_at, p.values_at, int(p.causal), p.window],
        [int("bias" in roles), int("sink" in roles), bits(p.factor(depth)), bits(p.cap)],
        [*View.of(queries).ints(), *View.of(y).ints(), *bias_rows(q)],
    )
    tensors = ("in0", "in3", "in4", roles.get("bias", "null"), roles.get("sink", "null"), "out0")
    return _types(q).define(DEPTH=depth, WIDTH=y.shape[3]), tensors, numbers


_HALVES = {
    "CACHE": "uchar",
    "LOAD_CACHE(p, i)": "load_half((p), (i))",
    "STORE_CACHE(p, i, v)": "store_half((p), (i), (v))",
    "IN_CACHE(n)": "((n) / 2)",
}
"""How kernels read and write integers of 4 bits (``cache.clh``)."""


def _types(q: Query[CachedAttention]) -> Jit:
    queries, state = q.own[QUERIES].dtype, q.own[STATE].dtype
    cache = _HALVES if state == DType.U8 else accesses(state, "CACHE") if state != DType.F32 else {}
    elements = accesses(queries) if queries != DType.F32 else {}
    return Jit().define(**elements, **cache)


@implements(
    CachedAttention,
    name="cached_attention.ref",
    serves=Serves(dtypes=FLOATS | {DType.I32, DType.I8, DType.U8}, mixed=True),
    general=True,
)
class CachedAttentionRef(General[CachedAttention]):
    """Two launches: a work-item a new row of a cache, then one a query, which walks over the keys once."""

    @classmethod
    def plan(cls, q: Query[CachedAttention]) -> Plan:
        (batch, heads, tokens, depth), width = q.own[QUERIES].shape, q.outputs[0].shape[3]
        jit, tensors, numbers = attend_parts(q)
        jit, count = jit.define(LANES=gcd(LANES, depth, width)), batch * heads * tokens if width else 0
        attend = launch("cached_attention/cached_attention_ref", jit, count, *tensors, numbers)
        return Plan((append_launch(q), attend))
