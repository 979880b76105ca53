"""Running sums along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, Primitive, primitive
from clgraph.ops.cumulative import Cumulative, CumulativeRef
from clgraph.selector.general import INTEGERS, REALS
from clgraph.selector.implementation import Serves, implements


@primitive
@frozen
class CumulativeSum(Cumulative):
    """``y[i] = x[0] + … + x[i]``, and so on as :class:`Cumulative` says."""

    kind: ClassVar[str] = "cumulative_sum"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), axis = inputs, self.axis or 0
        exact = np.result_type(x.dtype, np.float32) if x.dtype.kind == "f" else x.dtype
        turned = np.moveaxis(np.flip(x, axis) if self.reverse else x, axis, 0)
        total = np.cumsum(turned, 0, dtype=exact)
        if self.exclusive:
            total = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
        y = np.moveaxis(total, 0, axis)
        return (np.ascontiguousarray(np.flip(y, axis) if self.reverse else y).astype(x.dtype),)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(replace(self, axis=axes[self.axis or 0]), axes, 1)


@onnx("CumSum", since=(11, 14))
def import_cumsum(node: OnnxNode) -> Primitive:
    return CumulativeSum.of(node)


@implements(CumulativeSum, name="cumulative_sum.ref", serves=Serves(dtypes=REALS | INTEGERS), general=True)
class CumulativeSumRef(CumulativeRef[CumulativeSum]):
    """Sums."""
