"""Products of values whose scale the network computes, and of bytes it is given; a step of use_integers."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.passes.base import Context
from clgraph.passes.quantization.dynamic_quantization import drop
from clgraph.passes.quantization.integer_products import (
    BANDWIDTH,
    Quantized,
    byte_type,
    listed_seconds,
)
from clgraph.passes.quantization.saturation import with_saturation
from clgraph.passes.quantization.whole_products import CenteredBytes, WholeProduct, whole_product
from clgraph.passes.rewriting import apart, substitute
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

_BEHIND = 3
"""Operations behind a product: the scale, the bias and the range. Bytes' take them in registers."""


@frozen
class _Bytes:
    """Bytes, and which of them stands for 0."""

    value: Value
    zero: Value


def use_dynamic_integers(program: Program, context: Context) -> int:
    """Compute products from bytes where that is estimated faster; return how many.

    A device without dot products of bytes adds them up in floats that are rounded, where that is faster still: its
    Winograd transforms take less time for windows of 3 x 3 than products of 16-bit numbers do.
    """
    count = 0
    bytes_: dict[Value, _Bytes] = {}
    sums: dict[tuple[Value, Quantized, Shape], Value] = {}
    for node in tuple(program):
        found = whole_product(node) if node in program else None
        if found is None:
            continue
        way = _fastest(context, found)
        if way is found.primitive:
            _rewrite(program, found, bytes_, sums)
            count += 1
        elif way is not None:
            shifts = np.float32(0) if found.shifts is None else found.shifts
            weights = program.constant(f"{node.name}/weights", found.weights + shifts)
            x = _bytes_of(program, found, bytes_)
            one, first = program.constant(f"{node.name}/one", np.ones((), np.float32)), found.nodes[0]
            whole = program.insert(Dequantize(), [x.value, one, x.zero], sources=[first], before=first).output
            _replace(program, found, way, [whole, weights])
    return count


def _fastest(context: Context, found: WholeProduct) -> Primitive | None:
    """Return what makes it in less time than exact products of floats take, if anything does."""
    node = found.nodes[0]
    device = context.device(node)
    if byte_type(device) != DType.U8 or apart(list(found.nodes)) is not None:
        return None
    byte_ways = [_seconds(context, found, w) for w in (found.weights, *[found.ones] * (found.shifts is not None))]
    floats = [proposals(context, n) for n in found.nodes]
    # What is rounded is written and read in any case, as floats or as bytes.
    moved = 2 * 3 * found.rounded.layout.count / (BANDWIDTH * device.bytes_per_second)
    behind = listed_seconds(device, found.nodes[-1].output.layout, _BEHIND)
    if None in byte_ways or not all(floats):
        return None
    takes: dict[Primitive | None, float] = {None: sum(f[0].seconds for f in floats) + moved + behind}
    takes[found.primitive] = sum(s for s in byte_ways if s is not None)
    if found.whole is not None and "vnni" not in device.features:
        layouts = (found.rounded.layout, Layout(DType.F32, found.weights.shape))
        asked = Query[Primitive](found.whole, layouts, found.whole.infer(layouts), device, 2, constant=frozenset({1}))
        whole = proposals(context, node, asked)
        if whole and whole[0].implementation is not floats[0][0].implementation:
            widened = _widened_seconds(context, found)
            takes[found.whole] = whole[0].seconds + (moved if widened is None else widened) + behind
    return min(takes, key=lambda way: takes[way])


def _widened_seconds(context: Context, found: WholeProduct) -> float | None:
    """Return what making floats of the bytes takes, in blocks of channels; ``None`` where nothing makes them."""
    node, shape = found.nodes[0], found.rounded.layout.shape
    inputs = tuple(Layout(*x) for x in ((DType.U8, shape), (DType.F32, ()), (DType.U8, ())))
    made = Dequantize().infer(inputs)
    q = Query[Primitive](Dequantize(), inputs, made, context.device(node), 3, constant=frozenset({1}))
    return next((p.seconds for p in proposals(context, node, q) if p.query.outputs[0].format.blocks), None)


def _seconds(context: Context, found: WholeProduct, weights: Array) -> float | None:
    """Return what the product of the bytes with *weights* takes, ``None`` where a general kernel alone makes it."""
    node, outputs = found.nodes[0], (weights.shape[found.outputs],)
    parameters = [Layout(t, outputs) for t in (DType.I32, DType.F32, DType.F32)]
    inputs = (
        Layout(DType.U8, found.rounded.layout.shape), Layout.of(weights), *parameters, Layout(DType.U8, ()),
    )  # fmt: skip
    made, device = found.primitive.infer(inputs), context.device(node)
    q = Query[Primitive](found.primitive, inputs, made, device, len(inputs), constant=frozenset({1, 2, 3, 4}))
    seconds = next((p.seconds for p in proposals(context, node, q) if not p.implementation.general), None)
    return None if seconds is None else with_saturation(device, found.primitive, weights, seconds)


def _rewrite(
    program: Program,
    found: WholeProduct,
    bytes_: dict[Value, _Bytes],
    sums: dict[tuple[Value, Quantized, Shape], Value],
) -> None:
    node, x = found.nodes[-1], _bytes_of(program, found, bytes_)
    inputs = _inputs(program, found, x, node.name, found.weights)
    if found.shifts is None:
        _replace(program, found, found.primitive, inputs)
        return
    ones, first = found.ones, found.nodes[0]
    key = x.value, found.primitive, ones.shape
    if key not in sums:
        # Sums of up to 2^24 are exact floats, as products are that ONNX Runtime makes floats of.
        added_up = _inputs(program, found, x, f"{node.name}/windows", ones)
        sums[key] = program.insert(found.primitive, added_up, sources=[first], before=first).output
    missing = _times(program, sums[key], found)
    product = program.insert(found.primitive, inputs, sources=list(found.nodes), before=node).output
    _replace(program, found, Eltwise("add"), [product, missing])


def _times(program: Program, sums: Value, found: WholeProduct) -> Value:
    """Return the sums of the windows times what was taken off the weights of each output."""
    first, shifts = found.nodes[0], found.shifts
    assert shifts is not None
    if shifts.size == 1:
        one = Activation("linear", float(shifts.reshape(-1)[0]))
        return program.insert(one, [sums], sources=[first], before=first).output
    pixels = isinstance(found.primitive, QuantizedConvolution)
    of_outputs = shifts.reshape(-1, *(1,) * (shifts.ndim - 2)) if pixels else shifts.reshape(-1)
    factors = program.constant(f"{found.nodes[-1].name}/shifts", of_outputs)
    return program.insert(Eltwise("mul"), [sums, factors], sources=[first], before=first).output


def _bytes_of(program: Program, found: WholeProduct, bytes_: dict[Value, _Bytes]) -> _Bytes:
    """Return the bytes of what the products read, made once for all that read it."""
    if found.rounded not in bytes_:
        made, steps = found.rounded.producer, found.steps
        assert made is not None
        if isinstance(steps, CenteredBytes):
            zero, value = steps.zero, steps.bytes_
            if zero.layout.shape:
                zero = program.insert(Reshape(()), [zero], sources=[made], before=made).output
        else:
            zero = program.insert(Reorder(DType.U8), [steps.zero], sources=[made], before=made).output
            inputs, quantize = [steps.x, steps.scale, zero], Quantize(0, dtype=DType.U8)
            value = program.insert(quantize, inputs, sources=[made], before=made).output
        bytes_[found.rounded] = _Bytes(value, zero)
    return bytes_[found.rounded]


def _inputs(program: Program, found: WholeProduct, x: _Bytes, name: str, weights: Array) -> list[Value]:
    """Return the inputs of the product of the bytes *x* with *weights*."""
    totals = found.totals_of(weights)
    ones, none = np.ones(totals.size, np.float32), np.zeros(totals.size, np.float32)
    numbers = {"weights": weights, "totals": totals.astype(np.int32), "scale": ones, "bias": none}
    return [x.value, *(program.constant(f"{name}/{n}", a) for n, a in numbers.items()), x.zero]


def _replace(program: Program, found: WholeProduct, primitive: Primitive, inputs: list[Value]) -> None:
    """Let *primitive* make it of *inputs*, and drop what nothing reads any more."""
    sources = [v.producer for n in found.nodes for v in n.inputs]
    substitute(program, list(found.nodes), primitive, inputs, found.nodes[-1])
    for source in dict.fromkeys(s for s in sources if s is not None):
        if source in program:
            drop(program, source)
