"""Recurrent layers of one direction, each on the hidden states of the one before, as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.matmul import MatMul
from clgraph.ops.recurrent_steps import GATES, RecurrentSteps

PRODUCT = MatMul(transpose_b=True)
"""Of what a layer reads and its weights."""


@primitive
@frozen
class RecurrentStack(Primitive):
    """All hidden states ``[tokens, 1, batch, H]`` of the last of some layers; the last states and cells of all.

    Inputs: x ``[tokens, batch, I]``, the first layer's weights of x ``[gates * H, I]``, those of the others
    ``[layers - 1, gates * H, H]``, r ``[layers, gates * H, H]``, if *biased* what is added to the products with x
    ``[layers, gates * H]``, then as the *present* of *steps* says the inputs of :class:`RecurrentSteps`, with a layer
    in the place of a direction. Results are those of ``RecurrentSteps``, likewise. Made by fuse_recurrent_layers; no
    model spells it.

    Attributes:
        steps: Each layer, from the first token to the last.
        layers: How many there are, at least two.
        biased: Whether the products with x have a bias.
    """

    steps: RecurrentSteps
    layers: int
    biased: bool = False

    kind: ClassVar[str] = "recurrent_stack"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x = inputs[0]
        size, rows = self.steps.hidden, GATES[self.steps.cell] * self.steps.hidden
        wanted = [(rows, x.shape[-1]), (self.layers - 1, rows, size), (self.layers, rows, size)]
        wanted += [(self.layers, rows)] * self.biased
        for given, shape in zip(inputs[1:], wanted, strict=False):
            if given.shape != shape:
                raise ShapeError(f"{given} is not {list(shape)}, as {self.layers} layers of {size} states on {x} need")
        made = [self.steps.infer(own) for own in self._problems(inputs)]
        _, *last = made[-1]
        return (made[-1][0], *(y.with_shape((self.layers, *y.shape[1:])) for y in last))

    def _problems(self, inputs: Sequence[Layout]) -> list[list[Layout]]:
        """Return the layouts of what the steps of each layer read."""
        tokens, batch, _ = inputs[0].shape
        ahead = inputs[0].with_shape((tokens, batch, inputs[1].shape[0]))
        alone = [x if name == "lengths" else x.with_shape((1, *x.shape[1:])) for name, x in self._optional(inputs)]
        for name, x in self._optional(inputs):
            if name != "lengths" and x.shape[0] != self.layers:
                raise ShapeError(f"{name} {x} is not one for each of {self.layers} layers")
        r = inputs[3].with_shape((1, *inputs[3].shape[1:]))
        return [[ahead, r, *alone]] * self.layers

    def _optional(self, inputs: Sequence[Layout]) -> list[tuple[str, Layout]]:
        return list(zip(self.steps.present, inputs[4 + self.biased :], strict=True))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, first, others, r, *more = inputs
        results = []
        for layer in range(self.layers):
            bias = [more[0][layer]] if self.biased else []
            (ahead,) = PRODUCT.reference(x, others[layer - 1] if layer else first, *bias)
            own = [
                v if name == "lengths" else v[layer : layer + 1]
                for name, v in zip(self.steps.present, more[self.biased :], strict=True)
            ]
            every, *last = self.steps.reference(ahead, r[layer : layer + 1], *own)
            results.append(last)
            x = every[:, 0]
        return (every, *(np.concatenate(column) for column in zip(*results, strict=True)))

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        tokens, batch, _ = inputs[0].shape
        return 2.0 * tokens * batch * sum(w.count for w in inputs[1:4])
