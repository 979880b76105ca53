"""Maximum and average over sliding windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, check_pads, pairs, window_pads, window_sizes
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.selector.general import (
    REALS,
    General,
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
from clgraph.selector.storage import loaded
from clgraph.selector.views import View


@primitive
@frozen
class Pooling(Primitive):
    """Maximum or average of each window of x ``[N, C, *spatial]``, a channel at a time.

    Padding never counts for a maximum. An average divides by the elements of the window inside the input or, with
    ``count_include_pad``, inside the input and its pads.

    Attributes:
        function: ``"max"`` or ``"average"``.
        kernel: Elements of the window along each spatial axis, ``dilations`` apart.
        strides, dilations: Empty before ``bind``: all ones.
        pads: (before, after) a spatial axis; empty before ``bind``: none.
        ceil_mode: Whether a last window counts that reaches beyond the padded input.
        auto_pad: ONNX's rule for the pads; ``""`` once bound.
    """

    function: str
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: Pads = ()
    ceil_mode: bool = False
    count_include_pad: bool = False
    auto_pad: str = ""

    kind: ClassVar[str] = "pooling"
    holds_sizes: ClassVar[bool] = False

    def takes_sizes(self) -> bool:
        return bool(self.auto_pad)

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        spatial, ones = inputs[0].shape[2:], (1,) * len(self.kernel)
        bound = replace(self, strides=self.strides or ones, dilations=self.dilations or ones, auto_pad="")
        pads = window_pads(self.auto_pad, self.pads, spatial, self.kernel, bound.strides, bound.dilations)
        return Bound(replace(bound, pads=pads), tuple(range(len(inputs))))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if self.function not in ("max", "average"):
            raise ShapeError(f"{self.function!r} is neither max nor average")
        if x.rank != len(self.kernel) + 2:
            raise ShapeError(f"a window {self.kernel} requires x[N,C,...] of rank {len(self.kernel) + 2}, not {x.rank}")
        check_pads(self.pads, self.kernel, self.dilations)
        return (x.with_shape((*x.shape[:2], *self.sizes(x.shape[2:]))),)

    def sizes(self, spatial: tuple[int, ...]) -> tuple[int, ...]:
        """Return the spatial sizes of the result."""
        steps = self.strides, self.dilations, self.pads
        return window_sizes(spatial, self.kernel, *steps, ceil_mode=self.ceil_mode, partial=True)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        spatial = x.shape[2:]
        sizes = self.sizes(spatial)
        if 0 in sizes:
            return (np.empty((*x.shape[:2], *sizes), x.dtype),)
        reach = [
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(sizes, self.strides, self.kernel, self.dilations, strict=True)
        ]
        around = [(b, max(r - b - size, 0)) for (b, _), r, size in zip(self.pads, reach, spatial, strict=True)]
        exact = x.astype(np.float32) if x.dtype == np.float16 else x
        if self.function == "max":
            low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
            padded = np.pad(exact, ((0, 0), (0, 0), *around), constant_values=low)
            return (np.maximum.reduce([padded[w] for w in self._windows(sizes)]).astype(x.dtype),)
        padded = np.pad(exact, ((0, 0), (0, 0), *around))
        total = sum(padded[w] for w in self._windows(sizes))
        return (np.asarray(total / self.counts(spatial).astype(exact.dtype)).astype(x.dtype),)

    def counts(self, spatial: tuple[int, ...]) -> Array:
        """Return what an average divides by, one number a spatial element of the result."""
        total = np.ones((), np.int64)
        for axis, n in enumerate(self.sizes(spatial)):
            before, after = self.pads[axis] if self.count_include_pad else (0, 0)
            start = np.arange(n)[:, None] * self.strides[axis] - self.pads[axis][0]
            at = start + np.arange(self.kernel[axis]) * self.dilations[axis]
            inside = ((at >= -before) & (at < spatial[axis] + after)).sum(1)
            total = np.multiply.outer(total, inside)
        return total

    def _windows(self, sizes: tuple[int, ...]) -> list[tuple[slice, ...]]:
        return [
            (
                slice(None),
                slice(None),
                *(
                    slice(t * d, t * d + (n - 1) * s + 1, s)
                    for t, d, s, n in zip(tap, self.dilations, self.strides, sizes, strict=True)
                ),
            )
            for tap in product(*map(range, self.kernel))
        ]

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return float(outputs[0].count * prod(self.kernel))

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 3e-5 + 1.5e-6 * prod(self.kernel)


def import_pooling(node: OnnxNode, function: str) -> Pooling:
    """Return the windows of a pooling node."""
    return Pooling(
        function,
        tuple(node.attribute("kernel_shape", ())),
        tuple(node.attribute("strides", ())),
        tuple(node.attribute("dilations", ())),
        pairs(node.attribute("pads", ())),
        bool(node.attribute("ceil_mode", 0)),
        bool(node.attribute("count_include_pad", 0)),
        node.attribute("auto_pad", ""),
    )


@onnx("AveragePool", since=(1, 7, 10, 11, 19, 22))
def import_average_pool(node: OnnxNode) -> Primitive:
    return import_pooling(node, "average")


BYTES = frozenset({DType.I8, DType.U8})


@implements(Pooling, name="pooling.ref", serves=Serves(dtypes=REALS | BYTES, fuses=FUSABLE), general=True)
class PoolingRef(General[Pooling]):
    """One work-item an output element, any number of spatial axes; maxima of bytes too."""

    @classmethod
    def further_limits(cls, q: Query[Pooling]) -> str | None:
        averaged = q.primitive.function == "average" and q.outputs[0].dtype in BYTES
        return "averages floats" if averaged else None

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        x, (y,), f = q.inputs[0], q.outputs, q.primitive
        rows = zip(x.shape[2:], f.kernel, f.strides, f.dilations, f.pads, strict=True)
        axes = [(size, k, s, d, *pads) for size, k, s, d, pads in rows]
        flags = [prod(f.kernel), int(f.function == "average"), int(f.count_include_pad)]
        numbers = table(y.shape, View.of(y), View.of(x), flags, *axes)
        posts = post_arguments(q, post_views(q), y.rank)
        jit = float_jit(y.dtype, y.rank)
        if y.dtype in BYTES:
            store = f"((p)[i] = ({y.dtype.cl})fmax((v), {float(y.dtype.bounds[0])}f))"
            jit = jit.define(T=y.dtype, **{"LOAD(p, i)": loaded(y.dtype), "STORE(p, i, v)": store})
        return Plan((launch("pooling/pooling_ref", jit, y.count, "in0", "out0", numbers, *posts),))
