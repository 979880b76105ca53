"""Products of values whose scale the network computes, from their bytes; a step of use_integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.quantize import Dequantize, Quantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.quantized_matmul import QuantizedMatMul
from clgraph.ops.reorder import Reorder
from clgraph.ops.slice import Slice
from clgraph.passes.base import Context
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.quantization.integer_products import (
    BANDWIDTH,
    MOST,
    Quantized,
    byte_type,
    bytes_of,
    one_window,
    shift_of,
    windows_of,
)
from clgraph.passes.rewriting import apart, substitute
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query


@frozen
class _Steps:
    """What ``without_integers`` has made of x: ``clip(round(x / scale), -zero, 255 - zero)``, *zero* a whole float."""

    x: Value
    scale: Value
    zero: Value


@frozen
class _Product:
    """Sums of products of floats that are whole, and what makes them from bytes.

    Attributes:
        nodes: What it replaces, the last one makes the result.
        rounded: What the products read.
        weights: I8, less *shift*: unsigned ones around no 128 fit no I8.
        whole: A convolution of floats that makes it at once, and is as exact as any other of floats.
    """

    nodes: Sequence[Node]
    rounded: Value
    steps: _Steps
    primitive: Quantized
    weights: Array
    whole: Convolution | None
    shift: int = 0

    @property
    def outputs(self) -> int:
        """The axis of the weights that the outputs are on."""
        return int(isinstance(self.primitive, QuantizedMatMul) and not self.primitive.transpose_b)

    @property
    def ones(self) -> Array:
        """Weights that add up each window: of all channels, or of the one of a group."""
        shape = list(self.weights.shape)
        shape[self.outputs] = windows_of(self.primitive)
        return np.ones(shape, np.int8)

    @property
    def totals(self) -> Array:
        """The sums of the weights of each output."""
        return self.totals_of(self.weights)

    def totals_of(self, weights: Array) -> Array:
        """Return the sums of *weights* of each output."""
        along = tuple(a for a in range(weights.ndim) if a != self.outputs)
        return np.asarray(weights.sum(along, dtype=np.int64))


def use_dynamic_integers(program: Program, context: Context) -> int:
    """Compute products from bytes where that is estimated faster; return how many.

    A device without dot products of bytes adds them up in floats that are rounded, where that is faster still: its
    Winograd transforms take less time for windows of 3 x 3 than products of 16-bit numbers do.
    """
    count = 0
    bytes_: dict[Value, Value] = {}
    sums: dict[tuple[Value, Quantized, Shape], Value] = {}
    for node in tuple(program):
        found = _product(node) if node in program else None
        if found is None:
            continue
        way = _fastest(context, found)
        if way is found.primitive:
            _rewrite(program, found, bytes_, sums)
            count += 1
        elif way is not None:
            weights = program.constant(f"{node.name}/weights", found.weights + np.float32(found.shift))
            x = _bytes_of(program, found, bytes_)
            assert x.producer is not None
            one, first = program.constant(f"{node.name}/one", np.ones((), np.float32)), found.nodes[0]
            read = [x, one, x.producer.inputs[2]]
            whole = program.insert(Dequantize(), read, sources=[x.producer], before=first).output
            _replace(program, found, way, [whole, weights])
    return count


def _product(node: Node) -> _Product | None:
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
    steps, weights = _steps(rounded), [t.inputs[1].constant for t in terms]
    found = [w for w in weights if w is not None]
    if steps is None or len(found) < len(terms) or end != rounded.layout.shape[_axis(p, rounded)]:
        return None
    if isinstance(p, Convolution):
        if p.bands > 1 or p.shuffled > 1:
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
    shift = shift_of(joined)
    bytes_ = bytes_of(joined - np.float32(shift))
    if bytes_ is None or (shift and not one_window(made, joined.shape[0])):
        return None
    product = _Product(_all(node, terms), rounded, steps, made, bytes_, whole, shift)
    rest = tuple(a for a in range(product.weights.ndim) if a != product.outputs)
    return product if np.abs(product.weights, dtype=np.int64).sum(rest).max(initial=0) <= MOST else None


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


def _fastest(context: Context, found: _Product) -> Primitive | None:
    """Return what makes it in less time than exact products of floats take, if anything does."""
    node = found.nodes[0]
    device = context.device(node)
    if byte_type(device) != DType.U8 or apart(list(found.nodes)) is not None:
        return None
    byte_ways = [_seconds(context, found, w) for w in (found.weights, *[found.ones] * (found.shift != 0))]
    floats = [proposals(context, n) for n in found.nodes]
    # What is rounded is written and read in any case, as floats or as bytes.
    moved = 2 * 3 * found.rounded.layout.count / (BANDWIDTH * device.bytes_per_second)
    if None in byte_ways or not all(floats):
        return None
    takes: dict[Primitive | None, float] = {None: sum(f[0].seconds for f in floats) + moved}
    takes[found.primitive] = sum(s for s in byte_ways if s is not None)
    if found.whole is not None and "vnni" not in device.features:
        layouts = (found.rounded.layout, Layout(DType.F32, found.weights.shape))
        asked = Query[Primitive](found.whole, layouts, found.whole.infer(layouts), device, 2, constant=frozenset({1}))
        whole = proposals(context, node, asked)
        if whole and whole[0].implementation is not floats[0][0].implementation:
            widened = _widened_seconds(context, found)
            takes[found.whole] = whole[0].seconds + (moved if widened is None else widened)
    return min(takes, key=lambda way: takes[way])


def _widened_seconds(context: Context, found: _Product) -> float | None:
    """Return what making floats of the bytes takes, in blocks of channels; ``None`` where nothing makes them."""
    node, shape = found.nodes[0], found.rounded.layout.shape
    inputs = tuple(Layout(*x) for x in ((DType.U8, shape), (DType.F32, ()), (DType.U8, ())))
    made = Dequantize().infer(inputs)
    q = Query[Primitive](Dequantize(), inputs, made, context.device(node), 3, constant=frozenset({1}))
    return next((p.seconds for p in proposals(context, node, q) if p.query.outputs[0].format.blocks), None)


def _seconds(context: Context, found: _Product, weights: Array) -> float | None:
    """Return what the product of the bytes with *weights* takes, ``None`` where a general kernel alone makes it."""
    node, outputs = found.nodes[0], (weights.shape[found.outputs],)
    parameters = [Layout(t, outputs) for t in (DType.I32, DType.F32, DType.F32)]
    inputs = (
        Layout(DType.U8, found.rounded.layout.shape), Layout.of(weights), *parameters, Layout(DType.U8, ()),
    )  # fmt: skip
    made, device = found.primitive.infer(inputs), context.device(node)
    q = Query[Primitive](found.primitive, inputs, made, device, len(inputs), constant=frozenset({1, 2, 3, 4}))
    return next((p.seconds for p in proposals(context, node, q) if not p.implementation.general), None)


def _rewrite(
    program: Program,
    found: _Product,
    bytes_: dict[Value, Value],
    sums: dict[tuple[Value, Quantized, Shape], Value],
) -> None:
    node, x = found.nodes[-1], _bytes_of(program, found, bytes_)
    inputs = _inputs(program, found, x, node.name, found.weights)
    if not found.shift:
        _replace(program, found, found.primitive, inputs)
        return
    ones, first = found.ones, found.nodes[0]
    key = x, found.primitive, ones.shape
    if key not in sums:
        # Sums of up to 2^24 are exact floats, as products are that ONNX Runtime makes floats of.
        added_up = _inputs(program, found, x, f"{node.name}/windows", ones)
        sums[key] = program.insert(found.primitive, added_up, sources=[first], before=first).output
    shifted = Activation("linear", float(found.shift))
    missing = program.insert(shifted, [sums[key]], sources=[first], before=first).output
    product = program.insert(found.primitive, inputs, sources=list(found.nodes), before=node).output
    _replace(program, found, Eltwise("add"), [product, missing])


def _bytes_of(program: Program, found: _Product, bytes_: dict[Value, Value]) -> Value:
    """Return the bytes of what the products read, made once for all that read it."""
    if found.rounded not in bytes_:
        made, steps = found.rounded.producer, found.steps
        assert made is not None
        zero = program.insert(Reorder(DType.U8), [steps.zero], sources=[made], before=made).output
        inputs, quantize = [steps.x, steps.scale, zero], Quantize(0, dtype=DType.U8)
        bytes_[found.rounded] = program.insert(quantize, inputs, sources=[made], before=made).output
    return bytes_[found.rounded]


def _inputs(program: Program, found: _Product, x: Value, name: str, weights: Array) -> list[Value]:
    """Return the inputs of the product of the bytes *x* with *weights*."""
    totals = found.totals_of(weights)
    ones, none = np.ones(totals.size, np.float32), np.zeros(totals.size, np.float32)
    numbers = {"weights": weights, "totals": totals.astype(np.int32), "scale": ones, "bias": none}
    assert x.producer is not None
    return [x, *(program.constant(f"{name}/{n}", a) for n, a in numbers.items()), x.producer.inputs[2]]


def _replace(program: Program, found: _Product, primitive: Primitive, inputs: list[Value]) -> None:
    """Let *primitive* make it of *inputs*, and drop what nothing reads any more."""
    sources = [v.producer for n in found.nodes for v in n.inputs]
    substitute(program, list(found.nodes), primitive, inputs, found.nodes[-1])
    for source in dict.fromkeys(s for s in sources if s is not None):
        if source in program:
            drop(program, source)
