"""Recurrent networks over sequences: ONNX's RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.recurrent_steps import ACTIVATIONS, GATES, Activation, RecurrentSteps
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.transpose import Transpose

_OPTIONAL = ("bias", "lengths", "hidden", "cell", "peephole")
_BETA = ("affine", "hardsigmoid", "scaledtanh")
_ALPHA = (*_BETA, "leakyrelu", "elu", "thresholdedrelu")
"""Activations that take the next of the parameters a node gives."""


@primitive
@frozen
class Recurrent(Composite):
    """A cell run along sequences: all hidden states ``[tokens, directions, batch, H]``, the last ones, the last cells.

    Inputs: x ``[tokens, batch, I]``, w ``[directions, gates * H, I]``, r ``[directions, gates * H, H]``, then as
    *present* says bias ``[directions, 2 * gates * H]``, lengths ``[batch]``, first hidden states and cells
    ``[directions, batch, H]``, peephole weights ``[directions, 3 * H]`` (Hochreiter and Schmidhuber 1997; Cho et al.
    2014). The inputs of all tokens are multiplied at once; what is left are :class:`RecurrentSteps`.

    Attributes:
        cell: A key of ``GATES``.
        hidden: H.
        direction: ``forward``, ``reverse`` or ``bidirectional``.
        activations: Of the gates, then of the candidate, then of the cell; those of one direction behind the other's.
        clip: Bound on what activations read, but that of an LSTM's cell, as in ONNX Runtime and OpenVINO; 0: none.
        linear_before_reset: A GRU's reset gate scales the product with r, not what goes into it.
        coupled: An LSTM's forget gate is one less the input gate.
        batch_first: x is ``[batch, tokens, I]``, states ``[batch, directions, H]``.
        present: Names of the inputs from the fourth on.
        rounded: As of ``RecurrentSteps``.
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
    rounded: bool = False

    kind: ClassVar[str] = "recurrent"

    def compose(self, c: Composition) -> Sequence[str]:
        x, w, r, *more = c.inputs
        given = dict(zip(self.present, more, strict=True))
        steps = RecurrentSteps(
            self.cell,
            self.hidden,
            self.direction,
            self.activations,
            self.clip,
            self.linear_before_reset,
            self.coupled,
            tuple(n for n in self.present if n != "bias" or self.cell == "gru"),
            self.rounded,
        )
        rows = GATES[self.cell] * self.hidden
        wide = (steps.directions, rows)
        sizes, weights = c.layout(x).shape, c.layout(w).shape
        if len(sizes) != 3 or weights != (*wide, sizes[-1]) or c.layout(r).shape != (*wide, self.hidden):
            raise ShapeError(
                f"x {c.layout(x)}, w {c.layout(w)} and r {c.layout(r)} do not fit {self.hidden} hidden states"
            )
        if self.batch_first:
            x = c.add(Transpose((1, 0, 2)), x)
            given |= {n: c.add(Transpose((1, 0, 2)), v) for n, v in given.items() if n in ("hidden", "cell")}
        product = [x, c.add(Reshape((wide[0] * rows, sizes[-1]), zero_is_zero=True), w)]
        if "bias" in given:
            both = given.pop("bias")
            ahead, own = (c.add(Slice((start,), (start + rows,), axes=(1,)), both) for start in (0, rows))
            if self.cell == "gru":
                # Its reset may come between the two.
                given = {"bias": own, **given}
            else:
                ahead = c.add(Eltwise("add"), ahead, own)
            product.append(c.add(Reshape((wide[0] * rows,)), ahead))
        every, *last = c.add_all(steps, c.add(MatMul(transpose_b=True), *product), r, *given.values())
        if self.batch_first:
            every = c.add(Transpose((2, 0, 1, 3)), every)
            last = [c.add(Transpose((1, 0, 2)), v) for v in last]
        return (every, *last)


@onnx("RNN", since=(1, 7, 14, 22))
@onnx("GRU", since=(1, 3, 7, 14, 22))
@onnx("LSTM", since=(1, 7, 14, 22))
def import_recurrent(node: OnnxNode) -> Sequence[str]:
    return emit_recurrent(node, node.op_type.lower(), node.inputs)


def emit_recurrent(node: OnnxNode, cell: str, inputs: Sequence[str], *, rounded: bool = False) -> tuple[str, ...]:
    """Emit the *cell* that a node's attributes describe, of *inputs* in ONNX's order, ``""`` where one is absent."""
    reads = tuple(n for n, given in zip(_OPTIONAL, inputs[3:], strict=False) if given)
    names = [str(n).lower() for n in node.attribute("activations", ())]
    if unknown := [n for n in names if n not in ACTIVATIONS]:
        raise node.unsupported(f"the activation {unknown[0]!r} is not one of {', '.join(ACTIVATIONS)}")
    alphas, betas = list(node.attribute("activation_alpha", ())), list(node.attribute("activation_beta", ()))
    activations = []
    for name in names:
        ours, alpha, beta = ACTIVATIONS[name]
        alpha = alphas.pop(0) if name in _ALPHA and alphas else alpha
        activations.append((ours, alpha, betas.pop(0) if name in _BETA and betas else beta))
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
        rounded,
    )
    return node.emit(recurrent, *filter(None, inputs), outputs=3 if cell == "lstm" else 2)
