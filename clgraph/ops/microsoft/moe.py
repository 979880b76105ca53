"""Mixtures of experts: ONNX Runtime's MoE and QMoE, whose weights of 2, 4 or 8 bits stay packed, as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.block_matmul import BlockMatMul
from clgraph.ops.concat import Concat
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.expert_matmul import ExpertMatMul
from clgraph.ops.expert_order import ExpertOrder
from clgraph.ops.gather import Gather
from clgraph.ops.gather_elements import GatherElements
from clgraph.ops.matmul import MatMul
from clgraph.ops.microsoft.block_quantised import given
from clgraph.ops.microsoft.expert_rows import rows_by_expert, sizes_of
from clgraph.ops.microsoft.expert_weights import Form, expert_weights
from clgraph.ops.microsoft.gates import SwiGLU
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.top_k import TopK

_FEW = 64
"""Choices of an expert that are computed one by one in less time than in runs, some to an expert."""

ACTIVATIONS = {
    "relu": Activation("relu"),
    "gelu": Activation("gelu_tanh"),
    "silu": Activation("swish", 1.0),
    "identity": Activation("linear", 1.0, 0.0),
}
"""Those that ONNX Runtime's operators have, by name."""

EXPERT_ACTIVATIONS = ACTIVATIONS | {"gelu_erf": Activation("gelu")}
"""Those with one that experts of other spellings have."""


@primitive
@frozen
class MixtureOfExperts(Composite):
    """The *k* best experts' networks of two layers for every row of x, by their shares (Shazeer et al. 2017).

    Inputs: x ``[rows, K]`` or ``[batch, tokens, K]``; the router's numbers ``[rows, experts]``, whose softmax is the
    shares; then as *reads* says: fc1 ``[experts, N, K]`` and fc2 ``[experts, K, N]``, biases b1 and b2, fc3 and b3 like
    fc1's, and shares ``[rows, experts]`` in place of the router's.

    Rows stand in the order of the experts that they have chosen. Where weights are packed, few rows take copies of
    their experts'; many stand in runs of one expert each, which take copies.

    Attributes:
        activation: Behind the first layer: one of a gate and a value, ``swiglu``, has *fusion*.
        normal: Whether the shares of the best add up to 1.
        fusion: Of swiglu: 1 for gate and value in turns in fc1, 2 for one behind the other, 0 for the value in fc3.
        alpha, beta, limit: Of :class:`SwiGLU`.
        chosen: The router's numbers are the places of the best ``[rows, k]``, and shares are theirs.
        columns: fc1 and fc3 are ``[experts, K, N]``, fc2 ``[experts, N, K]``.
        packed: The form of each fc whose weights are records ``[experts, *records]``: its name, and the columns, depth,
            bits, block and zero points of its products.
    """

    k: int = 1
    activation: str = "relu"
    normal: bool = False
    fusion: int = 0
    alpha: float = 1.0
    beta: float = 0.0
    limit: float | None = None
    reads: tuple[str, ...] = ("fc1", "fc2")
    packed: tuple[Form, ...] = ()
    chosen: bool = False
    columns: bool = False

    kind: ClassVar[str] = "mixture_of_experts"
    holds_sizes: ClassVar[bool] = False

    def value_slots(self) -> tuple[int, ...]:
        return ()

    def compose(self, c: Composition) -> Sequence[str]:
        x, router, *others = c.inputs
        w = dict(zip(self.reads, others, strict=True))
        shape, experts, rows = c.layout(x).shape, c.layout(router).shape[-1], c.layout(router).shape[0]
        experts = c.layout(w["fc1"]).shape[0] if self.chosen else experts
        x = c.add(Reshape((rows, shape[-1]), zero_is_zero=True), x)
        if not 0 < self.k <= experts or c.layout(w["fc1"]).shape[0] != experts:
            raise ShapeError(f"{self.k} of {experts} experts cannot be chosen, nor have weights {c.layout(w['fc1'])}")
        shares, places = self._chosen(c, router, w.pop("shares", None))
        if not self.packed:
            y = self._in_order(c, x, w, shares, places)
        elif _takes_each(rows * self.k, experts):
            y = self._of_chosen(c, x, w, shares, places)
        else:
            y = self._of_runs(c, x, w, shares, places, experts)
        return (c.add(Reshape(shape, zero_is_zero=True), y),)

    def _chosen(self, c: Composition, router: str, shares: str | None) -> tuple[str, str]:
        """Return shares and places ``[rows, k]`` of the best experts."""
        if self.chosen and shares is not None:
            return shares, router
        best, places = c.add_all(TopK(-1, k=self.k), router)
        if shares is not None:
            best = c.add(GatherElements(1), shares, places)
        elif self.normal:
            return c.add(Softmax((1,)), best), places
        else:
            best = c.add(GatherElements(1), c.add(Softmax((1,)), router), places)
        if self.normal:
            best = c.add(Eltwise("div"), best, c.add(Reduce("sum", (1,)), best))
        return best, places

    def _of_chosen(self, c: Composition, x: str, w: dict[str, str], shares: str, places: str) -> str:
        rows, k = c.layout(places).shape
        flat = c.add(Reshape((rows * k,), zero_is_zero=True), places)
        each = c.add(Gather(0), x, c.constant(np.repeat(np.arange(rows), k)))
        return _shared(c, self._one_by_one(c, each, w, flat, 1), shares)

    def _of_runs(self, c: Composition, x: str, w: dict[str, str], shares: str, places: str, experts: int) -> str:
        runs = rows_by_expert(c, places, experts)
        y = self._one_by_one(c, c.add(Gather(0), x, runs.rows), w, runs.experts, runs.size)
        y = c.add(Reshape((runs.runs * runs.size, -1)), y)
        return _shared(c, c.add(Gather(0), y, runs.places), shares)

    def _in_order(self, c: Composition, x: str, w: dict[str, str], shares: str, places: str) -> str:
        numbers, row, _, stands = c.add_all(ExpertOrder(), places)
        y = self._experts(c, c.add(Gather(0), x, row), w, numbers)
        return _shared(c, c.add(Gather(0), y, c.add(Reshape((-1,)), stands)), shares)

    def _one_by_one(self, c: Composition, x: str, w: dict[str, str], places: str, size: int) -> str:
        """Return what the expert at each of *places* makes of its *size* rows of x."""
        made = []
        for i in range(c.layout(places).shape[0]):
            row = c.add(Slice((i * size,), ((i + 1) * size,), axes=(0,)), x)
            own = _of(c, w, c.add(Slice((i,), (i + 1,), axes=(0,)), places))
            made.append(self._experts(c, c.add(Reshape((1, size, -1)), row), own))
        return c.add(Concat(0), *made) if len(made) > 1 else made[0]

    def _experts(self, c: Composition, x: str, w: dict[str, str], numbers: str = "") -> str:
        """Return what an expert makes of x ``[1, rows, K]``, or that of each row's number of x ``[rows, K]``."""
        y = self._layer(c, x, "1", w, numbers)
        if self.activation == "swiglu":
            y = c.add(SwiGLU(self.alpha, self.beta, self.limit), *self._halves(c, x, y, w, numbers))
        else:
            y = c.add(EXPERT_ACTIVATIONS[self.activation], y)
            if "fc3" in w:
                y = c.add(Eltwise("mul"), y, self._layer(c, x, "3", w, numbers))
        return self._layer(c, y, "2", w, numbers)

    def _layer(self, c: Composition, x: str, layer: str, w: dict[str, str], numbers: str) -> str:
        name, bias = f"fc{layer}", w.get(f"b{layer}")
        form = next((p for p in self.packed if p[0] == name), None)
        if numbers:
            y = c.add(ExpertMatMul(transpose_b=not self.columns), x, w[name], numbers)
            return y if bias is None else c.add(Eltwise("add"), y, c.add(Gather(0), bias, numbers))
        if form is None:
            y = c.add(MatMul(transpose_b=True), x, w[name])
        else:
            product = BlockMatMul(*form[1:])
            records = c.add(Reshape(product.records.shape(product.columns, product.depth)), w[name])
            y = c.add(product, x, records)
        if bias is None:
            return y
        experts, width = c.layout(bias).shape
        return c.add(Eltwise("add"), y, c.add(Reshape((experts, 1, width), zero_is_zero=True), bias))

    def _halves(self, c: Composition, x: str, y: str, w: dict[str, str], numbers: str) -> Sequence[str]:
        """Return gate and value of a swiglu."""
        if self.fusion == 0:
            return y, self._layer(c, x, "3", w, numbers)
        if self.fusion == 2:
            return c.add_all(Split(-1, parts=2), y)
        size = c.layout(y).shape[-1]
        return [c.add(Slice((i,), (size,), axes=(-1,), steps=(2,)), y) for i in (0, 1)]


def _takes_each(pairs: int, experts: int) -> bool:
    """Whether each of *pairs* takes a copy of its expert: the weights of few bits of few, which are read once."""
    _, runs = sizes_of(pairs, experts)
    return pairs <= runs or pairs <= min(3 * runs, _FEW)


def _shared(c: Composition, y: str, shares: str) -> str:
    """Return the sums of y, of each choice, times its share of *shares* ``[rows, k]``."""
    rows, k = c.layout(shares).shape
    y = c.add(Reshape((rows, k, -1)), y)
    y = c.add(Eltwise("mul"), y, c.add(Reshape((rows, k, 1), zero_is_zero=True), shares))
    return c.add(Reduce("sum", (1,)), y)


def _of(c: Composition, w: dict[str, str], places: str) -> dict[str, str]:
    """Return weights and biases of the experts at *places*."""
    return {name: c.add(Gather(0), value, places) for name, value in w.items()}


def _mixture(node: OnnxNode, reads: Sequence[str], packed: Sequence[Form] = ()) -> MixtureOfExperts:
    activation, fusion = node.attribute("activation_type", "relu"), node.attribute("swiglu_fusion", 0)
    if activation not in (*ACTIVATIONS, "swiglu"):
        known = ", ".join((*ACTIVATIONS, "swiglu"))
        raise node.unsupported(f"activation_type is one of {known}, not {activation!r}")
    if activation == "swiglu" and (fusion not in (0, 1, 2) or (fusion == 0) != ("fc3" in reads)):
        raise node.unsupported(f"swiglu_fusion={fusion} with{'' if 'fc3' in reads else 'out'} fc3 is not a swiglu")
    if node.attribute("swiglu_limit_after_activation", 0):
        raise node.unsupported("swiglu_limit_after_activation=1 is not supported: ONNX Runtime's CPU has none, too")
    return MixtureOfExperts(
        node.attribute("k", 1),
        activation,
        bool(node.attribute("normalize_routing_weights", 0)),
        fusion,
        node.attribute("activation_alpha", 1.0),
        node.attribute("activation_beta", 0.0),
        node.attribute("swiglu_limit", None),
        tuple(reads),
        tuple(packed),
    )


@onnx("MoE", since=(1,), domain=MICROSOFT)
def import_moe(node: OnnxNode) -> Sequence[str]:
    names = ("fc1", "b1", "fc2", "b2", "fc3", "b3")
    reads = {name: x for name, x in zip(names, node.inputs[2:], strict=False) if x}
    return node.emit(_mixture(node, tuple(reads)), *node.inputs[:2], *reads.values())


@onnx("QMoE", since=(1,), domain=MICROSOFT)
def import_qmoe(node: OnnxNode) -> Sequence[str]:
    """Return MoE by the weights as records; as floats of the scales' type where their blocks are none of records."""
    if (form := node.attribute("quant_type", "int")) != "int":
        raise node.unsupported(f"quant_type={form!r} is not supported: ONNX Runtime's CPU has int alone, too")
    if any(given(node, slot) for slot in range(15, 21)):
        raise node.unsupported("scales of activations, for other weights than integers, are not there")
    reads, packed = dict[str, str](), list[Form]()
    for layer, (at, zeros) in enumerate(((2, 11), (5, 12), (8, 13)), start=1):
        if given(node, at):
            w = expert_weights(node, layer, at, zeros)
            if (form := w.form) is None:
                why = f"blocks of {w.depth // w.scales.shape[2]} are no records"
                node.note(f"{w.name} of {w.bits} bits becomes {w.scales.dtype} when the model is read, because {why}")
            reads[w.name] = node.literal(w.floats() if form is None else w.records(form))
            packed += [] if form is None else [form]
            if given(node, at + 2):
                reads[f"b{layer}"] = node.inputs[at + 2]
    if given(node, 14):
        reads["shares"] = node.inputs[14]
    mixture = _mixture(node, tuple(reads), packed)
    if "shares" not in reads:  # ONNX Runtime's CPU asks for normalize_routing_weights of shares that it is given alone
        mixture = replace(mixture, normal=True)
    return node.emit(mixture, *node.inputs[:2], *reads.values())
