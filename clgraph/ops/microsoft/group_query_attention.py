"""Attention of groups of query heads that share keys and values, with a cache: ONNX Runtime's GroupQueryAttention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from math import inf, sqrt
from typing import ClassVar, Self

import numpy as np

from clgraph.core.dtype import DType, largest
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.graph.attributes import known_ints
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.attention_heads import join_heads, repeated_heads, split_heads
from clgraph.ops.band_mask import band_mask
from clgraph.ops.cached_attention import CachedAttention
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.keeps_keys import PAST, KeepsKeys, without_past
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.cache_integers import CACHE_TYPES, read, rounded, scale_of, scaled, stored
from clgraph.ops.microsoft.cache_places import cached, first_of, places_from, seen
from clgraph.ops.pad import Pad
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.rotary_embedding import RotaryEmbedding
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.where import Where


@primitive
@frozen
class GroupQueryAttention(KeepsKeys):
    """Attention of new tokens to those of a cache and to one another; the cache with the new ones behind its own.

    Inputs: queries ``[batch, tokens, heads * D]``, perhaps with keys and values behind them in the last axis; last
    place ``[batch]`` that each text has then; the greatest of their lengths, which must be known; then as *given* says
    key and value ``[batch, tokens, shared * D]``, past keys and values ``[batch, shared, places, D]``, tables of
    cos and sin, places of the tokens ``[batch, tokens]``, bias of the scores, sink ``[heads]``, scales of the keys and
    values. Results: y, keys and values ``[batch, shared, max(places, greatest length), D]``.

    Where the new tokens are a whole text, they are its first ones, and what is behind a shorter text means nothing.
    Each token has the place that it is given; ONNX Runtime takes the first of a whole text and counts on from there.

    Attributes:
        heads, shared: Heads of the queries, and of keys and values.
        scale: 0 for 1 / sqrt(D).
        cap: Products become ``cap * tanh(x / cap)``; 0: they stay.
        causal: A token sees those up to itself.
        window: How many keys a token sees, itself the last of them; -1: all.
        rotates, interleaved: Whether queries and keys are turned by their places, and how pairs lie.
        sinks: Shares have one more in their sum: the exponential of the sink, 1 where none is given.
        slides: Past and present hold the latest tokens alone, as many as the exporter's runtime has chosen. Such are
            no inputs here: what holds all tokens is.
        norms: The epsilons of queries' and keys' normalisation, whose weights are then given.
        bits: Of the integers that keys and values are rounded to before anything reads them, 8 or 4, in steps of their
            scales, one or one for each element of a head: pasts and presents are such integers then, as
            :data:`CACHE_TYPES` holds them. 0: they are numbers.
        given: Names of the inputs from the fourth on.
    """

    heads: int
    shared: int
    scale: float = 0.0
    cap: float = 0.0
    causal: bool = True
    window: int = -1
    rotates: bool = False
    interleaved: bool = False
    sinks: bool = False
    slides: bool = False
    norms: tuple[float, float] = (0.0, 0.0)
    bits: int = 0
    given: tuple[str, ...] = ()

    kind: ClassVar[str] = "group_query_attention"

    def value_slots(self) -> tuple[int, ...]:
        return (2,)

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[3:], strict=True))
        q, k, v = self._heads(c, given)
        if self.shared < 1 or self.heads % self.shared:
            raise ShapeError(f"{self.heads} heads of queries cannot be grouped by {self.shared} heads of keys")
        if self.slides and "past_key" in given and c.layout(given["past_key"]).shape[2]:
            raise UnsupportedError(
                "sliding_window_cache=1: a past of only the latest tokens is not supported; a session keeps all"
            )
        (batch, _, rows, width), (total,) = c.layout(q).shape, known_ints(c.values, 2, "total_sequence_length")
        known = 0 if rows == total else total - rows if batch == 1 else None
        last = c.add(Reorder(DType.I64), c.inputs[1])
        first = first_of(c, last, batch, rows, whole=rows == total)
        if self.rotates:
            places = given.get("places") or places_from(c, first, rows)
            rotary = RotaryEmbedding(0, 2 * c.layout(given["cos"]).shape[1], self.interleaved)
            q, k = (c.add(rotary, x, given["cos"], given["sin"], places) for x in (q, k))
        scales = self._scales(c, given, k)
        if self.bits:
            k, v = (
                stored(c, rounded(c, x, scale, self.bits), self.bits) for x, scale in zip((k, v), scales, strict=True)
            )
        k, v = (
            cached(c, past, x, first, last, total)
            for past, x in ((given.get("past_key"), k), (given.get("past_value"), v))
        )
        seen_keys, seen_values, dtype = k, v, c.layout(q).dtype
        if self.bits:
            q = scaled(c, q, scales[0], self.heads)
            seen_keys, seen_values = (read(c, x, self.bits, dtype) for x in (k, v))
        keys = c.layout(k).shape[2]
        product = c.add(MatMul(transpose_b=True), q, repeated_heads(c, seen_keys, self.heads))
        scores = c.add(Activation("linear", self.scale or 1 / sqrt(width)), product)
        if self.cap:
            small = c.add(Activation("tanh"), c.add(Activation("linear", 1 / self.cap), scores))
            scores = c.add(Activation("linear", self.cap), small)
        if "bias" in given:
            bias = given["bias"]
            beyond = keys - c.layout(bias).shape[-1]
            bias = c.add(Pad(((0, 0), (0, 0), (0, 0), (0, beyond))), bias) if beyond > 0 else bias
            scores = c.add(Eltwise("add"), scores, bias)
        low = -largest(dtype.numpy)
        if self.causal and known is not None:
            # The first token sees the fewest keys behind its own, the last one the fewest before.
            whole = self._sees(np.array([known, known + rows - 1]), np.array([keys - 1, 0])).all()
            behind = self.window - 1 if self.window >= 0 else inf
            band = band_mask(rows, keys, known, ahead=0, behind=behind, low=low, dtype=dtype)
            hidden = None if whole else c.constant(band)
        else:
            values = (c.constant(np.array(x, dtype.numpy)) for x in (0, low))
            hidden = c.add(Where(), seen(c, first, last, rows, keys, self.window if self.causal else None), *values)
        scores = scores if hidden is None else c.add(Eltwise("add"), scores, hidden)
        y = c.add(MatMul(), self._shares(c, scores, given), repeated_heads(c, seen_values, self.heads))
        y = scaled(c, y, scales[1], self.heads) if self.bits else y
        return join_heads(c, y), k, v

    def slots(self) -> Sequence[str]:
        return ("q", "told", "told", *self.given)

    def over_caches(
        self, keys_at: int, values_at: int, *, plain: bool = False
    ) -> tuple[Composite, Sequence[str]] | None:
        given = without_past(self.given, bias=not plain)
        own = ("places",) if self.rotates and "places" not in given else ()
        given = (*given, "lengths", "state", *own)
        mine = {f.name: getattr(self, f.name) for f in fields(self)} | {"given": given}
        mine["causal"] = self.causal or plain
        return GroupQueryAttentionOverCaches(**mine, keys_at=keys_at, values_at=values_at), ("q", *given)

    def first_places(self, told: Sequence[Array], batch: int, past: int, tokens: int) -> Array:
        last, total = told
        if last.shape != (batch,):
            raise ShapeError(f"seqlens_k {list(last.shape)} is not one length for each of {batch} sequences")
        whole = int(total.reshape(-1)[0]) == tokens
        return np.zeros(batch, np.int64) if whole else last.astype(np.int64) - (tokens - 1)

    def alone(self) -> Self:
        return replace(self, given=without_past(self.given))

    @property
    def looks_ahead(self) -> bool:
        return not self.causal

    def _heads(self, c: Composition, given: dict[str, str]) -> list[str]:
        """Return queries, keys and values ``[batch, heads, tokens, D]``."""
        parts = [c.inputs[0]]
        if "key" in given:
            parts += [given["key"], given["value"]]
        else:
            width = c.layout(c.inputs[0]).shape[-1] // (self.heads + 2 * self.shared)
            sizes = tuple(n * width for n in (self.heads, self.shared, self.shared))
            parts = list(c.add_all(Split(2, sizes), *parts))
        counts = (self.heads, self.shared, self.shared)
        parts = [split_heads(c, x, n) for x, n in zip(parts, counts, strict=True)]
        for i, (name, epsilon) in enumerate(zip(("q_norm", "k_norm"), self.norms, strict=False)):
            if name in given:
                parts[i] = c.add(LayerNormalization(-1, epsilon, centred=False), parts[i], given[name])
        return parts

    def _scales(self, c: Composition, given: dict[str, str], keys: str) -> list[str]:
        """Return the scales of *keys* and of values, none where they are numbers; check what the pasts hold."""
        for name in PAST if self.bits else ():
            if name in given and c.layout(given[name]).dtype != CACHE_TYPES[self.bits]:
                wanted = f"a past of integers of {self.bits} bits is {CACHE_TYPES[self.bits]}"
                raise ShapeError(f"{wanted}, not {c.layout(given[name])}")
        _, shared, _, width = c.layout(keys).shape
        names = ("k_scale", "v_scale") if self.bits else ()
        return [scale_of(c, given[name], shared, width) for name in names]

    def _sees(self, place: Array, key: Array) -> Array:
        """Return which keys a token at each place sees."""
        seen: Array = key <= place
        return seen if self.window < 0 else seen & (key > place - self.window)

    def _shares(self, c: Composition, scores: str, given: dict[str, str]) -> str:
        """Return the softmax of the scores, with the sinks in its sum."""
        if not self.sinks:
            return c.add(Softmax((3,)), scores)
        batch, heads, rows, keys = c.layout(scores).shape
        sink = given.get("sink") or c.constant(np.zeros(heads, c.layout(scores).dtype.numpy))
        column = c.add(Expand((batch, heads, rows, 1)), c.add(Reshape((1, heads, 1, 1)), sink))
        shares = c.add(Softmax((3,)), c.add(Concat(3), scores, column))
        return c.add(Slice((0,), (keys,), axes=(3,)), shares)


@primitive
@frozen
class GroupQueryAttentionOverCaches(GroupQueryAttention):
    """:class:`GroupQueryAttention` over caches: queries, then inputs as *given* says, lengths and state among them.

    Attributes:
        keys_at, values_at: As :class:`CachedAttention` has them.
    """

    keys_at: int = 0
    values_at: int = 0

    kind: ClassVar[str] = "group_query_attention_over_caches"

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        q, k, v = self._heads(c, given)
        if self.rotates:
            rotary = RotaryEmbedding(0, 2 * c.layout(given["cos"]).shape[1], self.interleaved)
            q, k = (c.add(rotary, x, given["cos"], given["sin"], given["places"]) for x in (q, k))
        if self.sinks and "sink" not in given:
            given["sink"] = c.constant(np.zeros(self.heads, c.layout(q).dtype.numpy))
        scales = self._scales(c, given, k)
        if self.bits:
            dtype = c.layout(q).dtype
            k, v = (rounded(c, x, scale, self.bits) for x, scale in zip((k, v), scales, strict=True))
            k, v = (x if dtype == DType.F32 else c.add(Reorder(dtype), x) for x in (k, v))
            q = scaled(c, q, scales[0], self.heads)
        reads = tuple(name for name in ("bias", "sink") if name in given)
        attention = CachedAttention(
            self.keys_at, self.values_at, self.scale or None, self.cap, self.causal, self.window, reads
        )
        y = c.add(attention, q, k, v, given["lengths"], given["state"], *(given[name] for name in reads))
        y = scaled(c, y, scales[1], self.heads) if self.bits else y
        return (join_heads(c, y),)


_NAMES = (
    "key",
    "value",
    "past_key",
    "past_value",
    "",
    "",
    "cos",
    "sin",
    "places",
    "bias",
    "sink",
    "k_scale",
    "v_scale",
)
"""What the inputs from the second on are called in ``given``; those without a name are read apart, or refused."""

_SCALES = ("k_scale", "v_scale")

_NORMS = ("q_norm", "k_norm")
"""The two behind them: the weights that each head of queries and keys is normalised with, in front of its turning."""


@onnx("GroupQueryAttention", since=(1,), domain=MICROSOFT)
def import_group_query_attention(node: OnnxNode) -> Sequence[str]:
    if any(node.inputs[16:17]):
        raise node.unsupported("the input query_seqlens is not supported")
    if node.attribute("qk_output", 0):
        raise node.unsupported(f"qk_output={node.attribute('qk_output', 0)} is not supported, only 0")
    reads = {name: x for name, x in zip((*_NAMES, *_NORMS), node.inputs[1:], strict=False) if x and name}
    if (_NORMS[0] in reads) != (_NORMS[1] in reads):
        raise node.unsupported("q_norm_weight and k_norm_weight must be given together")
    bits = _bits(node, reads)
    epsilon = node.attribute("qk_norm_epsilon", 1e-6)
    attention = GroupQueryAttention(
        node.attribute("num_heads", 0),
        node.attribute("kv_num_heads", 0),
        node.attribute("scale", 0.0),
        node.attribute("softcap", 0.0),
        bool(node.attribute("causal", 1)),
        node.attribute("local_window_size", -1),
        bool(node.attribute("do_rotary", 0)),
        bool(node.attribute("rotary_interleaved", 0)),
        node.attribute("smooth_softmax", -1) > 0 or "sink" in reads,
        bool(node.attribute("sliding_window_cache", 0)),
        (node.attribute("q_norm_epsilon", epsilon), node.attribute("k_norm_epsilon", epsilon)),
        bits,
        tuple(reads),
    )
    return node.emit(attention, node.inputs[0], *node.inputs[5:7], *reads.values(), outputs=3)


def _bits(node: OnnxNode, reads: Mapping[str, str]) -> int:
    """Return the bits of the caches' integers; 0 where caches hold numbers."""
    kinds = [node.attribute(f"{x}_quant_type", "NONE") for x in "kv"]
    bits: int = node.attribute("kv_cache_bit_width", 0)
    scales = [name for name in _SCALES if name in reads]
    if kinds == ["NONE", "NONE"]:
        if bits or scales:
            told = scales[0] if scales else f"kv_cache_bit_width={bits}"
            raise node.unsupported(f"{told} is for caches of integers, and k_quant_type and v_quant_type are NONE")
        return 0
    if odd := [kind for kind in kinds if kind not in ("PER_TENSOR", "PER_CHANNEL")]:
        raise node.unsupported(
            f"k_quant_type={kinds[0]} with v_quant_type={kinds[1]} is not supported, for {odd[0]}; "
            "PER_TENSOR and PER_CHANNEL are"
        )
    if bits not in CACHE_TYPES:
        raise node.unsupported(f"kv_cache_bit_width={bits} is not supported for caches of integers, only 8 and 4")
    if len(scales) < len(_SCALES):
        raise node.unsupported("caches of integers want k_scale and v_scale")
    return bits
