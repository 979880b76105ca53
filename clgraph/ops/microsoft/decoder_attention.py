"""Attention of one token over a cache of fixed size: ONNX Runtime's DecoderMaskedMultiHeadAttention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expand import Expand
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.microsoft.attention import CrossAttention, read_scores
from clgraph.ops.microsoft.attention_parts import Attending
from clgraph.ops.pad import Pad
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.tensor_scatter import TensorScatter
from clgraph.ops.where import Where

_INPUTS = ("key", "value", "mask", "bias", "past_key", "past_value", "past", "beams", "from", "added")


@primitive
@frozen
class BufferAttention(Attending):
    """Attention of a token to those that a buffer holds before it, which it is written into, and to itself.

    Inputs: query ``[batch, 1, H]``; the others as *given* says: key and value like :class:`CrossAttention`'s, mask
    ``[batch, keys]``, bias of the scores ``[..., 1, keys]``, buffers of keys and values ``[batch, heads, most, D]``,
    how many of them are held ``[1]``, from which beam each comes ``[batch / beams, beams, most]``, a bias of queries,
    keys and values. Results: y, and the buffers.
    """

    kind: ClassVar[str] = "buffer_attention"

    def compose(self, c: Composition) -> Sequence[str]:
        given = dict(zip(self.given, c.inputs[1:], strict=True))
        q, k, v = CrossAttention(self.heads, given=self.given).split_parts(c, given)
        batch, _, most, _ = c.layout(given["past_key"]).shape
        held = c.add(Reorder(DType.I64), given["past"])
        places = c.add(Expand((batch,)), c.add(Reshape((1,)), held))
        names = ("past_key", "past_value")
        made = [c.add(TensorScatter(2), given[name], x, places) for name, x in zip(names, (k, v), strict=True)]
        k, v = made
        if "from" in given:
            k, v = (self._of_beams(c, x, given["from"], places, most) for x in made)
        seen = c.add(Eltwise("less_equal"), c.constant(np.arange(most)), c.add(Reshape((1,)), held))
        dtype = c.layout(q).dtype.numpy
        bias = c.add(Where(), seen, *(c.constant(np.array(x, dtype)) for x in (0, -np.inf)))
        if "bias" in given:
            bias = c.add(Eltwise("add"), bias, self._padded(c, given["bias"], most, 0.0))
        parts = {"bias": bias}
        if "mask" in given:
            parts["mask"] = self._padded(c, given["mask"], most, 1)
        return (self.attend(c, q, k, v, parts, 0), *made)

    def _padded(self, c: Composition, x: str, most: int, value: float) -> str:
        shape = c.layout(x).shape
        if shape[-1] > most:
            raise ShapeError(f"{list(shape)} covers more keys than the buffer of {most} holds")
        return c.add(Pad(((0, 0),) * (len(shape) - 1) + ((0, most - shape[-1]),), value=value), x)

    def _of_beams(self, c: Composition, x: str, beams: str, places: str, most: int) -> str:
        """Return keys or values as each beam sees them: those of the beams it descends from, then its own last one."""
        texts, count, _ = c.layout(beams).shape
        shape = c.layout(x).shape
        own = c.constant(np.arange(count, dtype=np.int64)[:, None])
        last = c.add(Eltwise("equal"), c.constant(np.arange(most)), c.add(Reshape((texts, count, 1)), places))
        which = c.add(Where(), last, own, c.add(Reorder(DType.I64), beams))
        which = c.add(Reshape((texts, count, 1, most, 1), zero_is_zero=True), which)
        which = c.add(Expand((texts, count, shape[1], most, shape[3])), which)
        split = c.add(Reshape((texts, count, *shape[1:]), zero_is_zero=True), x)
        return c.add(Reshape(shape, zero_is_zero=True), c.add(GatherElements(1), split, which))


@onnx("DecoderMaskedMultiHeadAttention", since=(1,), domain=MICROSOFT)
def import_decoder_attention(node: OnnxNode) -> Sequence[str]:
    if node.output_count > 3:
        raise node.unsupported("output 3, the products of queries and keys, is not supported")
    reads = {name: x for name, x in zip(_INPUTS, node.inputs[1:], strict=False) if x}
    if node.attribute("past_present_share_buffer", 0) and "past_key" in reads:
        if "past" not in reads:
            raise node.unsupported("past_present_share_buffer=1 needs input 7, the number of keys in the buffers")
        if "from" not in reads:
            reads.pop("beams", None)
        attention = BufferAttention(**read_scores(node, reads))
        return node.emit(attention, node.inputs[0], *reads.values(), outputs=3)
    for name in ("past", "beams", "from"):
        reads.pop(name, None)
    return node.emit(CrossAttention(**read_scores(node, reads)), node.inputs[0], *reads.values(), outputs=3)
