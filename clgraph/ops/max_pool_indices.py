"""Max pooling with the indices of the maxima, and its inverse: ONNX's MaxPool with Indices and MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError
from clgraph.graph.attributes import Pads, known_ints, pairs
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Bound, Primitive, primitive
from clgraph.ops.pooling import Pooling, import_pooling
from clgraph.selector.general import General, bits_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space


@primitive
@frozen
class MaxPoolIndices(Primitive):
    """The maximum of each window and where it stands in x as a flat index, int64; of equal ones the first.

    Attributes:
        pooling: The windows.
        by_column: The index counts the spatial axes with the first one fastest.
    """

    pooling: Pooling
    by_column: bool = False

    kind: ClassVar[str] = "max_pool_indices"

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        bound = self.pooling.bind(inputs, values).primitive
        assert isinstance(bound, Pooling)
        return Bound(replace(self, pooling=bound), (0,))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (y,) = self.pooling.infer(inputs)
        return y, Layout(DType.I64, y.shape)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,), p, spatial = inputs, self.pooling, inputs[0].shape[2:]
        sizes = p.sizes(spatial)
        coordinates, inside = [], np.ones((), np.bool_)
        rank = len(spatial)
        for axis, (n, k, s, d, (before, _)) in enumerate(
            zip(sizes, p.kernel, p.strides, p.dilations, p.pads, strict=True)
        ):
            at = np.arange(n)[:, None] * s - before + np.arange(k) * d
            shape = [1] * (2 * rank)
            shape[axis], shape[rank + axis] = n, k
            inside = inside & ((at >= 0) & (at < spatial[axis])).reshape(shape)
            coordinates.append(np.clip(at, 0, spatial[axis] - 1).reshape(shape))
        inside = np.broadcast_to(inside, (*sizes, *p.kernel))
        order = tuple(reversed(range(rank))) if self.by_column else tuple(range(rank))
        flat = np.zeros((), np.int64)
        for axis in order:
            flat = flat * spatial[axis] + coordinates[axis]
        windows = x[(slice(None), slice(None), *coordinates)]
        lowest = np.asarray(-np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
        taps = prod(p.kernel)
        rows = np.where(inside, windows, lowest).reshape(*x.shape[:2], *sizes, taps)
        best = rows.argmax(-1)
        # Where nothing inside is above the lowest number, the first element inside is the maximum, not a pad.
        counts = np.broadcast_to(inside.reshape(*sizes, taps), rows.shape)
        pads = ~np.take_along_axis(counts, best[..., None], -1)[..., 0]
        best = np.where(pads, counts.argmax(-1), best)
        places = np.broadcast_to(flat, (*sizes, *p.kernel)).reshape(*sizes, taps)
        at = np.take_along_axis(np.broadcast_to(places, rows.shape), best[..., None], -1)[..., 0]
        planes = np.arange(prod(x.shape[:2]), dtype=np.int64).reshape(*x.shape[:2], *(1,) * rank)
        return np.take_along_axis(rows, best[..., None], -1)[..., 0], (at + planes * prod(spatial)).astype(np.int64)

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 6e-5


@primitive
@frozen
class MaxUnpool(Primitive):
    """Zeros, and each element of x at its flat index of the result.

    Attributes:
        kernel, strides, pads: Those of the MaxPool that is undone.
        shape: Of the result; before ``bind`` empty: the value of input 2 where *sized*, else what the MaxPool read.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: Pads = ()
    shape: tuple[int, ...] = ()
    sized: bool = False

    kind: ClassVar[str] = "max_unpool"

    def value_slots(self) -> tuple[int, ...]:
        return (2,) if self.sized else ()

    def bind(self, inputs: Sequence[Layout], values: Sequence[Array | None]) -> Bound:
        if self.sized:
            return Bound(replace(self, shape=known_ints(values, 2, "shape"), sized=False), (0, 1))
        if self.shape:
            return Bound(self, (0, 1))
        return Bound(replace(self, shape=self.natural(inputs[0].shape)), (0, 1))

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, indices = inputs
        if x.shape != indices.shape or indices.dtype != DType.I64 or len(self.shape) != x.rank:
            raise ShapeError(f"{x} at {indices} does not make {list(self.shape)}")
        return (x.with_shape(self.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, indices = inputs
        natural = self.natural(x.shape)
        y = np.zeros(self.shape, x.dtype)
        if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < y.size:
            raise ShapeError(f"indices {indices.min()} to {indices.max()} are not all of {list(y.shape)}")
        if natural != self.shape and prod(natural) >= int(indices.max(initial=0)) + 1:
            places = np.unravel_index(indices.ravel(), natural)
            y[places] = x.ravel()
        else:
            y.ravel()[indices.ravel()] = x.ravel()
        return (y,)

    def natural(self, shape: Shape) -> Shape:
        """Return the least shape that the MaxPool makes *shape* of."""
        images, channels, *spatial = shape
        strides, pads = self.strides or (1,) * len(spatial), self.pads or ((0, 0),) * len(spatial)
        if any(len(v) != len(spatial) for v in (self.kernel, strides, pads)):
            raise ShapeError(f"a window {self.kernel}, strides {strides}, pads {pads} for {len(spatial)} spatial axes")
        rows = zip(spatial, strides, self.kernel, pads, strict=True)
        return (images, channels, *((n - 1) * s + k - b - a for n, s, k, (b, a) in rows))


@onnx("MaxPool", since=(1, 8, 10, 11, 12, 22))
def import_max_pool(node: OnnxNode) -> Primitive:
    pooling = import_pooling(node, "max")
    return MaxPoolIndices(pooling, bool(node.attribute("storage_order", 0))) if node.output_count > 1 else pooling


@onnx("MaxUnpool", since=(9, 11, 22))
def import_max_unpool(node: OnnxNode) -> Primitive:
    kernel, strides = tuple(node.attribute("kernel_shape", ())), tuple(node.attribute("strides", ()))
    return MaxUnpool(kernel, strides, pairs(node.attribute("pads", ())), sized=len(node.inputs) > 2)


@implements(MaxUnpool, name="max_unpool.ref", serves=Serves(dtypes=frozenset(DType), mixed=True), general=True)
class MaxUnpoolRef(General[MaxUnpool]):
    """Zeros, then one work-item an element of x."""

    @classmethod
    def further_limits(cls, q: Query[MaxUnpool]) -> str | None:
        if q.primitive.natural(q.inputs[0].shape) != q.primitive.shape:
            return "counts the indices in the result; whether those of another shape count in what was pooled is data"
        return None

    @classmethod
    def plan(cls, q: Query[MaxUnpool]) -> Plan:
        (x, indices), (y,) = q.own, q.outputs
        all_of_it = space(y.shape, [View.of(y)])
        zeros = bits_jit(y.dtype.itemsize, len(all_of_it.dims))
        fill = launch(
            "fill/fill_ref", zeros, all_of_it.counts[0], "out0", table(all_of_it.dims, *all_of_it.views), 0, 0
        )
        s = space(x.shape, [View.of(x), View.of(indices)])
        axes = [n for axis in zip(y.shape, y.all_pitches, strict=True) for n in axis]
        numbers = table(s.dims, *s.views, [y.rank, y.origin, *axes])
        jit = bits_jit(y.dtype.itemsize, len(s.dims))
        return Plan((fill, launch("max_unpool/max_unpool_ref", jit, s.counts[0], "in0", "in1", "out0", numbers)))
