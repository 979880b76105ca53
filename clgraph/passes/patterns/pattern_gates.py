"""Patterns of activations: swish, hard sigmoid, hard swish and gelu, each read from a node's result as a product."""

from __future__ import annotations

import math
from dataclasses import replace

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.ops.activation import Activation
from clgraph.passes.patterns.patterns import Match, Product, linear_source, polynomial


def swish(node: Node, spelled: Product) -> Match | None:
    """``x * sigmoid(a * x)``."""
    if spelled.scale != 1 or len(spelled.factors) != 2:
        return None
    for x, gate in (spelled.factors, spelled.factors[::-1]):
        inner = _argument(gate, "sigmoid", x)
        if inner is not None and inner[1].keys() <= {1}:
            return Match((*inner[0], *spelled.nodes), Activation("swish", inner[1][1]), (x,))
    return None


def hard_sigmoid(node: Node, spelled: Product) -> Match | None:
    """``clip(a * x + b, 0, d) / d``."""
    if len(spelled.factors) != 1:
        return None
    clipped = _clipped(spelled.factors[0])
    if clipped is None or not math.isclose(clipped.high * spelled.scale, 1, rel_tol=1e-6):
        return None
    function = Activation("hard_sigmoid", clipped.a / clipped.high, clipped.b / clipped.high)
    return Match((*clipped.nodes, *spelled.nodes), function, (clipped.x,))


def clip_to_hard_sigmoid(node: Node, spelled: Product) -> Match | None:
    """``clip(a * x + b, 0, 1)`` with another factor or shift than 1 and 0."""
    clipped = _clipped(node.output)
    if clipped is None or clipped.high != 1 or len(clipped.nodes) < 2:
        return None
    return Match(clipped.nodes, Activation("hard_sigmoid", clipped.a, clipped.b), (clipped.x,))


def hard_swish(node: Node, spelled: Product) -> Match | None:
    """``x * clip(a * x + b, 0, d) / d``, or ``x * hard_sigmoid(x)``."""
    if len(spelled.factors) != 2:
        return None
    for x, gate in (spelled.factors, spelled.factors[::-1]):
        made = gate.producer
        if made is None:
            continue
        gates_x = x in made.inputs[:1] and not made.fused and spelled.scale == 1
        if gates_x and isinstance(p := made.primitive, Activation) and p.function == "hard_sigmoid":
            return Match((made, *spelled.nodes), replace(p, function="hard_swish"), (x,))
        clipped = _clipped(gate, x)
        if clipped is not None and math.isclose(clipped.high * spelled.scale, 1, rel_tol=1e-6):
            function = Activation("hard_swish", clipped.a / clipped.high, clipped.b / clipped.high)
            return Match((*clipped.nodes, *spelled.nodes), function, (x,))
    return None


def gelu(node: Node, spelled: Product) -> Match | None:
    """``x / 2 * (1 + erf(x / sqrt(2)))``, and its approximation by tanh."""
    if len(spelled.factors) != 2 or not math.isclose(spelled.scale, 0.5, rel_tol=1e-6):
        return None
    k = math.sqrt(2 / math.pi)
    for x, gate in (spelled.factors, spelled.factors[::-1]):
        for inside, name, wanted in (
            ("erf", "gelu", {1: math.sqrt(0.5)}),
            ("tanh", "gelu_tanh", {1: k, 3: k * 0.044715}),
        ):
            outer = _one_plus(gate, inside)
            found = None if outer is None else polynomial(outer[1].inputs[0], x)
            if outer is not None and found is not None and found.close_to(wanted):
                return Match((*found.nodes, outer[1], *outer[0], *spelled.nodes), Activation(name), (x,))
    return None


@frozen
class _Clipped:
    """``clip(a * x + b, 0, high)``."""

    x: Value
    a: float
    b: float
    high: float
    nodes: tuple[Node, ...]


def _clipped(value: Value, x: Value | None = None) -> _Clipped | None:
    node = value.producer
    if node is None or node.fused or not isinstance(node.primitive, Activation):
        return None
    p = node.primitive
    if p.function != "clip" or p.alpha != 0 or not 0 < p.beta < math.inf:
        return None
    source = x or linear_source(node.inputs[0])
    found = polynomial(node.inputs[0], source)
    if found is None or not found.terms.keys() <= {0, 1} or not found.terms.get(1):
        return None
    return _Clipped(source, found.terms[1], found.terms.get(0, 0.0), p.beta, (*found.nodes, node))


def _argument(gate: Value, function: str, x: Value) -> tuple[tuple[Node, ...], dict[int, float]] | None:
    """Return the nodes and the coefficients of ``function(polynomial of x)``."""
    node = gate.producer
    if node is None or node.fused or not isinstance(node.primitive, Activation) or node.primitive.function != function:
        return None
    found = polynomial(node.inputs[0], x)
    return None if found is None else ((*found.nodes, node), {p: c for p, c in found.terms.items() if c})


def _one_plus(gate: Value, function: str) -> tuple[tuple[Node, ...], Node] | None:
    """Return the nodes that add 1 and the node of ``1 + function(…)``."""
    node = gate.producer
    if node is None or node.fused:
        return None
    inner = next((v for v in node.inputs if v.constant is None), None)
    made = None if inner is None else inner.producer
    if inner is None or made is None or made.fused or not isinstance(made.primitive, Activation):
        return None
    found = polynomial(gate, inner)
    if made.primitive.function != function or found is None or not found.close_to({0: 1.0, 1: 1.0}):
        return None
    return found.nodes, made
