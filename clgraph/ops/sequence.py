"""Evenly spaced numbers: ONNX's Range, known when the shapes are bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import known
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.cast_like import CastLike


@primitive
@frozen
class Sequential(Primitive):
    """``y[i] = start + i * step`` for *count* elements.

    Attributes:
        count: ``None`` before ``bind``: start, limit and step are the values of three inputs.
    """

    start: float | int = 0
    step: float | int = 1
    count: int | None = None
    dtype: DType = DType.I64

    kind: ClassVar[str] = "sequence"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if self.count is not None:
            return Bound(self, ())
        ends = [known(values, i, name).ravel()[0] for i, name in enumerate(("start", "limit", "delta"))]
        # Python's integers: a difference of two int64 need not be one, and doubles do not hold every one of them.
        ends = [v.astype(np.float32) if v.dtype.name == "bfloat16" else v for v in ends]
        start, limit, step = (v.item() if v.dtype.kind in "iu" else v for v in ends)
        if step == 0:
            raise ShapeError("a range with a delta of 0 has no end")
        # Floats are counted in doubles, as in ONNX Runtime and NumPy: 1.2 divided by 0.1 is a little more than 12.
        steps = (float(limit) - float(start)) / float(step)
        if not np.isfinite(steps):
            raise ShapeError(f"a range from {start} to {limit} by {step} has no end")
        count = -((start - limit) // step) if isinstance(step, int) else int(np.ceil(steps))
        return Bound(Sequential(ends[0].item(), ends[2].item(), max(count, 0), inputs[0].dtype), ())

    def value_slots(self) -> tuple[int, ...]:
        return (0, 1, 2) if self.count is None else ()

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(self.dtype, (self.count or 0,)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        steps: Array = np.arange(self.count or 0, dtype=np.int64 if isinstance(self.start, int) else np.float64)
        values = self.start + steps * self.step
        return (values.astype(self.dtype.numpy),)

    def evaluate(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> tuple[Array, ...] | None:
        return self.reference()


@onnx("Range", since=(11, 27))
@onnx("Range", since=(1,), domain=MICROSOFT)
def import_range(node: OnnxNode) -> Sequence[str]:
    start, limit, *delta = node.inputs
    delta = delta or [*node.emit(CastLike(), node.literal(np.ones((), np.int64)), start)]
    return node.emit(Sequential(), start, limit, *delta)
