"""Products of floats that are whole, of values rounded by computed scales or of bytes: what they could be made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.integer_matmul import EXACT
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.passes.quantization.integer_products import MOST, Quantized, one_window, outputs_axis, windows_of
from clgraph.passes.quantization.weight_bytes import bytes_of, shifts_of


@frozen
class _Steps:
    """What ``without_integers`` has made of x: ``clip(round(x / scale), -zero, 255 - zero)``, *zero* a whole float."""

    x: Value
    scale: Value
    zero: Value


@frozen
class CenteredBytes:
    """A value of bytes less its zero point *zero*, of the same type."""

    bytes_: Value
    zero: Value


@frozen
class WholeProduct:
    """Sums of products of floats that are whole, and what makes them from bytes.

    Attributes:
        nodes: What it replaces, the last one makes the result.
        rounded: What the products read.
        weights: I8, less *shifts*.
        shifts: What is taken off the weights of each output: unsigned ones around no 128 fit no I8. ``None``: nothing.
        whole: A convolution of floats that makes it at once, and is as exact as any other of floats.
    """

    nodes: Sequence[Node]
    rounded: Value
    steps: _Steps | CenteredBytes
    primitive: Quantized
    weights: Array
    whole: Convolution | None
    shifts: Array | None = None

    @property
    def outputs(self) -> int:
        """The axis of the weights that the outputs are on."""
        return outputs_axis(self.primitive)

    @property
    def ones(self) -> Array:
        """Weights that add up each window: of all channels, or of the one of a group."""
        shape = list(self.weights.shape)
        shape[self.outputs] = windows_of(self.primitive)
        return np.ones(shape, np.int8)

    def totals_of(self, weights: Array) -> Array:
        """Return the sums of *weights* of each output."""
        along = tuple(a for a in range(weights.ndim) if a != self.outputs)
        return np.asarray(weights.sum(along, dtype=np.int64))


def whole_product(node: Node) -> WholeProduct | None:
    """Return the products of rounded floats that *node* is, or adds up, if it is such."""
    terms = _terms(node)
    if (
        not terms
        or node.output.layout.dtype != DType.F32
        or any(len(_terms(n)) > len(terms) for n in node.output.readers)
    ):
        return None
    p, parts = terms[0].primitive, [_part(t) for t in terms]
    rounded, end = parts[0].whole, 0
    for part in parts:
        if part.whole is not rounded or part.start != end:
            return None
        end = part.stop
    steps, weights = _steps(rounded) or _given(rounded), [t.inputs[1].constant for t in terms]
    found = [w for w in weights if w is not None]
    if steps is None or len(found) < len(terms) or end != rounded.layout.shape[_axis(p, rounded)]:
        return None
    if isinstance(p, Convolution):
        if p.bands > 1 or p.shuffled > 1 or isinstance(steps, CenteredBytes):
            return None
        made: Quantized = QuantizedConvolution(p.strides, p.dilations, p.pads, p.groups)
        axis = 1
    else:
        assert isinstance(p, MatMul)
        if p.transpose_a or found[0].ndim != 2 or rounded.layout.rank < 2:
            return None
        made, axis = QuantizedMatMul(p.transpose_b), int(p.transpose_b)
    whole = replace(p, exact=False) if isinstance(p, Convolution) else None
    joined = np.concatenate(found, axis)
    shifts = shifts_of(joined, outputs_axis(made))
    bytes_ = bytes_of(joined - shifts)
    if bytes_ is None or (shifts.any() and not one_window(made, joined.shape[0])):
        return None
    product = WholeProduct(_all(node, terms), rounded, steps, made, bytes_, whole, shifts if shifts.any() else None)
    along = tuple(a for a in range(bytes_.ndim) if a != product.outputs)
    largest = np.abs(bytes_, dtype=np.int64).sum(along).max(initial=0)
    counted = shifts.any() and any(_turns(n) for n in node.output.readers)
    return product if largest <= (EXACT // 255 if counted else MOST) else None


@frozen
class _Part:
    """The range of *whole* that a product adds up."""

    whole: Value
    start: int
    stop: int


def _terms(node: Node) -> list[Node]:
    """Return the products that *node* is, or adds up; none where it is something else."""
    if node.fused:
        return []
    if isinstance(node.primitive, MatMul | Convolution) and len(node.inputs) == 2:
        return [node]
    sums = node.primitive == Eltwise("add") or (isinstance(node.primitive, Reorder) and _turns(node))
    if not sums or any(v.producer is None or not v.has_one_use for v in node.inputs):
        return []
    found = [_terms(v.producer) for v in node.inputs if v.producer is not None]
    return [t for terms in found for t in terms] if all(found) else []


def _turns(node: Node) -> bool:
    """Whether a Reorder turns floats into ints or back, which products of many terms are added up in."""
    return {node.inputs[0].layout.dtype, node.output.layout.dtype} == {DType.F32, DType.I32}


def _all(node: Node, terms: Sequence[Node]) -> list[Node]:
    """Return the products and the sums of them, of which *node* is the last."""
    if node in terms:
        return [node]
    return [n for v in node.inputs if v.producer is not None for n in _all(v.producer, terms)] + [node]


def _part(term: Node) -> _Part:
    x = term.inputs[0]
    made, axis = x.producer, _axis(term.primitive, x)
    p = None if made is None or made.fused else made.primitive
    if made is None or not isinstance(p, Slice) or p.steps[axis] != 1:
        return _Part(x, 0, x.layout.shape[axis])
    whole = made.inputs[0]
    others = [a for a in range(x.layout.rank) if a != axis and x.layout.shape[a] != whole.layout.shape[a]]
    start = p.starts[axis]
    return _Part(x, 0, x.layout.shape[axis]) if others else _Part(whole, start, start + x.layout.shape[axis])


def _axis(p: Primitive, x: Value) -> int:
    return 1 if isinstance(p, Convolution) else x.layout.rank - 1


def _given(value: Value) -> CenteredBytes | None:
    """Return the bytes that *value* is, less their zero point."""
    made = value.producer
    if made is None or made.fused or not isinstance(made.primitive, Dequantize) or len(made.inputs) < 3:
        return None
    bytes_, scale, zero = made.inputs
    whole = scale.constant is not None and (scale.constant == 1).all()
    return CenteredBytes(bytes_, zero) if whole and bytes_.layout.dtype == DType.U8 and zero.layout.count == 1 else None


def _steps(value: Value) -> _Steps | None:
    """Return the steps that *value* was rounded to by ``without_integers``."""
    upper = _made(value, Eltwise("min"))
    lower = _made(upper.inputs[0], Eltwise("max")) if upper else None
    whole = _made(lower.inputs[0], Activation("round")) if lower else None
    quotient = _made(whole.inputs[0], Eltwise("div")) if whole else None
    if upper is None or lower is None or quotient is None:
        return None
    low, high = (_made(n.inputs[1], Activation("linear", -1.0, b)) for n, b in ((lower, 0.0), (upper, 255.0)))
    if low is None or high is None or low.inputs[0] is not high.inputs[0]:
        return None
    return _Steps(quotient.inputs[0], quotient.inputs[1], low.inputs[0])


def _made(value: Value, primitive: Primitive) -> Node | None:
    node = value.producer
    return node if node is not None and node.primitive == primitive and not node.fused else None
