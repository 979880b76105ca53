"""What operators of values on known steps share: ONNX Runtime computes them of integers, in an order of its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, PostOperation, Primitive
from clgraph.selector.general import General, float_jit, launch, lines, post_arguments, post_views, table
from clgraph.selector.plan import Plan
from clgraph.selector.post import post_codes
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

_RESULT = 2


@frozen
class OnSteps(Primitive):
    """``y = a + b`` or ``a b`` where a and b lie on steps, with the nearest step of its own as result.

    Results are not bounded: what reads them does that. Ends of products of bytes and ``quantized_pair`` keep the order
    of :meth:`rounded`; all other kernels compute with floats, which is within half a step of it, and within one when it
    is rounded.

    Attributes:
        scales, zeros: Scale and zero point of a, of b and of the result.
    """

    scales: tuple[float, float, float]
    zeros: tuple[int, int, int]

    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True
    function: ClassVar[str]
    """``add`` or ``mul``."""

    @abstractmethod
    def rounded(self, p: Array, q: Array) -> Array:
        """Return the results' integers, not bounded, for the integers of a and b, all in float32."""

    def integers(self, slot: int, floats: Array) -> Array:
        """Return the integers whose floats are those of input *slot*."""
        return np.asarray(np.rint(floats.astype(np.float64) / np.float32(self.scales[slot])) + self.zeros[slot])

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        a, b = inputs
        if not a.dtype.floating or a.dtype != b.dtype:
            raise ShapeError(f"requires floats of one type, not {a.dtype} and {b.dtype}")
        try:
            return (Layout(a.dtype, broadcast(a.shape, b.shape)),)
        except ValueError as error:
            raise ShapeError(f"{list(a.shape)} and {list(b.shape)} do not broadcast") from error

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        whole = self.rounded(self.integers(0, inputs[0]), self.integers(1, inputs[1]))
        steps = whole - np.float32(self.zeros[_RESULT])
        return (np.asarray(steps * np.float32(self.scales[_RESULT])).astype(inputs[0].dtype),)

    def as_post(self, slot: int) -> PostOperation | None:
        return PostOperation(self.function)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


class OnStepsRef(General[Any]):
    """Floats, one work-item an element."""

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        (y,), (a, b) = q.outputs, q.own
        s = space(y.shape, [View.of(y), View.of(a, y.shape), View.of(b, y.shape), *post_views(q)])
        posts = post_arguments(q, s.views[3:], len(s.dims))
        count, dims = lines(s, q)
        numbers = table(dims, *s.views[:3], post_codes()[q.primitive.function])
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("eltwise/eltwise_ref", jit, count, "in0", "in1", "out0", numbers, *posts),))
