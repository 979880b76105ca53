"""Batch normalisation with the statistics of training; fused into its producer or decomposed wherever possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import (
    REALS,
    General,
    accesses,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class BatchNormalization(Primitive):
    """``y = (x - mean) / sqrt(variance + epsilon) * scale + bias``, a channel at a time.

    Inputs: x ``[N, C, ...]``, then scale, bias, mean and variance, each ``[C]``.
    """

    epsilon: float = 1e-5

    kind: ClassVar[str] = "batch_normalization"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x = inputs[0]
        channels = (x.shape[1],) if x.rank > 1 else (1,)
        if len(inputs) != 5 or any(v.shape != channels for v in inputs[1:]):
            found = ", ".join(str(list(v.shape)) for v in inputs[1:])
            raise ShapeError(f"scale, bias, mean and variance want shape {list(channels)}, not {found}")
        return (x.plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0]
        exact = np.result_type(x.dtype, np.float32)
        scale, bias, mean, variance = (v.astype(exact) for v in inputs[1:])
        factor, shift = self.affine(scale, bias, mean, variance)
        wide = (-1, *(1 for _ in x.shape[2:]))
        return ((x.astype(exact) * factor.reshape(wide) + shift.reshape(wide)).astype(x.dtype),)

    def affine(self, scale: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return the factor and the shift a channel that the whole amounts to."""
        factor = scale / np.sqrt(variance + np.asarray(self.epsilon, variance.dtype))
        return factor, bias - mean * factor

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 2.0 * outputs[0].count


@onnx("BatchNormalization", since=(1, 6, 7, 9, 14, 15))
def import_batch_normalization(node: OnnxNode) -> Primitive | Sequence[str]:
    """Return the primitive, or the layers of training and of statistics a feature.

    What trains is said by ``is_test`` before version 7 and by ``training_mode`` since 14. Between them by the number of
    outputs: exporters wrote all five for inference too, so that those that something reads count.
    """
    epsilon, spatial = node.attribute("epsilon", 1e-5), bool(node.attribute("spatial", 1))
    if node.since < 7:
        training = not node.attribute("is_test", 0)
    else:
        training = bool(node.attribute("training_mode", 0)) if node.since >= 14 else node.output_count > 1
    if node.output_count > 1 and not training:
        raise node.unsupported("statistics are results in training only, and the node has training_mode=0")
    if not training and spatial:
        return BatchNormalization(epsilon)
    from clgraph.ops.batch_statistics import BatchStatistics

    statistics = BatchStatistics(epsilon, node.attribute("momentum", 0.9), spatial, training)
    return node.emit(statistics, *node.inputs, outputs=5)


@implements(
    BatchNormalization,
    name="batch_normalization.ref",
    serves=Serves(dtypes=REALS, mixed=True, fuses=FUSABLE),
    general=True,
)
class BatchNormalizationRef(General[BatchNormalization]):
    """One work-item an element, any rank; scale and bias may be of another type than x, mean and variance too."""

    @classmethod
    def further_limits(cls, q: Query[BatchNormalization]) -> str | None:
        x, scale, bias, mean, variance = (v.dtype for v in q.own)
        if (scale, mean) != (bias, variance) or any(v.dtype != x for v in (*q.outputs, *q.inputs[q.arity :])):
            return "requires scale and bias of one type, mean and variance too, and operands of the type of x"
        return "mixes doubles with no other type" if DType.F64 in q.dtypes and len(q.dtypes) > 1 else None

    @classmethod
    def plan(cls, q: Query[BatchNormalization]) -> Plan:
        (y,) = q.outputs
        channel = min(1, y.rank - 1)
        flat = [
            View(v.origin, tuple(v.all_pitches[0] if a == channel and y.rank > 1 else 0 for a in range(y.rank)))
            for v in q.own[1:]
        ]
        s = space(y.shape, [View.of(y), View.of(q.inputs[0]), *flat, *post_views(q)])
        posts = post_arguments(q, s.views[6:], len(s.dims))
        arguments = ("in0", "in1", "in2", "in3", "in4", "out0", table(s.dims, *s.views[:6]), q.primitive.epsilon)
        jit = float_jit(y.dtype, len(s.dims))
        for name, v in (("S", q.own[1]), ("M", q.own[3])):
            jit = jit if v.dtype == y.dtype else jit.define(**accesses(v.dtype, name))
        return Plan((launch("batch_normalization/batch_normalization_ref", jit, s.counts[0], *arguments, *posts),))
