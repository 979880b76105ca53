"""Sums, means, extrema and norms over some of the axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from clgraph.core.conversion import converted
from clgraph.core.dtype import DType
from clgraph.core.format import channels_last
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, positive_axes, present, read_values
from clgraph.graph.composite import Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes, without
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.selector.general import (
    INTEGERS,
    REALS,
    General,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Formats, Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, space


def _log_sum_exp(x: Array, **over: Any) -> Array:
    top = np.max(x, **(over | {"keepdims": True}))
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - top), **over))
    return np.asarray(total + (top if over["keepdims"] else np.squeeze(top, over["axis"])))


def _mean(x: Array, **over: Any) -> Array:
    """Return the mean, of integers towards zero: their sum need not be one of the same type, and doubles hold few."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.mean(x, **over))
    count = prod(x.shape[a] for a in over["axis"])
    x = x.astype(np.int64) if x.dtype.itemsize < 4 else x  # which the count need not fit
    whole, rest = np.divmod(x, count)
    rests = np.sum(rest, **over, dtype=np.int64)
    below = np.sum(whole, **over) + (rests // count).astype(x.dtype)
    return np.asarray(below + ((below < 0) & (rests % count != 0)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": _mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, **over: np.sum(np.abs(x), **over),
    "l2": lambda x, **over: np.sqrt(np.sum(x * x, **over)),
    "sum_square": lambda x, **over: np.sum(x * x, **over),
    "log_sum": lambda x, **over: np.log(np.sum(x, **over)),
    "log_sum_exp": _log_sum_exp,
}
"""Function by name."""


def _of_nothing(function: str, dtype: np.dtype[Any]) -> float | int:
    """Return the reduction of no elements, of which ONNX defines the extremes; the mean is ONNX Runtime's."""
    whole = dtype.kind in "iu"
    if dtype.kind == "b":
        return int(function in ("min", "prod"))
    if function == "min":
        return np.iinfo(dtype).max if whole else np.inf
    if function in ("max", "log_sum", "log_sum_exp"):
        return np.iinfo(dtype).min if whole else -np.inf
    return int(function == "prod")


@primitive
@frozen
class Reduce(Primitive):
    """``y = f`` of x over *axes*.

    Attributes:
        function: A key of ``FUNCTIONS``.
        axes: The reduced axes; before ``bind`` they may be negative, ``None`` for all.
        keepdims: Whether a reduced axis stays with size 1.
        spatial: Before ``bind``: the axes are all but the first two.
        no_axes_is_none: Before ``bind``: empty axes reduce nothing instead of everything.
        reads: Names of the value inputs, before ``bind``: ``("axes",)`` or nothing.
    """

    function: str
    axes: tuple[int, ...] | None = None
    keepdims: bool = True
    spatial: bool = False
    no_axes_is_none: bool = False
    reads: tuple[str, ...] = ()

    kind: ClassVar[str] = "reduce"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        rank = inputs[0].rank
        axes = self.axes
        if found := read_values(self.reads, values):
            axes = ints(found["axes"])
        if self.spatial:
            axes = tuple(range(2, rank))
        elif axes is None or (self.reads and not axes):
            axes = () if self.no_axes_is_none else tuple(range(rank))
        bound = positive_axes(axes, rank)
        if inputs[0].count == 0 and any(inputs[0].shape[a] == 0 for a in bound):
            from clgraph.ops.fill import Fill

            dtype, shape = inputs[0].dtype, reduced_shape(inputs[0].shape, bound, keepdims=self.keepdims)
            return Bound(Fill(_of_nothing(self.function, dtype.numpy), dtype, shape), ())
        return Bound(replace(self, axes=bound, spatial=False, no_axes_is_none=False, reads=()), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (x,) = inputs
        if self.function not in FUNCTIONS:
            raise ShapeError(f"{self.function!r} is not a reduction; there are {', '.join(FUNCTIONS)}")
        axes = self.reduced(x.rank)
        if self.function in ("max", "min", "mean") and any(x.shape[a] == 0 for a in axes):
            raise ShapeError(f"the {self.function} of no elements is not defined")
        return (x.with_shape(reduced_shape(x.shape, axes, keepdims=self.keepdims)),)

    def reduced(self, rank: int) -> tuple[int, ...]:
        """Return the reduced axes of a tensor of *rank* axes."""
        return tuple(range(rank)) if self.axes is None else positive_axes(self.axes, rank)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = x.astype(np.float32) if x.dtype == np.float16 else x
        if x.dtype.kind in "iu" and self.function in ("l2", "log_sum", "log_sum_exp"):
            exact = x.astype(np.float64)
        with np.errstate(all="ignore"):
            result = FUNCTIONS[self.function](exact, axis=self.reduced(x.ndim), keepdims=self.keepdims)
        return (converted(np.asarray(result), DType.of(x.dtype)),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return float(inputs[0].count)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        reduced = self.reduced(len(axes))
        turned = replace(self, axes=tuple(sorted(axes[a] for a in reduced)))
        return Permuted(turned, (axes,), (axes if self.keepdims else without(axes, reduced),))


def reduced_shape(shape: Shape, axes: Sequence[int], *, keepdims: bool) -> Shape:
    """Return *shape* with *axes* gone, or of size 1."""
    if keepdims:
        return tuple(1 if a in axes else d for a, d in enumerate(shape))
    return tuple(d for a, d in enumerate(shape) if a not in axes)


def mean_of(c: Composition, x: str, axes: Sequence[int]) -> str:
    """Add the mean of x over *axes*, which stay; of no elements it is NaN, as a statistic, where ReduceMean's is 0."""
    layout = c.layout(x)
    if any(layout.shape[a] == 0 for a in axes):
        return c.constant(np.full(reduced_shape(layout.shape, axes, keepdims=True), np.nan, layout.dtype.numpy))
    return c.add(Reduce("mean", tuple(axes)), x)


def over_last_axes(p: Reduce, rank: int) -> bool:
    """Return whether some axes are reduced and none is kept behind them."""
    axes = p.reduced(rank)
    return bool(axes) and sorted(axes) == list(range(rank - len(axes), rank))


_VERSIONS = {
    "Sum": ((1, 11, 13), "sum"),
    "Mean": ((1, 11, 13, 18), "mean"),
    "Max": ((1, 11, 12, 13, 18, 20), "max"),
    "Min": ((1, 11, 12, 13, 18, 20), "min"),
    "Prod": ((1, 11, 13, 18), "prod"),
    "L1": ((1, 11, 13, 18), "l1"),
    "L2": ((1, 11, 13, 18), "l2"),
    "SumSquare": ((1, 11, 13, 18), "sum_square"),
    "LogSum": ((1, 11, 13, 18, 28), "log_sum"),
    "LogSumExp": ((1, 11, 13, 18, 28), "log_sum_exp"),
}


def _import(node: OnnxNode, function: str) -> Primitive:
    axes = node.attribute("axes", None)
    return Reduce(
        function,
        tuple(axes) if axes else None,
        bool(node.attribute("keepdims", 1)),
        no_axes_is_none=bool(node.attribute("noop_with_empty_axes", 0)),
        reads=present(("axes",), node.inputs),
    )


def _register() -> None:
    for name, (since, function) in _VERSIONS.items():
        onnx(f"Reduce{name}", since=since)(lambda node, f=function: _import(node, f))
    for name, function in (("Average", "mean"), ("Max", "max")):
        onnx(f"Global{name}Pool", since=(1, 22))(lambda node, f=function: Reduce(f, spatial=True))


_register()


CODES = {name: code for code, name in enumerate(("sum", "mean", "max", "min", "prod"))} | {
    "l1": 5,
    "l2": 6,
    "sum_square": 7,
    "log_sum": 8,
    "log_sum_exp": 9,
}
"""Code of each function in the kernels."""
_INTEGER = {"sum", "mean", "max", "min", "prod", "l1", "sum_square"}


def reduced_space(q: Query[Reduce]) -> Space:
    """Return the space of the input's axes, those that stay first; the result does not move along the others."""
    x, (y,) = q.inputs[0], q.outputs
    axes = q.primitive.reduced(x.rank)
    kept = [a for a in range(x.rank) if a not in axes]

    def over_x(view: View) -> View:
        pitches = dict(zip(kept if len(view.pitches) == len(kept) else range(x.rank), view.pitches, strict=True))
        return View(view.origin, tuple(0 if a in axes else pitches[a] for a in range(x.rank)))

    views = [over_x(View.of(y)), View.of(x), *map(over_x, post_views(q))]
    return space(x.shape, views, [kept, axes])


@implements(Reduce, name="reduce.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE, formats=True), general=True)
class ReduceRef(General[Reduce]):
    """One work-item a result, any rank, any axes."""

    orders = True

    @classmethod
    def formats(cls, q: Query[Reduce]) -> tuple[Formats, ...]:
        """Propose plain tensors and, on a GPU, an input in byxf with the result plain or in byxf."""
        x = q.inputs[0]
        if q.device.kind != "gpu" or not 3 <= x.rank <= 5:
            return super().formats(q)
        (plain, *rest), last = super().formats(q), channels_last(x.rank)
        return (plain, Formats((last, *plain.inputs[1:]), plain.outputs), *rest)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        s = reduced_space(q)
        rows, count = s.counts
        numbers = table(s.dims, *s.views[:2], [s.groups[0], count, CODES[q.primitive.function]])
        posts = post_arguments(q, s.views[2:], len(s.dims))
        jit = float_jit(q.outputs[0].dtype, len(s.dims))
        return Plan((launch("reduce/reduce_ref", jit, rows, "in0", "out0", numbers, *posts),))


@implements(Reduce, name="reduce.int_ref", serves=Serves(dtypes=INTEGERS | {DType.BOOL}), general=True)
class ReduceIntRef(General[Reduce]):
    """One work-item a result, any rank, any axes, on integers; extremes of bools too."""

    @classmethod
    def further_limits(cls, q: Query[Reduce]) -> str | None:
        whole = q.inputs[0].dtype != DType.BOOL
        known = q.primitive.function in (_INTEGER if whole else ("max", "min"))
        return None if known else f"has no {q.primitive.function} of {'integers' if whole else 'bools'}"

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        s = reduced_space(q)
        rows, count = s.counts
        numbers = table(s.dims, *s.views, [s.groups[0], count, CODES[q.primitive.function]])
        jit = Jit().define(RANK=len(s.dims), T=q.outputs[0].dtype)
        return Plan((launch("reduce/reduce_int_ref", jit, rows, "in0", "out0", numbers),))
