"""The heads of attentions as an axis: split from the features, joined again, and repeated for groups of queries."""

from __future__ import annotations

from clgraph.errors import ShapeError
from clgraph.graph.composite import Composition
from clgraph.ops.expand import Expand
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose


def as_heads(c: Composition, x: str, heads: int) -> str:
    """Return x with an axis of heads: x itself where it has four axes, else as :func:`split_heads`."""
    return x if c.layout(x).rank == 4 else split_heads(c, x, heads)


def split_heads(c: Composition, x: str, heads: int) -> str:
    """Return x ``[batch, tokens, heads * D]`` as ``[batch, heads, tokens, D]``."""
    shape = c.layout(x).shape
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise ShapeError(f"{list(shape)} does not have {heads} heads")
    split = c.add(Reshape((*shape[:2], heads, shape[2] // heads), zero_is_zero=True), x)
    return c.add(Transpose((0, 2, 1, 3)), split)


def join_heads(c: Composition, x: str) -> str:
    """Return x ``[batch, heads, tokens, D]`` as ``[batch, tokens, heads * D]``."""
    batch, heads, tokens, width = c.layout(x).shape
    turned = c.add(Transpose((0, 2, 1, 3)), x)
    return c.add(Reshape((batch, tokens, heads * width), zero_is_zero=True), turned)


def repeated_heads(c: Composition, x: str, heads: int) -> str:
    """Return keys or values ``[batch, shared, tokens, D]`` with one head for each of the queries' *heads*."""
    batch, own, tokens, width = c.layout(x).shape
    if own == heads:
        return x
    x = c.add(Reshape((batch, own, 1, tokens, width), zero_is_zero=True), x)
    x = c.add(Expand((batch, own, heads // own, tokens, width)), x)
    return c.add(Reshape((batch, heads, tokens, width), zero_is_zero=True), x)
