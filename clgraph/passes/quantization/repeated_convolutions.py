"""Convolutions of bytes that are computed for their range, and once more for their bytes: of compute_twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Fused, Node, Value
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.noted_extreme import EXTREMA
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_convolution import QuantizedConvolution
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape
from clgraph.ops.sum_extremes import SumExtremes
from clgraph.passes.base import Context
from clgraph.passes.rewriting import apart
from clgraph.passes.selection import proposals
from clgraph.selector.query import Query

_BOUNDS = frozenset({"relu", "clip"})
"""Functions that rise with their argument, and have the same bits wherever they are fused."""

_KEPT = 1 << 21
"""Bytes of a result most of which a core's own cache keeps until they are rounded. MobileNetV2, 96 channels of
112 x 112: floats of 4.8 MB take a Zen 5 without VNNI 380 us, estimated 240, their bytes 155 us, estimated 190."""


def repeat(program: Program, context: Context, node: Node) -> bool:
    """Compute *node* twice where that is faster; say whether it is."""
    value, readers = node.output, node.output.readers
    ranges = [n for n in readers if _is_range(n, value)]
    rounding = [n for n in readers if _rounds(n, value)]
    if len(rounding) != 1 or not ranges or len(readers) > len(ranges) + 1 or program.is_output(value):
        return False
    if apart([node, *readers]) is not None or not all(_rises_or_falls(f, node) for f in node.fused):
        return False
    (quantize,) = rounding
    if not _pays(context, node, quantize):
        return False
    found = program.insert(_extremes(node), node.inputs[: node.arity], sources=[node], before=node).output
    for step in node.fused:
        others = [node.inputs[s] for s in step.operands]
        inputs = [*others[: step.slot], found, *others[step.slot :]]
        found = program.insert(step.primitive, inputs, sources=[node], before=node).output
    for reader in ranges:
        # A channel has one number of each kind: there are no pixels to reduce.
        flat = Reshape(found.layout.shape[:2])
        of_sums = program.insert(flat, [found], sources=[reader], before=reader)
        program.rewire(reader.output, of_sums.output)
        program.erase(reader)
    program.fuse(quantize, node)
    return True


def _is_range(node: Node, value: Value) -> bool:
    """Whether *node* is the first part of an extreme of all elements of *value*: that of its pixels."""
    p = node.primitive
    if not isinstance(p, Reduce) or p.function not in EXTREMA or node.fused:
        return False
    rank = value.layout.rank
    parts = node.output.readers
    return p.reduced(rank) == tuple(range(2, rank)) and bool(parts) and all(_reduces_all(n, p.function) for n in parts)


def _reduces_all(node: Node, function: str) -> bool:
    p, rank = node.primitive, node.inputs[0].layout.rank
    whole = isinstance(p, Reduce) and p.function == function and p.reduced(rank) == tuple(range(rank))
    return whole and not any(f.where == "pre" for f in node.fused)


def _rounds(node: Node, value: Value) -> bool:
    return isinstance(node.primitive, Quantize) and node.inputs[0] is value and value not in node.inputs[1:]


def _rises_or_falls(step: Fused, node: Node) -> bool:
    """Whether what *step* makes of a channel's numbers rises or falls with them."""
    p = step.primitive
    if step.where != "post":
        return False
    if isinstance(p, Activation):
        return p.function in _BOUNDS
    y = node.output.layout
    of_channels = all(_is_of_channels(node.inputs[s].layout.shape, y.rank) for s in step.operands)
    return isinstance(p, Eltwise) and p.function in ("add", "mul") and of_channels


def _is_of_channels(shape: tuple[int, ...], rank: int) -> bool:
    """Whether an operand of *shape* is a number for each channel of a result of *rank* axes, or one for all."""
    return all(size == 1 for axis, size in enumerate(shape, rank - len(shape)) if axis != 1)


def _pays(context: Context, node: Node, quantize: Node) -> bool:
    """Whether the device has what computes *node* twice, and is estimated faster so."""
    q, operands = context.query(node), tuple(v.layout for v in quantize.inputs[1:])
    slots = tuple(range(len(q.inputs), len(q.inputs) + len(operands)))
    rounded = replace(
        q,
        inputs=(*q.inputs, *operands),
        fused=(*q.fused, Fused(quantize.primitive, slots)),
        outputs=(replace(q.outputs[0], dtype=DType.U8),),
    )
    extremes, own = _extremes(node), q.inputs[: q.arity]
    noted = Query(extremes, own, extremes.infer(own), q.device, q.arity, constant=q.constant & set(range(q.arity)))
    once = [_seconds(context, node, q), _seconds(context, quantize, context.query(quantize)), _away_seconds(q)]
    return _seconds(context, node, noted) + _seconds(context, node, rounded) < sum(once) < np.inf


def _away_seconds(q: Query[Any]) -> float:
    """Return what products wait for to write floats that a core's own cache does not keep, and what reads them."""
    away, costs = max(0, q.outputs[0].nbytes - _KEPT), q.device.costs
    return 2 * away * q.device.crowding / (costs.cache_bytes_per_second * q.device.whole.workers)


def _seconds(context: Context, node: Node, q: Query[Any]) -> float:
    """Return what *q* takes in place of *node*, infinity where a general kernel alone computes it."""
    found = proposals(context, node, q)
    return next((p.seconds for p in found if not p.implementation.general), np.inf)


def _extremes(node: Node) -> SumExtremes:
    p = node.primitive
    assert isinstance(p, QuantizedConvolution)
    return SumExtremes(p.strides, p.dilations, p.pads, p.groups, p.zero)
