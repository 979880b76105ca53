"""The patterns of layer normalisation, and of that by the root of the mean square alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from clgraph.graph.node import Node, Value
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.reduce import Reduce
from clgraph.passes.patterns.patterns import Match, linear_source, polynomial


def layer_normalization(node: Node) -> Match | None:
    """``(x - mean) / sqrt(mean((x - mean) ** 2) + epsilon)``, then ``* scale`` and ``+ bias`` where they follow.

    Without the mean ``x / sqrt(mean(x ** 2) + epsilon)``, then ``* scale``.
    """
    if not isinstance(node.primitive, Eltwise) or node.primitive.function not in ("div", "mul"):
        return None
    scaled = _affine_parts(node)
    return None if scaled is None else _normalized(*scaled)


def _affine_parts(node: Node) -> tuple[Value, Value, Node] | None:
    """Return (centred, deviation, node) of ``centred / deviation``, also spelled as a product with the reciprocal."""
    assert isinstance(node.primitive, Eltwise)
    if node.primitive.function == "div":
        return node.inputs[0], node.inputs[1], node
    for centred, inverse in (node.inputs, node.inputs[::-1]):
        made = inverse.producer
        if made is not None and isinstance(made.primitive, Activation) and made.primitive.function == "reciprocal":
            return centred, made.inputs[0], node
    return None


def _normalized(centred: Value, deviation: Value, node: Node) -> Match | None:
    spelled = Eltwise("div") != node.primitive
    inverse = [n for v in node.inputs if spelled and (n := v.producer) is not None and deviation in n.inputs[:1]]
    root = deviation.producer
    if root is None or root.primitive != Activation("sqrt"):
        return None
    shifted = linear_source(root.inputs[0])
    variance, epsilon = shifted.producer, polynomial(root.inputs[0], shifted)
    if variance is None or not variance.inputs or epsilon is None or not math.isclose(epsilon.terms.get(1, 0.0), 1.0):
        return None
    squared = variance.inputs[0]
    other, axis = _square_source(squared), _mean_axis(variance, squared)
    if other is None or axis is None or squared.producer is None:
        return None
    end = [squared.producer, variance, *epsilon.nodes, root, node]
    taken = _taken_off(centred, other, axis)
    if taken is None and other is not centred:
        return None
    x, begin = (centred, []) if taken is None else taken
    scale, nodes = _following([*inverse, *begin, *end], "mul", x)
    bias, nodes = _following(nodes, "add", x) if scale is not None and taken is not None else (None, nodes)
    one = np.ones(1, x.layout.dtype.numpy)
    factor = scale or Value(f"{node.name}/one", x.layout.with_shape(one.shape), constant=one)
    function = LayerNormalization(axis, epsilon.terms.get(0, 0.0), centred=taken is not None)
    return Match(tuple(dict.fromkeys(nodes)), function, (x, factor, *([] if bias is None else [bias])))


def _taken_off(centred: Value, other: Value, axis: int) -> tuple[Value, list[Node]] | None:
    """Return x, and the nodes that take its mean off, where *centred* and *other* both are x without it."""
    sub, again = centred.producer, other.producer
    if sub is None or again is None or sub.primitive != Eltwise("sub") or again.primitive != Eltwise("sub"):
        return None
    x, mean = sub.inputs
    if again.inputs != sub.inputs or mean.producer is None or axis != _mean_axis(mean.producer, x):
        return None
    return x, [mean.producer, sub, again]


def _square_source(value: Value) -> Value | None:
    """Return the tensor that *value* is the square of."""
    node = value.producer
    if node is None or node.fused or not node.inputs:
        return None
    found = polynomial(value, node.inputs[0])
    return node.inputs[0] if found is not None and found.close_to({2: 1.0}) and len(found.nodes) == 1 else None


def _mean_axis(node: Node | None, x: Value) -> int | None:
    """Return the first of the axes, up to the last, over which *node* takes the mean of *x*."""
    if node is None or node.fused or not isinstance(node.primitive, Reduce) or node.inputs[0] is not x:
        return None
    axes = node.primitive.reduced(x.layout.rank)
    contiguous = bool(axes) and axes == tuple(range(axes[0], x.layout.rank))
    return axes[0] if node.primitive.function == "mean" and node.primitive.keepdims and contiguous else None


def _following(nodes: Sequence[Node], function: str, x: Value) -> tuple[Value | None, list[Node]]:
    """Return the constant of the *function* that alone reads the last of *nodes*, and the nodes with it."""
    last = nodes[-1].output
    reader = next(iter(last.readers), None)
    if reader is None or not last.has_one_use or reader.fused or reader.primitive != Eltwise(function):
        return None, list(nodes)
    constant = next((v for v in reader.inputs if v.constant is not None), None)
    if constant is None or constant.layout.rank > x.layout.rank or reader.output.layout.shape != x.layout.shape:
        return None, list(nodes)
    return constant, [*nodes, reader]
