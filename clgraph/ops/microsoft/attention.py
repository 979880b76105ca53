"""Attention of several heads in the form of ONNX Runtime's MultiHeadAttention, and what its attentions are told by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.attention_heads import as_heads
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.keeps_keys import KeepsKeys, without_past
from clgraph.ops.microsoft.attention_parts import Attending, joined
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split


@primitive
@frozen
class CrossAttention(Attending, KeepsKeys):
    """Attention of queries ``[batch, tokens, H]`` to keys and values.

    The other inputs as *given* says: key ``[batch, tokens, H]`` and value ``[batch, tokens, E]``, or both ``[batch,
    heads, tokens, D]``; all three packed in the queries ``[batch, tokens, heads, 3, D]``, or key and value in the key
    ``[batch, tokens, heads, 2, D]``; ``added``, a bias ``[H + H + E]`` of all three; mask; bias of the scores; past
    keys and values ``[batch, heads, tokens, D]``. Results: y ``[batch, tokens, E]``, present keys, present values.
    """

    kind: ClassVar[str] = "cross_attention"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        q, k, v = self.split_parts(c, given)
        if ("past_key" in given) != ("past_value" in given):
            raise ShapeError("past_key and past_value must be given together")
        own = c.layout(k).shape[2]
        k, v = joined(c, given.get("past_key"), k), joined(c, given.get("past_value"), v)
        return self.attend(c, q, k, v, given, c.layout(k).shape[2] - own), k, v

    def slots(self) -> Sequence[str]:
        return ("q", *self.given)

    def over_caches(
        self, keys_at: int, values_at: int, *, plain: bool = False
    ) -> tuple[Composite, Sequence[str]] | None:
        if "mask" in self.given:
            return None
        given = (*without_past(self.given, bias=not plain), "lengths", "state")
        causal = self.causal or plain
        made = CrossAttentionOverCaches(self.heads, self.scale, causal, self.masked, given, keys_at, values_at)
        return made, ("q", *given)

    def alone(self) -> Self:
        return replace(self, given=without_past(self.given))

    @property
    def looks_ahead(self) -> bool:
        return not self.causal

    def split_parts(self, c: Composition, given: dict[str, str]) -> list[str]:
        """Return queries, keys and values ``[batch, heads, tokens, D]``."""
        parts = self._parts(c, c.inputs[0], given)
        if "added" in given:
            parts = self._with_bias(c, parts, given["added"])
        return [as_heads(c, x, self.heads) for x in parts]

    def _parts(self, c: Composition, query: str, given: dict[str, str]) -> list[str]:
        """Return queries, keys and values, each ``[batch, tokens, H]`` or ``[batch, heads, tokens, D]``."""
        if "key" not in given:
            return self._unpacked(c, query, 3)
        if "value" not in given:
            return [query, *self._unpacked(c, given["key"], 2)]
        return [query, given["key"], given["value"]]

    def _unpacked(self, c: Composition, packed: str, count: int) -> list[str]:
        shape = c.layout(packed).shape
        if len(shape) != 5 or shape[2:4] != (self.heads, count):
            raise ShapeError(f"{list(shape)} cannot be divided into {count} times {self.heads} heads")
        parts = c.add_all(Split(3, (1,) * count), packed)
        return [c.add(Reshape((*shape[:2], shape[2] * shape[4]), zero_is_zero=True), x) for x in parts]

    def _with_bias(self, c: Composition, parts: Sequence[str], bias: str) -> list[str]:
        """Return the parts with theirs of the bias; keys and values that have heads are as they should be."""
        found, start = [], 0
        for x in parts:
            shape = c.layout(x).shape
            width = shape[2] if len(shape) == 3 else shape[1] * shape[3]
            piece = c.add(Slice((start,), (start + width,)), bias)
            found.append(c.add(Eltwise("add"), x, piece) if len(shape) == 3 else x)
            start += width
        if c.layout(bias).shape != (start,):
            raise ShapeError(f"a bias {list(c.layout(bias).shape)} is not one for each of {start} columns")
        return found


@primitive
@frozen
class CrossAttentionOverCaches(CrossAttention):
    """:class:`CrossAttention` over caches: inputs as *given* says, lengths and state among them. Result: y.

    Attributes:
        keys_at, values_at: As :class:`CachedAttention` has them.
    """

    keys_at: int = 0
    values_at: int = 0

    kind: ClassVar[str] = "cross_attention_over_caches"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        return (self.attend_over_caches(c, self.split_parts(c, given), given, self.keys_at, self.values_at),)


def read_scores(node: OnnxNode, given: Iterable[str]) -> dict[str, Any]:
    """Return the fields of :class:`Attending` that a node's attributes say."""
    return {
        "heads": node.attribute("num_heads", 0),
        "scale": node.attribute("scale", 0.0),
        "causal": bool(node.attribute("unidirectional", 0)),
        "masked": node.attribute("mask_filter_value", -10000.0),
        "given": tuple(given),
    }


def refuse_shared_buffers(node: OnnxNode) -> None:
    """Raise ``UnsupportedError`` where present keys are to be written into the memory of the past ones, or turned."""
    if node.attribute("past_present_share_buffer", 0):
        raise node.unsupported(
            "past_present_share_buffer=1, past and present in one memory, is not supported: export it 0"
        )
    if node.attribute("do_rotary", 0):
        raise node.unsupported("do_rotary=1 is not supported: export RotaryEmbedding as a separate node")


@onnx("MultiHeadAttention", since=(1,), domain=MICROSOFT)
def import_multi_head_attention(node: OnnxNode) -> Sequence[str]:
    names = ("key", "value", "added", "mask", "bias", "past_key", "past_value", "past_sequence_length", "beams")
    reads = {name: x for name, x in zip(names, node.inputs[1:], strict=False) if x}
    if odd := [name for name in names[-2:] if name in reads]:
        raise node.unsupported(f"input {names.index(odd[0]) + 1}, for past and present in one memory, is not supported")
    attention = CrossAttention(**read_scores(node, reads))
    return node.emit(attention, node.inputs[0], *reads.values(), outputs=3)
