"""What ONNX Runtime's attentions share: heads, masks, and the mixture of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from math import sqrt
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType, largest
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.attention_heads import join_heads
from clgraph.ops.band_mask import band_mask
from clgraph.ops.cached_attention import CachedAttention
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.where import Where


@frozen
class Attending(Composite):
    """Base of attentions: how products of queries and keys become shares.

    Attributes:
        heads: Of the queries.
        scale: 0 for 1 / sqrt(D).
        causal: A token sees those up to itself; the last one sees all, which may be more where keys are others.
        masked: What is added to the products of what is masked.
        given: Names of the inputs from the second on.
    """

    heads: int
    scale: float = 0.0
    causal: bool = False
    masked: float = -10000.0
    given: tuple[str, ...] = ()

    def attend(self, c: Composition, q: str, k: str, v: str, given: Mapping[str, str], past: int) -> str:
        """Return the mixtures of values ``[batch, tokens, heads * E]``.

        Args:
            q, k, v: ``[batch, heads, tokens, D]``.
            given: ``mask`` in a form of :func:`padding_mask`, ``bias`` of the products, if there are.
            past: How many keys are in front of that of the first token.
        """
        (batch, _, rows, width), keys = c.layout(q).shape, c.layout(k).shape[2]
        product = c.add(MatMul(transpose_b=True), q, k)
        scores = c.add(Activation("linear", self.scale or 1 / sqrt(width)), product)
        added = [given["bias"]] if "bias" in given else []
        if "mask" in given:
            added.append(padding_mask(c, given["mask"], (batch, rows, keys), self.masked, c.layout(q).dtype))
        if self.causal:
            dtype = c.layout(q).dtype
            mask = band_mask(rows, keys, past, ahead=0, low=-largest(dtype.numpy), dtype=dtype)
            if keys > rows + past:
                mask = mask.copy()
                mask[-1:] = 0
            added.append(c.constant(mask))
        if added:
            scores = c.add(Eltwise("add"), scores, reduce(lambda a, b: c.add(Eltwise("add"), a, b), added))
        return join_heads(c, c.add(MatMul(), c.add(Softmax((3,)), scores), v))

    def attend_over_caches(
        self, c: Composition, parts: Iterable[str], given: Mapping[str, str], keys_at: int, values_at: int
    ) -> str:
        """Return the mixtures of the values in caches ``[batch, tokens, heads * E]``.

        Args:
            parts: Queries, keys and values ``[batch, heads, tokens, D]``.
            given: ``lengths``, ``state``, and the ``bias`` of the products, if there is one.
            keys_at, values_at: As :class:`CachedAttention` has them.
        """
        reads = ("bias",) if "bias" in given else ()
        attention = CachedAttention(keys_at, values_at, self.scale or None, causal=self.causal, reads=reads)
        return join_heads(c, c.add(attention, *parts, *(given[name] for name in ("lengths", "state", *reads))))


@primitive
@frozen
class PaddingBias(Composite):
    """What a mask ``[batch, keys]`` or ``[batch, rows, keys]`` adds to scores, and a second input, if there is one.

    Attributes:
        masked: What is added where the mask is 0.
        dtype: Of the result ``[batch, 1, rows or 1, keys]``, or as the second input broadcasts it.
    """

    masked: float
    dtype: DType

    kind: ClassVar[str] = "padding_bias"

    def compose(self, c: Composition) -> Sequence[str]:
        mask, *bias = c.inputs
        shape = c.layout(mask).shape
        sizes = (shape[0], shape[1] if len(shape) > 2 else 1, shape[-1])
        made = padding_mask(c, mask, sizes, self.masked, self.dtype)
        return (c.add(Eltwise("add"), made, bias[0]) if bias else made,)


def joined(c: Composition, past: str | None, x: str) -> str:
    """Return what is *past* with x behind it: keys or values ``[batch, heads, tokens, D]``."""
    return x if past is None else c.add(Concat(2), past, x)


def padding_mask(c: Composition, mask: str, sizes: tuple[int, int, int], masked: float, dtype: DType) -> str:
    """Return 0 for what counts and *masked* for what does not, broadcasting to ``[batch, heads, rows, keys]``.

    Args:
        mask: 1 for what counts and 0 for what does not, ``[batch, keys]``, ``[batch, rows, keys]`` or ``[batch, 1,
            most, most]``, of which the last *rows* of *keys* are meant; or how many keys count ``[batch]``, then
            perhaps from which on ``[2 * batch]``, or more that says the same ``[3 * batch + 2]``.
        sizes: batch, rows and keys.
        dtype: Of what is returned.
    """
    batch, rows, keys = sizes
    shape = c.layout(mask).shape
    forms = {(batch, keys): (batch, 1, 1, keys), (batch, rows, keys): (batch, 1, rows, keys)}
    if len(shape) == 4 and shape[:2] == (batch, 1) and min(shape[2:]) >= keys:
        window = Slice((keys - rows, 0), (keys, keys), axes=(2, 3))
        seen = _positive(c, c.add(window, mask))
    elif shape in forms:
        seen = c.add(Reshape(forms[shape], zero_is_zero=True), _positive(c, mask))
    elif shape in ((batch,), (2 * batch,), (3 * batch + 2,)):
        places = c.constant(np.arange(keys, dtype=c.layout(mask).dtype.numpy))
        parts = [
            c.add(Reshape((batch, 1, 1, 1), zero_is_zero=True), c.add(Slice((i * batch,), ((i + 1) * batch,)), mask))
            for i in range(2 if shape == (2 * batch,) else 1)
        ]
        seen = c.add(Eltwise("less"), places, parts[0])
        if len(parts) > 1:
            seen = c.add(Eltwise("and"), seen, c.add(Eltwise("less_equal"), parts[1], places))
    else:
        raise ShapeError(f"a mask {list(shape)} fits no batch of {batch} with {rows} tokens and {keys} keys")
    low = max(masked, -largest(dtype.numpy))
    return c.add(Where(), seen, *(c.constant(np.array(v, dtype.numpy)) for v in (0, low)))


def _positive(c: Composition, mask: str) -> str:
    return c.add(Eltwise("greater"), mask, c.constant(np.zeros((), c.layout(mask).dtype.numpy)))
