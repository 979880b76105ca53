"""Reading arithmetic spelled with many nodes: as a polynomial of one value, or as a product of factors."""

from __future__ import annotations

import math
from collections.abc import Mapping

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.passes.patterns.decompose import scalar

_DEGREE = 3


@frozen
class Match:
    """The nodes of a pattern, the last of them the one whose result is read, and what they amount to."""

    nodes: tuple[Node, ...]
    primitive: Primitive
    inputs: tuple[Value, ...]


@frozen
class Polynomial:
    """Coefficients by power of the value read, and the nodes that spell it."""

    terms: Mapping[int, float]
    nodes: tuple[Node, ...] = ()

    def close_to(self, wanted: Mapping[int, float]) -> bool:
        """Whether the coefficients are *wanted*, as exactly as float32 constants say."""
        powers = {p for p in {*self.terms, *wanted} if self.terms.get(p, 0.0) or wanted.get(p, 0.0)}
        return all(math.isclose(self.terms.get(p, 0.0), wanted.get(p, 0.0), rel_tol=1e-6) for p in powers)

    def plus(self, other: Polynomial, sign: float, node: Node) -> Polynomial:
        """Return the sum, spelled by *node*."""
        powers = {*self.terms, *other.terms}
        terms = {p: self.terms.get(p, 0.0) + sign * other.terms.get(p, 0.0) for p in powers}
        return Polynomial(terms, _union(self.nodes, other.nodes, node))

    def times(self, other: Polynomial, node: Node) -> Polynomial | None:
        """Return the product, spelled by *node*; ``None`` beyond the third power."""
        terms: dict[int, float] = {}
        for p, a in self.terms.items():
            for q, b in other.terms.items():
                terms[p + q] = terms.get(p + q, 0.0) + a * b
        return Polynomial(terms, _union(self.nodes, other.nodes, node)) if max(terms) <= _DEGREE else None


def linear_source(value: Value) -> Value:
    """Return what *value* is computed from by scalings and shifts alone."""
    while (node := value.producer) is not None and not node.fused:
        live = [v for v in node.inputs if v.constant is None]
        linear = isinstance(node.primitive, Activation) and node.primitive.function == "linear"
        number = isinstance(node.primitive, Eltwise) and any(scalar(v) is not None for v in node.inputs)
        if len(live) != 1 or not (linear or number) or polynomial(value, live[0]) is None:
            break
        value = live[0]
    return value


def polynomial(value: Value, x: Value, depth: int = 8) -> Polynomial | None:
    """Return *value* as a polynomial of *x*, or ``None`` when it is something else."""
    if value is x:
        return Polynomial({1: 1.0})
    if (number := scalar(value)) is not None:
        return Polynomial({0: number})
    node = value.producer
    if node is None or node.fused or depth == 0 or value.layout.shape != x.layout.shape:
        return None
    if isinstance(node.primitive, Activation):
        return _of_activation(node, node.primitive, x, depth)
    if not isinstance(node.primitive, Eltwise):
        return None
    left, right = (polynomial(v, x, depth - 1) for v in node.inputs)
    return None if left is None or right is None else _of_eltwise(node, node.primitive.function, left, right)


def _of_activation(node: Node, p: Activation, x: Value, depth: int) -> Polynomial | None:
    if p.function not in ("linear", "square", "neg"):
        return None
    inner = polynomial(node.inputs[0], x, depth - 1)
    if inner is None or p.function == "square":
        return None if inner is None else inner.times(inner, node)
    scale, shift = (p.alpha, p.beta) if p.function == "linear" else (-1.0, 0.0)
    scaled = inner.times(Polynomial({0: scale}), node)
    return None if scaled is None else scaled.plus(Polynomial({0: shift}), 1.0, node)


def _of_eltwise(node: Node, function: str, left: Polynomial, right: Polynomial) -> Polynomial | None:
    if function in ("add", "sub"):
        return left.plus(right, 1.0 if function == "add" else -1.0, node)
    if function == "mul":
        return left.times(right, node)
    number = right.terms.get(0) if set(right.terms) == {0} else None
    if function == "div" and number:
        return left.times(Polynomial({0: 1 / number}), node)
    if function == "pow" and number in (1.0, 2.0, 3.0):
        power: Polynomial | None = left
        for _ in range(int(number) - 1):
            power = None if power is None else power.times(left, node)
        return power
    return None


@frozen
class Product:
    """A scalar and the tensors it is multiplied with, and the nodes that spell the product."""

    scale: float
    factors: tuple[Value, ...]
    nodes: tuple[Node, ...]


def product(node: Node) -> Product:
    """Return the result of *node* as a product, seen through multiplications that are read once and keep the shape."""
    scale, factors, nodes = 1.0, list[Value](), list[Node]()
    rest = [node.output]
    while rest:
        value = rest.pop()
        n = value.producer
        whole = value.layout.shape == node.output.layout.shape
        inner = n is not None and not n.fused and whole and (n is node or value.has_one_use)
        if (number := scalar(value)) is not None:
            scale *= number
        elif n is not None and inner and isinstance(n.primitive, Eltwise) and n.primitive.function == "mul":
            nodes.append(n)
            rest += reversed(n.inputs)
        elif n is not None and inner and (factor := _scales(n)) is not None:
            nodes.append(n)
            scale *= factor
            rest.append(n.inputs[0])
        else:
            factors.append(value)
    return Product(scale, tuple(factors), tuple(nodes))


def _scales(node: Node) -> float | None:
    """Return the number that *node* multiplies its input with, if that is all it does."""
    p = node.primitive
    if isinstance(p, Activation) and p.function == "linear" and p.beta == 0:
        return p.alpha
    if isinstance(p, Eltwise) and p.function == "div" and (number := scalar(node.inputs[1])):
        return 1 / number
    return None


def _union(first: tuple[Node, ...], second: tuple[Node, ...], node: Node) -> tuple[Node, ...]:
    return tuple(dict.fromkeys((*first, *second, node)))
