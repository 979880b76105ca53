"""Interpolation along the axes: nearest, linear and cubic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import changed, frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import ints, positive_axis, present, read_values
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes, held
from clgraph.graph.primitive import Array, Bound, Permuted, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.ops.resize_taps import Interpolation, Taps, nearest_rule, tap_values, taps_of, weighted
from clgraph.selector.general import (
    INTEGERS,
    REALS,
    General,
    bits_jit,
    float_jit,
    launch,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan, Table
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import View


@primitive
@frozen
class Resize(Primitive):
    """``y`` is x interpolated along its axes, separably.

    Attributes:
        shape: Of the result; ``None`` before ``bind``.
        scales: Output elements an input element along each axis, as they map coordinates.
        mode: ``nearest``, ``linear`` or ``cubic``.
        coordinates: ONNX's ``coordinate_transformation_mode``.
        nearest: ONNX's ``nearest_mode``, or ``simple``, that of operator set 10.
        cubic: The coefficient a of the cubic kernel.
        exclude_outside: Whether taps outside of x count nothing, the others more; else they repeat the border.
        antialias: Whether a result that is smaller averages over all of x: the kernel is stretched by the scale.
        roi: For ``tf_crop_and_resize``, the part of x that is resized: all starts, then all ends, as shares of x.
        axes: Before ``bind``: the axes that sizes and scales are for; ``None``: all.
        policy: Before ``bind``: ONNX's ``keep_aspect_ratio_policy``.
        reads: Names of the value inputs, before ``bind``.
        follows: Whether its shape is that of x times the scales, rounded down, whatever the sizes: a pass that makes a
            resize may say so.
    """

    mode: str = "nearest"
    coordinates: str = "half_pixel"
    nearest: str = "round_prefer_floor"
    cubic: float = -0.75
    exclude_outside: bool = False
    shape: tuple[int, ...] | None = None
    scales: tuple[float, ...] = ()
    axes: tuple[int, ...] | None = None
    policy: str = "stretch"
    antialias: bool = False
    roi: tuple[float, ...] = ()
    reads: tuple[str, ...] = ()
    follows: bool = False

    kind: ClassVar[str] = "resize"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        sizes_of, rank = inputs[0].shape, inputs[0].rank
        if self.shape is not None and not self.reads:
            scales = self.scales or tuple(o / i for o, i in zip(self.shape, sizes_of, strict=True))
            return Bound(replace(self, scales=scales), (0,))
        found = read_values(self.reads, values)
        axes = range(rank) if self.axes is None else [positive_axis(a, rank) for a in self.axes]
        roi = tuple(float(v) for v in np.ravel(found["roi"])) if "roi" in found else self.roi
        given = [float(v) for v in np.ravel(found["scales"])] if "scales" in found else list(self.scales)
        sizes = ints(found["sizes"]) if "sizes" in found else ()
        if len(given or sizes) != len(axes):
            raise ShapeError(f"scales {given} or sizes {list(sizes)} want one entry for each of the axes {list(axes)}")
        factors, shape = [1.0] * rank, list(sizes_of)
        if sizes and self.policy != "stretch":
            pick = min if self.policy == "not_larger" else max
            common = pick(n / sizes_of[a] for a, n in zip(axes, sizes, strict=True))
            given, sizes = [common] * len(sizes), ()
        for i, axis in enumerate(axes):
            if sizes:
                shape[axis], factors[axis] = sizes[i], sizes[i] / max(sizes_of[axis], 1)
            else:
                rounded = float(np.float32(sizes_of[axis]) * np.float32(given[i]))
                shape[axis] = floor(rounded if self.policy == "stretch" else rounded + 0.5)
                factors[axis] = given[i]
        starts, ends = [0.0] * rank, [1.0] * rank
        for i, axis in enumerate(axes if roi else ()):
            starts[axis], ends[axis] = roi[i], roi[i + len(roi) // 2]
        bound = changed(
            self,
            nearest=nearest_rule(self.nearest, factors),
            shape=tuple(shape),
            scales=tuple(factors),
            roi=(*starts, *ends) if roi else (),
            axes=None,
            policy="stretch",
            reads=(),
        )
        return Bound(bound, (0,))

    def scaled(self, shape: Shape) -> Shape:
        """Return *shape* times the scales, rounded down, in float32 as ONNX Runtime has it."""
        return tuple(floor(float(np.float32(n) * np.float32(s))) for n, s in zip(shape, self.scales, strict=True))

    def resized(self, shape: Shape, other: Shape) -> Primitive | None:
        return replace(self, shape=self.scaled(other)) if self.follows else None

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, shape = inputs[0], self.shape or ()
        if len(shape) != x.rank or len(self.scales) != x.rank:
            raise ShapeError(f"a result {list(shape)} with scales {self.scales} does not fit x {list(x.shape)}")
        if self.mode not in ("nearest", "linear", "cubic"):
            raise ShapeError(f"mode {self.mode!r} is not one of nearest, linear, cubic")
        return (x.with_shape(shape),)

    def taps(self, axis: int, size: int) -> Taps:
        """Return the taps along *axis*, which has *size* elements in x."""
        shape = self.shape or ()
        roi = (self.roi[axis], self.roi[axis + len(shape)]) if self.roi else ()
        ways = self.mode, self.coordinates, self.nearest, self.cubic, self.exclude_outside, self.antialias
        return taps_of(Interpolation(*ways, shape[axis], self.scales[axis], roi), size)

    def keeps(self, axis: int, size: int) -> bool:
        """Whether the result has along *axis* what x has there."""
        return (self.shape or ())[axis] == size and self.repeats(axis, size)

    def repeats(self, axis: int, size: int) -> bool:
        """Whether the result has along *axis* each element of x, the same number of times."""
        picks, out = self.taps(axis, size).picks, (self.shape or ())[axis]
        return picks is not None and np.array_equal(picks, np.arange(out) * size // out)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        exact = np.result_type(x.dtype, np.float32)
        y = x
        for axis, size in enumerate(x.shape):
            taps = self.taps(axis, size)
            if taps.picks is not None:
                y = y.take(taps.picks, axis)
                continue
            y = weighted(np.moveaxis(y.astype(exact), axis, 0), taps)
            y = np.moveaxis(y, 0, axis)
        if x.dtype.kind in "iu" and x.dtype.itemsize < np.dtype(exact).itemsize:
            # Cubic weights go beyond the numbers that they mix.
            y = np.clip(y, np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
        return (np.ascontiguousarray(y).reshape(y.shape).astype(x.dtype),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return outputs[0].count * {"nearest": 1.0, "linear": 8.0, "cubic": 32.0}[self.mode]

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return {"nearest": 3e-5, "linear": 6e-5, "cubic": 8e-5}[self.mode]

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        turned = replace(self, shape=held(self.shape or (), axes), scales=held(self.scales, axes))
        return Permuted.along(turned, axes, 1)


@primitive
@frozen
class Extrapolate(Composite):
    """What *resize* makes of its inputs, and *value* where a place lies outside of x along any axis."""

    resize: Resize
    value: float

    kind: ClassVar[str] = "extrapolate"

    def value_slots(self) -> tuple[int, ...]:
        """Return the slots that the resize reads."""
        return self.resize.value_slots()

    def compose(self, c: Composition) -> Sequence[str]:
        from clgraph.ops.where import Where

        y, x = c.add(self.resize, *c.inputs), c.layout(c.inputs[0])
        bound = self.resize.bind([c.layout(n) for n in c.inputs], c.values).primitive
        assert isinstance(bound, Resize)
        inside = np.ones((1,) * x.rank, np.bool_)
        for axis, size in enumerate(x.shape):
            along = bound.taps(axis, size).weights.any(axis=1)
            inside = inside & along.reshape([-1 if a == axis else 1 for a in range(x.rank)])
        value = np.array(self.value, np.float64).astype(x.dtype.numpy)
        return (c.add(Where(), c.constant(inside), y, c.constant(value)),)


@primitive
@frozen
class RoundedResize(Composite):
    """An antialiased *resize*: of integers rounded behind each axis, the last first, halves away from 0, as in Pillow.

    ONNX Runtime does the same with weights of 22 bits: a result that close to the middle of two may be the other one.
    """

    resize: Resize

    kind: ClassVar[str] = "rounded_resize"

    def value_slots(self) -> tuple[int, ...]:
        """Return the slots that the resize reads."""
        return self.resize.value_slots()

    def compose(self, c: Composition) -> Sequence[str]:
        x = c.layout(c.inputs[0])
        if x.dtype not in INTEGERS:
            return (c.add(self.resize, *c.inputs),)
        bound = self.resize.bind([c.layout(n) for n in c.inputs], c.values).primitive
        assert isinstance(bound, Resize)
        limits = np.iinfo(x.dtype.numpy)
        y, shape = c.inputs[0], list(x.shape)
        for axis in reversed(range(x.rank)):
            if bound.keeps(axis, x.shape[axis]):
                continue
            shape[axis] = (bound.shape or ())[axis]
            scales = tuple(s if a == axis else 1.0 for a, s in enumerate(bound.scales))
            mixed = c.add(replace(bound, shape=tuple(shape), scales=scales), c.add(Reorder(DType.F32), y))
            half = c.add(Activation("linear", 0.5, 0.0), c.add(Activation("sign"), mixed))
            away = c.add(Eltwise("add"), mixed, half)
            y = c.add(Reorder(x.dtype), c.add(Activation("clip", _within(limits.min), _within(limits.max)), away))
        return (y if y != c.inputs[0] else c.add(bound, y),)


def _within(limit: int) -> float:
    """Return the float32 that is closest to *limit* and not beyond it, so that converting it cannot wrap around."""
    nearest = np.float32(limit)
    return float(nearest if abs(int(nearest)) <= abs(limit) else np.nextafter(nearest, np.float32(0)))


@onnx("Resize", since=(10, 11, 13, 18, 19))
def import_resize(node: OnnxNode) -> Sequence[str]:
    mode, old = node.attribute("mode", "nearest"), node.since == 10
    rule = node.attribute("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    crops = rule == "tf_crop_and_resize"
    names = ("scales",) if old else ("roi", "scales", "sizes")
    given = {
        name: value for name, value in zip(names, node.inputs[1:], strict=False) if value and (crops or name != "roi")
    }
    scales = node.constant(names.index("scales") + 1)
    if "sizes" in given and (scales is None or not scales.size):
        given.pop("scales", None)
    axes = node.attribute("axes", None)
    wanted = Resize(
        mode,
        rule,
        node.attribute("nearest_mode", "simple" if old else "round_prefer_floor"),
        node.attribute("cubic_coeff_a", -0.75),
        bool(node.attribute("exclude_outside", 0)),
        axes=None if axes is None else tuple(axes),
        policy=node.attribute("keep_aspect_ratio_policy", "stretch"),
        antialias=bool(node.attribute("antialias", 0)),
        reads=tuple(given),
    )
    outside = node.attribute("extrapolation_value", 0.0) if crops else 0.0
    whole = RoundedResize(wanted) if wanted.antialias and mode != "nearest" else wanted
    return node.emit(Extrapolate(wanted, outside) if outside else whole, node.inputs[0], *given.values())


@onnx("Upsample", since=(1, 7, 9))
def import_upsample(node: OnnxNode) -> Primitive:
    scales = tuple(float(s) for s in node.attribute("scales", ()))
    if node.since == 1:
        scales = (1.0, 1.0, node.attribute("height_scale", 1.0), node.attribute("width_scale", 1.0))
    mode = {"bilinear": "linear"}.get(node.attribute("mode", "nearest"), node.attribute("mode", "nearest"))
    return Resize(mode, "asymmetric", "floor", scales=scales, reads=present(("scales",), node.inputs))


_WHOLE = INTEGERS | {DType.BOOL}


@implements(Resize, name="resize.ref", serves=Serves(dtypes=REALS | _WHOLE, fuses=FUSABLE, formats=True), general=True)
class ResizeRef(General[Resize]):
    """One work-item an element, any rank, any mode: the taps of each axis are a table. Of integers it picks alone."""

    orders = True

    @classmethod
    def further_limits(cls, q: Query[Resize]) -> str | None:
        mixes = q.primitive.mode != "nearest" and q.outputs[0].dtype in _WHOLE
        return "mixes floats; of integers and bools it picks the nearest" if mixes else None

    @classmethod
    def plan(cls, q: Query[Resize]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        places: list[int] = []
        taps: list[int] = []
        order = y.format.order
        for axis in order:
            most, values = tap_values(q.primitive.taps(axis, x.shape[axis]), y.dtype)
            places += [len(taps), most]
            taps += values
        sizes = [y.shape[axis] for axis in order]
        numbers = table(sizes, View.of(y).along(order), View.of(x).along(order), places)
        posts = post_arguments(q, [view.along(order) for view in post_views(q)], y.rank)
        arguments = ("in0", "out0", numbers, Table(tuple(taps) or (0,)), *posts)
        return Plan((launch("resize/resize_ref", _jit(y.dtype, y.rank), y.count, *arguments),))


def _jit(dtype: DType, rank: int) -> Jit:
    """Return the preamble of the kernel; without arithmetic of types that are only picked."""
    if dtype.floating:
        return float_jit(dtype, rank)
    jit = bits_jit(dtype.itemsize, rank)
    return jit.define(SUM=dict(jit.macros)["T"], **{"ADDED(weight, x, sum)": "(x)", "RESULT(sum, at)": "(sum)"})
