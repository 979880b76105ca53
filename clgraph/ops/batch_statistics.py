"""Batch normalisation by statistics of the batch itself, as in training, or by statistics of every feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import mean_of
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape


@primitive
@frozen
class BatchStatistics(Composite):
    """``y = (x - mean) / sqrt(variance + epsilon) * scale + bias``, mean and variance those of x over its batch.

    Inputs: x ``[N, C, ...]``, then scale, bias, running mean and running variance, each ``[C]``, or ``[C, ...]``
    without *spatial*. Results: y, both running statistics brought up to date, both of the batch. The variance is that
    of the batch itself, a sum divided by N, not by N - 1. Halves are computed as floats.

    Attributes:
        momentum: What of the running statistics stays.
        spatial: The statistics are those of a channel, not of a feature.
        training: Otherwise y is computed by the running statistics, which stay.
    """

    epsilon: float = 1e-5
    momentum: float = 0.9
    spatial: bool = True
    training: bool = True

    kind: ClassVar[str] = "batch_statistics"

    def compose(self, c: Composition) -> Sequence[str]:
        layout, given = c.layout(c.inputs[0]), [c.layout(name) for name in c.inputs[1:]]
        exact = DType.F64 if DType.F64 in (layout.dtype, given[0].dtype) else DType.F32
        kept = (layout.shape[1:2] or (1,)) if self.spatial else layout.shape[1:]
        if any(p.shape != kept for p in given):
            found = ", ".join(str(list(p.shape)) for p in given)
            raise ShapeError(f"scale, bias, mean and variance want shape {list(kept)}, not {found}")
        wide = (1, *kept, *[1] * (layout.rank - 1 - len(kept)))[: max(layout.rank, 1)]
        x, *parameters = (c.add(Reorder(exact), name) for name in c.inputs)
        scale, bias, mean, variance = (c.add(Reshape(wide, zero_is_zero=True), name) for name in parameters)
        old = (mean, variance)
        if self.training:
            over = tuple(a for a in range(layout.rank) if wide[a] != layout.shape[a] or a == 0)
            mean = mean_of(c, x, over)
        centred = c.add(Eltwise("sub"), x, mean)
        if self.training:
            variance = mean_of(c, c.add(Activation("square"), centred), over)
        guarded = c.add(Activation("linear", 1.0, self.epsilon), variance)
        factor = c.add(Eltwise("div"), scale, c.add(Activation("sqrt"), guarded))
        y = c.add(Eltwise("add"), c.add(Eltwise("mul"), centred, factor), bias)
        new = [self._updated(c, *pair) for pair in zip(old, (mean, variance), strict=True)] if self.training else old
        statistics = (
            c.add(Reorder(p.dtype), c.add(Reshape(kept, zero_is_zero=True), name))
            for p, name in zip(given[2:] * 2, (*new, mean, variance), strict=True)
        )
        return (c.add(Reorder(layout.dtype), y), *statistics)

    def _updated(self, c: Composition, old: str, new: str) -> str:
        # ONNX says 1 - momentum in floats; in doubles it would be another number.
        rest = float(np.float32(1) - np.float32(self.momentum))
        stays = c.add(Activation("linear", self.momentum), old)
        return c.add(Eltwise("add"), stays, c.add(Activation("linear", rest), new))
