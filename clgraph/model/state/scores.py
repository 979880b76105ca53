"""What a model makes of attention's scores in front of the softmax: a factor, and a bias that is computed beside them.

Layers that add to scores, mask or multiply them in any order become those that make the bias alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reshape import Reshape, Squeeze, Unsqueeze
from clgraph.ops.where import Where


@frozen
class Mask:
    """A value that says which scores a number replaces.

    Attributes:
        hides: Whether they are those that it says *true* of.
    """

    name: str
    hides: bool


@frozen
class Scores:
    """``scale * products + bias``, where that is what the layers read so far make of the products.

    Attributes:
        product: The layer that multiplies queries by keys.
        within: What products are multiplied by in front of a tanh, whose results *scale* multiplies; else ``None``.
        bias: The value that is added; ``None`` for none.
        layers: What makes it of values that there are: of *added* ones and *masks*.
        constants: Numbers that these layers read.
    """

    product: Layer
    scale: float = 1.0
    bias: str | None = None
    layers: tuple[Layer, ...] = ()
    added: tuple[str, ...] = ()
    masks: tuple[Mask, ...] = ()
    constants: tuple[tuple[str, float], ...] = ()
    within: float | None = None

    @property
    def cap(self) -> float:
        """What scores stay below, as attentions have it; 0: they have no bound."""
        return 0.0 if self.within is None else self.scale

    @property
    def factor(self) -> float:
        """What products are multiplied by, as attentions have it."""
        return self.scale if self.within is None else self.within * self.scale

    def of_keys(self, number: float) -> Scores:
        """Return the scores of keys that are multiplied first."""
        if self.within is None:
            return replace(self, scale=self.scale * number)
        return replace(self, within=self.within * number)

    def bounded(self) -> Scores | None:
        """Return the scores behind a tanh; ``None`` where something is added in front of it."""
        return None if self.bias or self.within is not None else replace(self, scale=1.0, within=self.scale)

    def times(self, number: float) -> Scores:
        """Return the scores multiplied."""
        made = replace(self, scale=self.scale * number)
        if self.bias is None:
            return made
        factor, made = made._constant(number)
        return made._with(Eltwise("mul"), self.bias, factor)

    def plus(self, name: str) -> Scores:
        """Return the scores with a value added."""
        made = replace(self, added=(*self.added, name))
        return replace(made, bias=name) if self.bias is None else made._with(Eltwise("add"), self.bias, name)

    def masked(self, mask: Mask, number: str) -> Scores:
        """Return the scores where *mask* shows them, and the constant *number* elsewhere."""
        made = replace(self, masks=(*self.masks, mask))
        bias = self.bias
        if bias is None:
            bias, made = made._constant(0.0)
        return made._with(Where(), mask.name, *((number, bias) if mask.hides else (bias, number)))

    def of_heads(self, heads: int) -> Scores:
        """Return the scores ``[batch * heads, tokens, all]``, and their bias, as ``[batch, heads, tokens, all]``."""
        if self.bias is None:
            return self
        made = self
        for primitive in apart_by_heads(heads):
            assert made.bias is not None
            made = made._with(primitive, made.bias)
        return made

    def arrays(self, dtype: np.dtype[np.generic]) -> dict[str, Array]:
        """Return the constants in a type."""
        return {name: np.array(number, dtype) for name, number in self.constants}

    def _with(self, primitive: Primitive, *inputs: str) -> Scores:
        name = f"{self.product.name}/bias{len(self.layers)}"
        layer = Layer(name, primitive, inputs, (name,), self.product.origin)
        return replace(self, bias=name, layers=(*self.layers, layer))

    def _constant(self, number: float) -> tuple[str, Scores]:
        name = f"{self.product.name}/number{len(self.constants)}"
        return name, replace(self, constants=(*self.constants, (name, number)))


def apart_by_heads(heads: int) -> Sequence[Primitive]:
    """Return what makes ``[batch, heads, tokens, D]`` of ``[batch * heads, tokens, D]``."""
    return Unsqueeze((1,)), Reshape((-1, heads, 0, 0))


def joined_heads() -> Sequence[Primitive]:
    """Return what makes ``[batch * heads, tokens, D]`` of ``[batch, heads, tokens, D]``."""
    return Reshape((-1, 1, 0, 0)), Squeeze((1,))


def chain(like: Layer, primitives: Sequence[Primitive], first: str, last: str) -> list[Layer]:
    """Return layers of *primitives* from *first* to *last*, one behind the other, as parts of *like*."""
    names = [first, *(f"{last}/{i}" for i in range(len(primitives) - 1)), last]
    return [Layer(y, p, (x,), (y,), like.origin) for p, x, y in zip(primitives, names, names[1:], strict=False)]
