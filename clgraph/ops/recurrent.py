"""Recurrent networks over sequences: ONNX's RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, OnnxNode, Primitive, onnx, primitive
from clgraph.ops.activation import FUNCTIONS

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Matrices of a cell, one a gate."""

ACTIVATIONS: dict[str, tuple[str, float, float]] = {
    "relu": ("relu", 0.0, 0.0),
    "tanh": ("tanh", 0.0, 0.0),
    "sigmoid": ("sigmoid", 0.0, 0.0),
    "affine": ("linear", 1.0, 0.0),
    "leakyrelu": ("leaky_relu", 0.01, 0.0),
    "hardsigmoid": ("hard_sigmoid", 0.2, 0.5),
    "elu": ("elu", 1.0, 0.0),
    "softsign": ("softsign", 0.0, 0.0),
    "softplus": ("softplus", 0.0, 0.0),
}
"""ONNX's names of activations, in lower case: ours, and the parameters that they have unless some are given."""

Activation = tuple[str, float, float]

_DEFAULTS = {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}
_OPTIONAL = ("bias", "lengths", "hidden", "cell", "peephole")


@primitive
@dataclass(frozen=True, slots=True)
class Recurrent(Primitive):
    """A cell run along sequences: all hidden states ``[tokens, directions, batch, H]``, the last ones, the last cells.

    Inputs: x ``[tokens, batch, I]``, w ``[directions, gates * H, I]``, r ``[directions, gates * H, H]``, then as
    *present* says bias ``[directions, 2 * gates * H]``, lengths ``[batch]``, first hidden states and cells
    ``[directions, batch, H]``, peephole weights ``[directions, 3 * H]`` (Hochreiter and Schmidhuber 1997; Cho et al.
    2014).

    Attributes:
        cell: A key of ``GATES``.
        hidden: H.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        activations: Of the gates, then of the candidate, then of the cell; those of one direction behind the other's.
        clip: Bound on what activations read; 0: none.
        linear_before_reset: A GRU's reset gate scales the product with r, not what goes into it.
        coupled: An LSTM's forget gate is one less the input gate.
        batch_first: x is ``[batch, tokens, I]``, states ``[batch, directions, H]``.
        present: Names of the inputs from the fourth on.
    """

    cell: str
    hidden: int
    direction: str = "forward"
    activations: tuple[Activation, ...] = ()
    clip: float = 0.0
    linear_before_reset: bool = False
    coupled: bool = False
    batch_first: bool = False
    present: tuple[str, ...] = ()

    kind: ClassVar[str] = "recurrent"

    @property
    def directions(self) -> int:
        """One, or two."""
        return 2 if self.direction == "bidirectional" else 1

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, w, r = inputs[:3]
        rows = GATES[self.cell] * self.hidden
        wanted = (self.directions, rows)
        if x.rank != 3 or w.shape != (*wanted, x.shape[-1]) or r.shape != (*wanted, self.hidden):
            raise ShapeError(f"x {x}, w {w} and r {r} do not fit {self.hidden} hidden states")
        tokens, batch = (x.shape[1], x.shape[0]) if self.batch_first else x.shape[:2]
        states = (batch, self.directions, self.hidden) if self.batch_first else (self.directions, batch, self.hidden)
        every = (tokens, self.directions, batch, self.hidden)
        if self.batch_first:
            every = (batch, tokens, self.directions, self.hidden)
        return (x.with_shape(every), *(x.with_shape(states) for _ in range(2 if self.cell == "lstm" else 1)))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, w, r = inputs[:3]
        given = dict(zip(self.present, inputs[3:], strict=True))
        exact = np.result_type(x.dtype, np.float32)
        if self.batch_first:
            x = x.swapaxes(0, 1)
            given |= {n: a.swapaxes(0, 1) for n, a in given.items() if n in ("hidden", "cell")}
        tokens, batch = x.shape[:2]
        none = np.zeros((self.directions, batch, self.hidden), exact)
        lengths = given.get("lengths", np.full(batch, tokens))
        results = []
        for d in range(self.directions):
            rows = GATES[self.cell] * self.hidden
            bias = given.get("bias", np.zeros((self.directions, 2 * rows), exact))[d].astype(exact)
            back = self.direction == "reverse" or d == 1
            results.append(
                self._direction(
                    _turned(x.astype(exact), lengths) if back else x.astype(exact),
                    (w[d].astype(exact), r[d].astype(exact), bias[:rows], bias[rows:]),
                    (given.get("hidden", none)[d].astype(exact), given.get("cell", none)[d].astype(exact)),
                    given.get("peephole", np.zeros((self.directions, 3 * self.hidden), exact))[d].astype(exact),
                    lengths,
                    self._functions(d),
                )
            )
            if back:
                results[-1] = (_turned(results[-1][0], lengths), *results[-1][1:])
        every, last, cells = (np.stack(column) for column in zip(*results, strict=True))
        every = every.transpose(2, 1, 0, 3) if self.batch_first else every.swapaxes(0, 1)
        if self.batch_first:
            last, cells = last.swapaxes(0, 1), cells.swapaxes(0, 1)
        made = (every, last, cells) if self.cell == "lstm" else (every, last)
        return tuple(np.ascontiguousarray(a.astype(inputs[0].dtype)) for a in made)

    def _functions(self, direction: int) -> list[Callable[[Array], Array]]:
        count = len(_DEFAULTS[self.cell])
        chosen = self.activations[direction * count : (direction + 1) * count]

        def call(name: str, alpha: float, beta: float) -> Callable[[Array], Array]:
            return lambda v: FUNCTIONS[name](np.clip(v, -self.clip, self.clip) if self.clip else v, alpha, beta)

        return [call(*a) for a in chosen or [ACTIVATIONS[n] for n in _DEFAULTS[self.cell]]]

    def _direction(
        self,
        x: Array,
        weights: tuple[Array, Array, Array, Array],
        first: tuple[Array, Array],
        peephole: Array,
        lengths: Array,
        functions: Sequence[Callable[[Array], Array]],
    ) -> tuple[Array, Array, Array]:
        """Return all hidden states [tokens, batch, H] of a walk over x, the last ones and the last cells."""
        w, r, bias_w, bias_r = weights
        step = {"rnn": _rnn, "gru": self._gru, "lstm": self._lstm}[self.cell]
        ahead = x @ w.T + bias_w
        state, every = first, np.zeros((*x.shape[:2], self.hidden), x.dtype)
        for t in range(len(x)):
            made = step(ahead[t], state, r, bias_r, peephole, functions)
            going = (t < lengths)[:, None]
            state = (np.where(going, made[0], state[0]), np.where(going, made[1], state[1]))
            every[t] = np.where(going, made[0], 0)
        return every, *state

    def _gru(self, ahead: Array, state: Any, r: Array, bias: Array, _: Array, functions: Any) -> tuple[Array, Array]:
        hidden, n = state[0], self.hidden
        f, g = functions
        gates = f(ahead[:, : 2 * n] + hidden @ r[: 2 * n].T + bias[: 2 * n])
        update, reset = gates[:, :n], gates[:, n:]
        if self.linear_before_reset:
            candidate = g(ahead[:, 2 * n :] + reset * (hidden @ r[2 * n :].T + bias[2 * n :]))
        else:
            candidate = g(ahead[:, 2 * n :] + (reset * hidden) @ r[2 * n :].T + bias[2 * n :])
        return (1 - update) * candidate + update * hidden, state[1]

    def _lstm(self, ahead: Array, state: Any, r: Array, bias: Array, p: Array, functions: Any) -> tuple[Array, Array]:
        (hidden, cell), n = state, self.hidden
        f, g, h = functions
        gates = ahead + hidden @ r.T + bias
        i = f(gates[:, :n] + p[:n] * cell)
        forget = 1 - i if self.coupled else f(gates[:, 2 * n : 3 * n] + p[2 * n :] * cell)
        cell = forget * cell + i * g(gates[:, 3 * n :])
        out = f(gates[:, n : 2 * n] + p[n : 2 * n] * cell)
        return out * h(cell), cell

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        x, w, r = inputs[:3]
        return 2.0 * x.shape[0] * x.shape[1] * (w.count + r.count)


def _rnn(ahead: Array, state: Any, r: Array, bias: Array, _: Array, functions: Any) -> tuple[Array, Array]:
    return functions[0](ahead + state[0] @ r.T + bias), state[1]


def _turned(x: Array, lengths: Array) -> Array:
    """Return x [tokens, batch, ...] with the beginning of each sequence in reverse order."""
    y = x.copy()
    for i, length in enumerate(lengths):
        y[:length, i] = x[:length, i][::-1]
    return y


@onnx("RNN", since=(7, 14, 22))
@onnx("GRU", since=(7, 14, 22))
@onnx("LSTM", since=(7, 14, 22))
def import_recurrent(node: OnnxNode) -> Sequence[str]:
    cell = node.op_type.lower()
    reads = tuple(n for n, given in zip(_OPTIONAL, node.inputs[3:], strict=False) if given)
    names = [str(n).lower() for n in node.attribute("activations", ())]
    if unknown := [n for n in names if n not in ACTIVATIONS]:
        raise node.unsupported(f"the activation {unknown[0]!r} is none of {', '.join(ACTIVATIONS)}")
    alphas, betas = list(node.attribute("activation_alpha", ())), list(node.attribute("activation_beta", ()))
    activations = []
    for name in names:
        ours, alpha, beta = ACTIVATIONS[name]
        has_alpha, has_beta = name in ("affine", "leakyrelu", "hardsigmoid", "elu"), name in ("affine", "hardsigmoid")
        alpha = alphas.pop(0) if has_alpha and alphas else alpha
        activations.append((ours, alpha, betas.pop(0) if has_beta and betas else beta))
    recurrent = Recurrent(
        cell,
        node.attribute("hidden_size", 0),
        node.attribute("direction", "forward"),
        tuple(activations),
        node.attribute("clip", 0.0),
        bool(node.attribute("linear_before_reset", 0)),
        bool(node.attribute("input_forget", 0)),
        bool(node.attribute("layout", 0)),
        reads,
    )
    return node.emit(recurrent, *filter(None, node.inputs), outputs=3 if cell == "lstm" else 2)
