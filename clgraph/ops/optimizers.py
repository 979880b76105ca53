"""Steps of training that ONNX has as operators: Adagrad, Adam, Momentum, each for any number of tensors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.where import Where

DOMAIN = "ai.onnx.preview.training"


class _Step(Composite):
    """Base of a step for tensors X with gradients G and *states*.

    Inputs: the rate and the number of updates so far, one value each, then all X, all G, and all tensors of each state.
    Results: the new X, and the new tensors of each state, in the same order.
    """

    __slots__ = ()
    states: ClassVar[int]

    @abstractmethod
    def update(self, c: Composition, rate: str, count: str, x: str, g: str, *states: str) -> Sequence[str]:
        """Return the new x and states for gradient *g*; *rate* and *count* are scalars of the type of x."""

    def compose(self, c: Composition) -> Sequence[str]:
        rate, count, *tensors = c.inputs
        kinds = 2 + self.states
        if len(tensors) % kinds or any(c.layout(name).count != 1 for name in (rate, count)):
            raise ShapeError(f"a step takes two scalars and {kinds} tensors each, not {len(tensors)} in all")
        each = len(tensors) // kinds
        results = []
        for i in range(each):
            mine = tensors[i::each]
            if len({c.layout(name).shape for name in mine}) > 1:
                shapes = ", ".join(str(list(c.layout(name).shape)) for name in mine)
                raise ShapeError(f"a tensor, its gradient and its states have one shape, not {shapes}")
            dtype = c.layout(mine[0]).dtype
            scalars = [c.add(Reorder(dtype), c.add(Reshape(()), name)) for name in (rate, count)]
            results.append(self.update(c, *scalars, *mine))
        return [name for kind in zip(*results, strict=True) for name in kind]


def _scaled(c: Composition, x: str, factor: float, shift: float = 0.0) -> str:
    return x if (factor, shift) == (1, 0) else c.add(Activation("linear", factor, shift), x)


def _sum(c: Composition, a: str, b: str) -> str:
    return c.add(Eltwise("add"), a, b)


def _regular(c: Composition, x: str, g: str, coefficient: float) -> str:
    """Return the gradient of the loss with *coefficient* / 2 times the square of x added."""
    return _sum(c, _scaled(c, x, coefficient), g) if coefficient else g


def _stepped(c: Composition, x: str, rate: str, direction: str) -> str:
    return c.add(Eltwise("sub"), x, c.add(Eltwise("mul"), direction, rate))


@primitive
@frozen
class Adagrad(_Step):
    """``h += g^2; x -= rate / (1 + count * decay) * g / (sqrt(h) + epsilon)``, g with *norm* times x added."""

    decay: float = 0.0
    epsilon: float = 0.0
    norm: float = 0.0

    kind: ClassVar[str] = "adagrad"
    states: ClassVar[int] = 1

    def update(self, c: Composition, rate: str, count: str, x: str, g: str, *states: str) -> Sequence[str]:
        g = _regular(c, x, g, self.norm)
        h = _sum(c, states[0], c.add(Activation("square"), g))
        slowed = c.add(Eltwise("div"), rate, _scaled(c, count, self.decay, 1.0))
        size = _scaled(c, c.add(Activation("sqrt"), h), 1.0, self.epsilon)
        return _stepped(c, x, slowed, c.add(Eltwise("div"), g, size)), h


@primitive
@frozen
class Adam(_Step):
    """``v = alpha v + (1 - alpha) g; h = beta h + (1 - beta) g^2; x -= rate' * v / (sqrt(h) + epsilon)``, then shrunk.

    Where count is above 0, ``rate' = rate * sqrt(1 - beta^count) / (1 - alpha^count)``. To g *norm* times x is added;
    the new x is multiplied by ``1 - norm_post``.
    """

    alpha: float = 0.9
    beta: float = 0.999
    epsilon: float = 0.0
    norm: float = 0.0
    norm_post: float = 0.0

    kind: ClassVar[str] = "adam"
    states: ClassVar[int] = 2

    def update(self, c: Composition, rate: str, count: str, x: str, g: str, *states: str) -> Sequence[str]:
        g = _regular(c, x, g, self.norm)
        v = _sum(c, _scaled(c, states[0], self.alpha), _scaled(c, g, 1 - self.alpha))
        square = c.add(Activation("square"), g)
        h = _sum(c, _scaled(c, states[1], self.beta), _scaled(c, square, 1 - self.beta))
        size = _scaled(c, c.add(Activation("sqrt"), h), 1.0, self.epsilon)
        root = c.add(Activation("sqrt"), self._rest(c, self.beta, count))
        corrected = c.add(Eltwise("div"), c.add(Eltwise("mul"), rate, root), self._rest(c, self.alpha, count))
        adjusted = c.add(Where(), _begun(c, count), corrected, rate)
        x = _stepped(c, x, adjusted, c.add(Eltwise("div"), v, size))
        return _scaled(c, x, 1 - self.norm_post), v, h

    def _rest(self, c: Composition, base: float, count: str) -> str:
        """Return ``1 - base^count``."""
        power = c.add(Eltwise("pow"), c.constant(np.array(base, c.layout(count).dtype.numpy)), count)
        return _scaled(c, power, -1.0, 1.0)


@primitive
@frozen
class Momentum(_Step):
    """``v = alpha v + beta' g; x -= rate * v``; with *nesterov* ``x -= rate * (g + alpha v)``.

    ``beta'`` is *beta* where count is above 0, else 1. To g *norm* times x is added.
    """

    alpha: float
    beta: float
    norm: float
    nesterov: bool = False

    kind: ClassVar[str] = "momentum"
    states: ClassVar[int] = 1

    def update(self, c: Composition, rate: str, count: str, x: str, g: str, *states: str) -> Sequence[str]:
        g = _regular(c, x, g, self.norm)
        fed = c.add(Where(), _begun(c, count), _scaled(c, g, self.beta), g) if self.beta != 1 else g
        v = _sum(c, _scaled(c, states[0], self.alpha), fed)
        return _stepped(c, x, rate, _sum(c, g, _scaled(c, v, self.alpha)) if self.nesterov else v), v


def _begun(c: Composition, count: str) -> str:
    return c.add(Eltwise("greater"), count, c.constant(np.zeros((), c.layout(count).dtype.numpy)))


@onnx("Adagrad", since=(1,), domain=DOMAIN)
def import_adagrad(node: OnnxNode) -> Primitive:
    norm = node.attribute("norm_coefficient", 0.0)
    return Adagrad(node.attribute("decay_factor", 0.0), node.attribute("epsilon", 1e-6), norm)


@onnx("Adam", since=(1,), domain=DOMAIN)
def import_adam(node: OnnxNode) -> Primitive:
    return Adam(
        node.attribute("alpha", 0.9),
        node.attribute("beta", 0.999),
        node.attribute("epsilon", 1e-6),
        node.attribute("norm_coefficient", 0.0),
        node.attribute("norm_coefficient_post", 0.0),
    )


@onnx("Momentum", since=(1,), domain=DOMAIN)
def import_momentum(node: OnnxNode) -> Primitive:
    mode = node.attribute("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise node.unsupported(f"mode {mode!r} is neither 'standard' nor 'nesterov'")
    alpha, beta, norm = (node.attribute(name, 0.0) for name in ("alpha", "beta", "norm_coefficient"))
    return Momentum(alpha, beta, norm, mode == "nesterov")
