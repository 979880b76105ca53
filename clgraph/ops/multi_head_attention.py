"""Attention of several heads with masks and a cache: ONNX's Attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from math import inf, sqrt
from typing import ClassVar, Self

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.attention_heads import as_heads, join_heads, repeated_heads
from clgraph.ops.band_mask import band_mask
from clgraph.ops.cached_attention import CachedAttention
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.keeps_keys import PAST, KeepsKeys
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where

PRODUCTS, CAPPED, MASKED, SHARES = range(4)
"""What the fourth result is: products of queries and keys, within the cap, with the mask, or their softmax."""


@primitive
@frozen
class MultiHeadAttention(KeepsKeys):
    """``softmax(scale q k' + mask) v`` for every head; groups of query heads share one of keys and values.

    Inputs: q, k, v ``[batch, heads, tokens, D]`` or, with *heads* and *shared*, ``[batch, tokens, heads * D]``, then as
    *reads* says: mask (bool: what counts; else added) ``[..., tokens, all tokens]``, past keys and values, which come
    before the present ones, how many keys each batch has, and a sink ``[heads]``, whose exponential is one more term in
    the sum of a softmax. Results: y, present keys and values, products.

    Attributes:
        heads, shared: Heads of the queries, and of keys and values.
        scale: ``None`` for 1 / sqrt(D).
        causal: A token sees those up to itself.
        cap: Products become ``cap * tanh(x / cap)``; 0: they stay.
        gives: What the fourth result is.
        softmax_dtype: Element type that the softmax is computed in; ``None`` for that of q.
        left, right: How many keys before and behind a token's own place it sees; -1: all.
        reads: Names of the inputs from the fourth on.
    """

    heads: int = 0
    shared: int = 0
    scale: float | None = None
    causal: bool = False
    cap: float = 0.0
    gives: int = PRODUCTS
    softmax_dtype: DType | None = None
    left: int = -1
    right: int = -1
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "multi_head_attention"

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.reads, c.inputs[3:], strict=True))
        rank = c.layout(c.inputs[0]).rank
        q, k, v = (as_heads(c, name, n) for name, n in zip(c.inputs, (self.heads, *(self.shared,) * 2), strict=False))
        before = 0
        if ("past_key" in given) != ("past_value" in given):
            raise ShapeError("past_key and past_value must be given together")
        if "past_key" in given:
            before = c.layout(given["past_key"]).shape[2]
            k, v = c.add(Concat(2), given["past_key"], k), c.add(Concat(2), given["past_value"], v)
        present = (k, v)
        (batch, heads, rows, width), keys = c.layout(q).shape, c.layout(k).shape[2]
        if not c.layout(k).shape[1] or heads % c.layout(k).shape[1]:
            raise ShapeError(f"{heads} heads of queries cannot be grouped by {c.layout(k).shape[1]} heads of keys")
        k, v = (repeated_heads(c, x, heads) for x in (k, v))
        scale = 1 / sqrt(width) if self.scale is None else self.scale
        if scale < 0:
            raise ShapeError(f"scale is {scale:g}, whose root is not a number")
        q, turned = (c.add(Activation("linear", sqrt(scale)), x) for x in (q, c.add(Transpose((0, 1, 3, 2)), k)))
        products = c.add(MatMul(), q, turned)
        found = {PRODUCTS: products}
        masks = self._masks(c, given, batch, rows, keys, before)
        if self.cap:
            small = c.add(Activation("linear", 1 / self.cap), products)
            products = c.add(Activation("linear", self.cap), c.add(Activation("tanh"), small))
        found[CAPPED] = products
        mask = reduce(lambda a, b: c.add(Eltwise("add"), a, b), masks) if masks else None
        if mask is not None:
            products = c.add(Eltwise("add"), products, mask)
        found[MASKED] = products
        dtype = c.layout(q).dtype
        wide = self.softmax_dtype not in (None, dtype)
        if "sink" in given:
            column = c.add(Reshape((1, heads, 1, 1), zero_is_zero=True), given["sink"])
            products = c.add(Concat(3), products, c.add(Expand((batch, heads, rows, 1)), column))
        shares = c.add(Softmax((3,)), c.add(Reorder(self.softmax_dtype or dtype), products) if wide else products)
        if "sink" in given:
            shares = c.add(Slice((0,), (keys,), axes=(3,)), shares)
        shares = found[SHARES] = c.add(Reorder(dtype), shares) if wide else shares
        y = c.add(MatMul(), shares, v if c.layout(v).dtype == dtype else c.add(Reorder(dtype), v))
        if mask is not None and (given or self._leaves_none(rows, keys, before)):
            best = c.add(Reduce("max", (-1,)), mask)
            none = c.add(Eltwise("equal"), best, c.constant(np.array(-np.inf, dtype.numpy)))
            zero = c.constant(np.zeros((), dtype.numpy))
            y, found[SHARES] = (c.add(Where(), none, zero, x) for x in (y, shares))
        if rank == 3:
            y = join_heads(c, y)
        return (y, *present, found[self.gives])

    def slots(self) -> Sequence[str]:
        return ("q", "k", "v", *("bias" if name == "mask" else name for name in self.reads))

    def over_caches(
        self, keys_at: int, values_at: int, *, plain: bool = False
    ) -> tuple[Composite, Sequence[str]] | None:
        ahead, behind = self._window()
        if "lengths" in self.reads or ahead > 0:
            return None
        biased, sinks = "mask" in self.reads and not plain, "sink" in self.reads
        reads = ("lengths", "state", *(("bias",) if biased else ()), *(("sink",) if sinks else ()))
        window = -1 if behind < 0 else behind + 1
        scale, causal = self.scale, ahead == 0 or plain
        made = MultiHeadAttentionOverCaches(
            self.heads, self.shared, keys_at, values_at, scale, causal, self.cap, window
        )
        return (replace(made, biased=biased, sinks=sinks), ("q", "k", "v", *reads))

    def alone(self) -> Self:
        return replace(self, reads=tuple(name for name in self.reads if name not in PAST))

    @property
    def looks_ahead(self) -> bool:
        return self._window()[0] != 0

    def _masks(self, c: Composition, given: dict[str, str], batch: int, rows: int, keys: int, before: int) -> list[str]:
        """Return what is added to the products."""
        dtype = c.layout(c.inputs[0]).dtype
        low, zero = (c.constant(np.array(v, dtype.numpy)) for v in (-np.inf, 0))
        added: list[str] = []
        if "mask" in given:
            mask = given["mask"]
            shape, boolean = c.layout(mask).shape, c.layout(mask).dtype == DType.BOOL
            if not boolean and c.layout(mask).dtype != dtype:
                mask = c.add(Reorder(dtype), mask)
            mask = c.add(Where(), mask, zero, low) if boolean else mask
            if shape[-1] < keys:
                pads = ((0, 0),) * (len(shape) - 1)
                mask = c.add(Pad((*pads, (0, keys - shape[-1])), value=float("-inf")), mask)
            added.append(mask)
        ahead, behind = self._window()
        if "lengths" not in given:
            if max(ahead, behind) >= 0:
                reach = {"ahead": ahead if ahead >= 0 else inf, "behind": behind if behind >= 0 else inf}
                added.append(c.constant(band_mask(rows, keys, before, **reach, low=-inf, dtype=dtype)))
            return added
        add, sub, less = Eltwise("add"), Eltwise("sub"), Eltwise("less_equal")
        count = c.add(Reshape((batch, 1, 1, 1), zero_is_zero=True), given["lengths"])
        places = c.constant(np.arange(keys, dtype=np.int64))
        own = c.add(add, count, c.constant(np.arange(rows, dtype=np.int64)[:, None] - rows))
        allowed = [c.add(Eltwise("less"), places, count)]
        if ahead >= 0:
            allowed.append(c.add(less, places, c.add(add, own, c.constant(np.array(ahead, np.int64)))))
        if behind >= 0:
            allowed.append(c.add(less, c.add(sub, own, c.constant(np.array(behind, np.int64))), places))
        return [*added, c.add(Where(), reduce(lambda a, b: c.add(Eltwise("and"), a, b), allowed), zero, low)]

    def _window(self) -> tuple[int, int]:
        """Return how many keys behind and before its own place a token sees, -1 for all."""
        return (0 if self.causal else self.right), self.left

    def _leaves_none(self, rows: int, keys: int, before: int) -> bool:
        ahead, behind = self._window()
        places = np.arange(rows) + before
        first = np.maximum(places - behind, 0) if behind >= 0 else 0
        last = np.minimum(places + ahead, keys - 1) if ahead >= 0 else keys - 1
        return bool(np.any(first > last))


@primitive
@frozen
class MultiHeadAttentionOverCaches(Composite):
    """:class:`MultiHeadAttention` over caches: q, k and v as there, then lengths and state, then as below.

    Attributes:
        heads, shared, scale, causal, cap: As there.
        keys_at, values_at, window: As :class:`CachedAttention` has them.
        biased, sinks: Whether there is a bias, and a sink behind it.
    """

    heads: int
    shared: int
    keys_at: int
    values_at: int
    scale: float | None = None
    causal: bool = False
    cap: float = 0.0
    window: int = -1
    biased: bool = False
    sinks: bool = False

    kind: ClassVar[str] = "multi_head_attention_over_caches"

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def compose(self, c: Composition) -> Sequence[str]:
        rank, counts = c.layout(c.inputs[0]).rank, (self.heads, self.shared, self.shared)
        q, k, v = (as_heads(c, name, n) for name, n in zip(c.inputs[:3], counts, strict=True))
        reads = (*(("bias",) if self.biased else ()), *(("sink",) if self.sinks else ()))
        attention = CachedAttention(self.keys_at, self.values_at, self.scale, self.cap, self.causal, self.window, reads)
        y = c.add(attention, q, k, v, *c.inputs[3:])
        return (y if rank == 4 else join_heads(c, y),)


@onnx("Attention", since=(23, 24, 25))
def import_attention(node: OnnxNode) -> Sequence[str]:
    names = ("mask", "past_key", "past_value", "lengths")
    reads = tuple(n for n, given in zip(names, node.inputs[3:], strict=False) if given)
    gives = node.attribute("qk_matmul_output_mode", 0)
    attention = MultiHeadAttention(
        node.attribute("q_num_heads", 0),
        node.attribute("kv_num_heads", 0),
        node.attribute("scale", None),
        bool(node.attribute("is_causal", 0)),
        node.attribute("softcap", 0.0),
        gives,
        node.attribute("softmax_precision", DType.F32) if node.attribute("softmax_precision", None) else None,
        node.attribute("left_window_size", -1),
        node.attribute("right_window_size", -1),
        reads,
    )
    return node.emit(attention, *filter(None, node.inputs), outputs=4)
