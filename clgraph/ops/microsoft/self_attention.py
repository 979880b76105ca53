"""Attention of ONNX Runtime with the product in front that makes queries, keys and values of one tensor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Self

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.attention_heads import split_heads
from clgraph.ops.concat import Concat
from clgraph.ops.keeps_keys import PAST, KeepsKeys, without_past
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.attention import read_scores, refuse_shared_buffers
from clgraph.ops.microsoft.attention_parts import Attending, joined
from clgraph.ops.reshape import Squeeze, Unsqueeze
from clgraph.ops.split import Split


@primitive
@frozen
class SelfAttention(Attending, KeepsKeys):
    """Attention among the tokens of x: queries, keys and values are what one product makes of it.

    Inputs: the product ``[batch, tokens, H + H + E]``, then as *given* says: mask, past keys and values ``[batch,
    heads, tokens, D]``, bias of the scores. Results: y ``[batch, tokens, E]``, present keys, present values.

    Attributes:
        sizes: H, H and E; empty for three equal ones.
    """

    sizes: tuple[int, ...] = ()

    kind: ClassVar[str] = "self_attention"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        q, k, v = self._parts(c)
        own = c.layout(k).shape[2]
        k, v = (joined(c, given.get(name), x) for name, x in zip(PAST, (k, v), strict=True))
        return self.attend(c, q, k, v, given, c.layout(k).shape[2] - own), k, v

    def slots(self) -> Sequence[str]:
        return ("qkv", *self.given)

    def over_caches(
        self, keys_at: int, values_at: int, *, plain: bool = False
    ) -> tuple[Composite, Sequence[str]] | None:
        if "mask" in self.given:
            return None
        given = (*without_past(self.given, bias=not plain), "lengths", "state")
        causal = self.causal or plain
        made = SelfAttentionOverCaches(self.heads, self.scale, causal, self.masked, given, self.sizes)
        return replace(made, keys_at=keys_at, values_at=values_at), ("qkv", *given)

    def alone(self) -> Self:
        return replace(self, given=without_past(self.given))

    @property
    def looks_ahead(self) -> bool:
        return not self.causal

    def _parts(self, c: Composition) -> Iterator[str]:
        """Yield queries, keys and values ``[batch, heads, tokens, D]``."""
        width = c.layout(c.inputs[0]).shape[-1]
        sizes = self.sizes or (width // 3,) * 3
        if len(sizes) != 3 or sum(sizes) != width or sizes[0] != sizes[1]:
            raise ShapeError(f"queries, keys and values of {list(sizes)} do not make up {width} columns")
        return (split_heads(c, x, self.heads) for x in c.add_all(Split(2, sizes), c.inputs[0]))


@primitive
@frozen
class SelfAttentionOverCaches(SelfAttention):
    """:class:`SelfAttention` over caches: inputs as *given* says, lengths and state among them. Result: y.

    Attributes:
        keys_at, values_at: As :class:`CachedAttention` has them.
    """

    keys_at: int = 0
    values_at: int = 0

    kind: ClassVar[str] = "self_attention_over_caches"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        return (self.attend_over_caches(c, self._parts(c), given, self.keys_at, self.values_at),)


@onnx("Attention", since=(1,), domain=MICROSOFT)
def import_attention(node: OnnxNode) -> Sequence[str]:
    refuse_shared_buffers(node)
    x, weights, bias, mask, past, added, count = (*node.inputs, *[""] * 5)[:7]
    if count:
        raise node.unsupported("past_sequence_length, which is for past and present in one memory, is not supported")
    (product,) = node.emit(MatMul(), *filter(None, (x, weights, bias)))
    return emit_self_attention(node, product, tuple(node.attribute("qkv_hidden_sizes", ())), mask, past, added)


def emit_self_attention(
    node: OnnxNode, product: str, sizes: tuple[int, ...], mask: str, past: str, bias: str
) -> tuple[str, ...]:
    """Emit the attention among tokens whose queries, keys and values are the *product*.

    Past and present are keys and values stacked: ``[2, batch, heads, tokens, D]``.
    """
    pasts = node.emit(Split(0, (1, 1)), past, outputs=2) if past else ()
    apart = dict(zip(PAST, (node.emit(Squeeze((0,)), x)[0] for x in pasts), strict=False))
    reads = {name: x for name, x in (("mask", mask), *apart.items(), ("bias", bias)) if x}
    y, *kept = node.emit(SelfAttention(**read_scores(node, reads), sizes=sizes), product, *reads.values(), outputs=3)
    if node.output_count < 2:
        return (y,)
    return y, *node.emit(Concat(0), *(node.emit(Unsqueeze((0,)), x)[0] for x in kept))
