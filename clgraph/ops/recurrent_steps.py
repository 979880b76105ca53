"""The steps of a recurrent network: what is left of RNN, GRU and LSTM when their inputs are multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.ops.activation import FUNCTIONS
from clgraph.selector.general import words
from clgraph.selector.post import post_codes

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
    "scaledtanh": ("scaled_tanh", 0.0, 0.0),
    "thresholdedrelu": ("thresholded_relu", 1.0, 0.0),
}
"""ONNX's names of activations, in lower case: ours, and the parameters that they have unless some are given."""

_ON_THE_HOST: dict[str, Callable[[Any, float, float], Any]] = {
    "scaled_tanh": lambda v, a, b: a * np.tanh(b * v),
}
"""Functions that no kernel has."""

Activation = tuple[str, float, float]

_DEFAULTS = {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}


@primitive
@frozen
class RecurrentSteps(Primitive):
    """All hidden states ``[tokens, directions, batch, H]`` of a recurrent network, the last ones, an LSTM's last cells.

    Inputs: what goes into the gates of x, bias included, ``[tokens, batch, directions * gates * H]``, r ``[directions,
    gates * H, H]``, then as *present* says the bias of r ``[directions, gates * H]``, lengths ``[batch]``, first hidden
    states and cells ``[directions, batch, H]``, peephole weights ``[directions, 3 * H]``.

    Attributes:
        cell, hidden, direction, activations, clip, linear_before_reset, coupled: As of ``Recurrent``.
        present: Names of the inputs from the third on.
        rounded: An LSTM's r multiplies hidden states rounded as ``DynamicQuantizeLinear`` rounds, together, those that
            the token before has made of all sequences of a direction.
    """

    cell: str
    hidden: int
    direction: str = "forward"
    activations: tuple[Activation, ...] = ()
    clip: float = 0.0
    linear_before_reset: bool = False
    coupled: bool = False
    present: tuple[str, ...] = ()
    rounded: bool = False

    kind: ClassVar[str] = "recurrent_steps"
    holds_sizes: ClassVar[bool] = False

    @property
    def directions(self) -> int:
        """One, or two."""
        return 2 if self.direction == "bidirectional" else 1

    def chosen(self, direction: int) -> Sequence[Activation]:
        """Return the activations of a direction."""
        count = len(_DEFAULTS[self.cell])
        own = self.activations[direction * count : (direction + 1) * count]
        return own or [ACTIVATIONS[n] for n in _DEFAULTS[self.cell]]

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        ahead, r = inputs[:2]
        rows = GATES[self.cell] * self.hidden
        if (
            ahead.rank != 3
            or ahead.shape[2] != self.directions * rows
            or r.shape != (self.directions, rows, self.hidden)
        ):
            raise ShapeError(f"gates {ahead} and r {r} do not fit {self.hidden} hidden states")
        if self.rounded and self.cell != "lstm":
            raise ShapeError(f"rounds the states of an LSTM, not of a {self.cell}")
        tokens, batch = ahead.shape[:2]
        states = (self.directions, batch, self.hidden)
        wanted = {"lengths": (batch,), "bias": (self.directions, rows), "hidden": states, "cell": states}
        wanted["peephole"] = (self.directions, 3 * self.hidden)
        for name, given in zip(self.present, inputs[2:], strict=False):
            if given.shape != wanted[name]:
                raise ShapeError(f"{name} {given} beside gates {ahead} is not {list(wanted[name])}")
        every = ahead.with_shape((tokens, *states))
        return (every, *(ahead.with_shape(states) for _ in range(2 if self.cell == "lstm" else 1)))

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        ahead, r = inputs[:2]
        given = dict(zip(self.present, inputs[2:], strict=True))
        exact = np.result_type(ahead.dtype, np.float32)
        tokens, batch = ahead.shape[:2]
        rows = GATES[self.cell] * self.hidden
        none = np.zeros((self.directions, batch, self.hidden), exact)
        lengths = given.get("lengths", np.full(batch, tokens))
        results = []
        for d in range(self.directions):
            gates = ahead[:, :, d * rows : (d + 1) * rows].astype(exact)
            back = self.direction == "reverse" or d == 1
            every, last, cells = self._direction(
                _turned(gates, lengths) if back else gates,
                r[d].astype(exact),
                given.get("bias", np.zeros((self.directions, rows), exact))[d].astype(exact),
                (given.get("hidden", none)[d].astype(exact), given.get("cell", none)[d].astype(exact)),
                given.get("peephole", np.zeros((self.directions, 3 * self.hidden), exact))[d].astype(exact),
                lengths,
                self._functions(d),
            )
            results.append((_turned(every, lengths) if back else every, last, cells))
        every, last, cells = (np.stack(column) for column in zip(*results, strict=True))
        made = (every.swapaxes(0, 1), last, cells)[: 3 if self.cell == "lstm" else 2]
        return tuple(np.ascontiguousarray(a.astype(ahead.dtype)) for a in made)

    def _functions(self, direction: int) -> list[Callable[[Array], Array]]:
        def call(name: str, alpha: float, beta: float, clip: float) -> Callable[[Array], Array]:
            function = _ON_THE_HOST.get(name) or FUNCTIONS[name]
            return lambda v: function(np.clip(v, -clip, clip) if clip else v, alpha, beta)

        return [call(*a, 0.0 if i == 2 else self.clip) for i, a in enumerate(self.chosen(direction))]

    def _direction(
        self,
        ahead: Array,
        r: Array,
        bias: Array,
        first: tuple[Array, Array],
        peephole: Array,
        lengths: Array,
        functions: Sequence[Callable[[Array], Array]],
    ) -> tuple[Array, Array, Array]:
        """Return all hidden states [tokens, batch, H] of a walk, the last ones and the last cells."""
        step = {"rnn": _rnn, "gru": self._gru, "lstm": self._lstm}[self.cell]
        state, every = first, np.zeros((*ahead.shape[:2], self.hidden), ahead.dtype)
        for t in range(len(ahead)):
            going = (t < lengths)[:, None]
            made_before = (t <= lengths)[:, None]
            read = (_rounded(np.where(made_before, state[0], 0)), state[1]) if self.rounded else state
            made = step(ahead[t], read, r, bias, peephole, functions)
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
        return 2.0 * inputs[0].shape[0] * inputs[0].shape[1] * inputs[1].count

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        walks = inputs[0].shape[0] * inputs[1].shape[0]
        return walks * {"rnn": 8e-6, "gru": 1.4e-5, "lstm": 2.2e-5}[self.cell]


def _rnn(ahead: Array, state: Any, r: Array, bias: Array, _: Array, functions: Any) -> tuple[Array, Array]:
    return functions[0](ahead + state[0] @ r.T + bias), state[1]


def _rounded(states: Array) -> Array:
    """Return the nearest of 256 steps from the least to the greatest of the *states* and 0."""
    low, high = np.minimum(states.min(initial=0), 0), np.maximum(states.max(initial=0), 0)
    scale = (high - low) / states.dtype.type(255)
    scale = scale if scale != 0 else states.dtype.type(1)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return np.asarray((np.clip(np.rint(states / scale) + zero, 0, 255) - zero) * scale)


def _turned(x: Array, lengths: Array) -> Array:
    """Return x [tokens, batch, ...] with the beginning of each sequence in reverse order."""
    y = x.copy()
    for i, length in enumerate(lengths):
        y[:length, i] = x[:length, i][::-1]
    return y


def tensors(f: RecurrentSteps) -> tuple[str, ...]:
    """Return the tensors of a kernel in its order: inputs, ``null`` for those that are left out, results."""
    slots = {name: f"in{slot}" for slot, name in enumerate(f.present, 2)}
    optional = [slots.get(name, "null") for name in ("bias", "lengths", "hidden", "cell", "peephole")]
    return ("in0", "in1", *optional, "out0", "out1", "out2" if f.cell == "lstm" else "null")


def walk_flags(f: RecurrentSteps) -> list[int]:
    """Return whether the first direction is from the end, directions, linear before reset, coupled."""
    return [int(f.direction == "reverse"), f.directions, int(f.linear_before_reset), int(f.coupled)]


def activation_refusal(f: RecurrentSteps) -> str | None:
    """Say which activation kernels do not have, or return ``None``."""
    missing = [name for d in range(f.directions) for name, *_ in f.chosen(d) if name in _ON_THE_HOST]
    return f"has no {missing[0]}" if missing else None


def activation_codes(f: RecurrentSteps, dtype: DType = DType.F32) -> list[list[int]]:
    """Return code and parameters of the activations of each direction, for a kernel of *dtype*."""
    codes = post_codes()
    return [
        [codes[name], *words(a, dtype), *words(b, dtype)] for d in range(f.directions) for name, a, b in f.chosen(d)
    ]
