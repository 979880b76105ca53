"""Sampling of an image at given coordinates: ONNX's GridSample."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.selector.general import REALS, General, accesses, float_jit, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

CUBIC = -0.75
"""Coefficient of the cubic kernel (Keys 1981)."""


@primitive
@frozen
class GridSample(Primitive):
    """x ``[N, C, *spatial]`` at the places ``[N, *out, D]`` in -1 ... 1, the last axis of x first: ``[N, C, *out]``.

    Attributes:
        mode: ``nearest``, ``linear`` or ``cubic``.
        padding: What lies outside: ``zeros``, the ``border``, or the image in a mirror, ``reflection``.
        corners: -1 and 1 are the centres of the outermost pixels, else their outer edges.
    """

    mode: str = "linear"
    padding: str = "zeros"
    corners: bool = False

    kind: ClassVar[str] = "grid_sample"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        x, grid = inputs
        if grid.rank != x.rank or x.rank < 3 or grid.shape[-1] != x.rank - 2 or grid.shape[0] != x.shape[0]:
            raise ShapeError(f"{x} has no places {grid}")
        if self.mode not in ("nearest", "linear", "cubic") or self.padding not in ("zeros", "border", "reflection"):
            raise ShapeError(f"mode {self.mode!r} with padding {self.padding!r} is not known")
        return (x.with_shape((*x.shape[:2], *grid.shape[1:-1])),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        x, grid = inputs
        exact = np.result_type(x.dtype, np.float32)
        spatial = x.shape[2:]
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), exact)
        for n in range(x.shape[0]):
            axes = []
            for axis, size in enumerate(spatial):
                at = grid[n, ..., len(spatial) - 1 - axis].astype(exact)
                at = (at + 1) / 2 * (size - 1) if self.corners else ((at + 1) * size - 1) / 2
                if self.mode == "nearest":
                    at = np.rint(at)  # before a mirror folds it, as ONNX has it
                axes.append(self._taps_inside(at, size))
            for taps in product(*axes):
                weight, there = np.ones(grid.shape[1:-1], exact), np.ones(grid.shape[1:-1], np.bool_)
                for _, share, inside in taps:
                    weight, there = weight * share, there & inside
                pixels = x[n][(slice(None), *(place for place, *_ in taps))]
                y[n] += np.where(there, pixels, 0) * weight
        return (y.astype(x.dtype),)

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        taps = {"nearest": 1.0, "linear": 2.0, "cubic": 4.0}[self.mode] ** (inputs[0].rank - 2)
        return inputs[0].shape[0] * (2e-5 + 1.3e-5 * taps)

    def _taps_inside(self, at: Array, size: int) -> list[tuple[Array, Array, Array]]:
        """Return the pixel, the share, and whether there is that pixel, of each tap of places along an axis of *size*.

        A place that is brought to the outermost pixel is that pixel, and not a mixture with its neighbour.
        """
        between: Array = np.ones(at.shape, np.bool_)
        if self.mode == "linear" and self.padding != "zeros":
            folded = self._folded(at, size)
            at = _nearest(folded, size)
            between = at == folded
        taps = []
        for k, (place, share) in enumerate(zip(*self._taps(at), strict=True)):
            there = between if k else np.ones(at.shape, np.bool_)
            if self.padding == "zeros":
                there = (place >= 0) & (place < size)
                share = np.where(there, share, 0)
            else:
                place = np.rint(_nearest(self._folded(place, size), size))
            taps.append((_nearest(place, size).astype(np.int64), share, there))
        return taps

    def _taps(self, at: Array) -> tuple[list[Array], list[Array]]:
        """Return the places that a place is mixed from along an axis, and the share of each."""
        if self.mode == "nearest":
            return [at], [np.ones_like(at)]
        low = np.floor(at)
        t = at - low
        if self.mode == "linear":
            return [low, low + 1], [1 - t, t]
        a = CUBIC

        def near(d: Array) -> Array:
            return np.asarray(((a + 2) * d - (a + 3)) * d * d + 1)

        def far(d: Array) -> Array:
            return np.asarray(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

        return [low - 1, low, low + 1, low + 2], [far(t + 1), near(t), near(1 - t), far(2 - t)]

    def _folded(self, at: Array, size: int) -> Array:
        """Return places as mirrors at both borders have them, if there are any, to half a pixel beyond the image."""
        if self.padding == "border":
            return at
        low, high = (0.0, size - 1.0) if self.corners else (-0.5, size - 0.5)
        span = high - low
        if span <= 0:
            return np.zeros_like(at)
        folded = np.abs(at - low) % (2 * span)
        return np.where(folded > span, 2 * span - folded, folded) + low


def _nearest(at: Array, size: int) -> Array:
    """Return places as near as an axis of *size* pixels has them; what is no number is at the first one."""
    return np.where(at > 0, np.minimum(at, size - 1), 0)


@onnx("GridSample", since=(1,), domain=MICROSOFT)
@onnx("GridSample", since=(16, 20, 22))
def import_grid_sample(node: OnnxNode) -> Primitive:
    mode = node.attribute("mode", "linear").removeprefix("bi")
    return GridSample(mode, node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0)))


_MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")


@implements(GridSample, name="grid_sample.ref", serves=Serves(dtypes=REALS, mixed=True), general=True)
class GridSampleRef(General[GridSample]):
    """One work-item a place, for all channels; places may be of another type than x."""

    @classmethod
    def further_limits(cls, q: Query[GridSample]) -> str | None:
        if q.outputs[0].dtype != q.inputs[0].dtype or (DType.F64 in q.dtypes and len(q.dtypes) > 1):
            return "mixes doubles with no other type, and makes the type of x"
        return "reads up to 4 spatial axes" if q.inputs[0].rank > 6 else None

    @classmethod
    def plan(cls, q: Query[GridSample]) -> Plan:
        (x, grid), (y,), f = q.own, q.outputs, q.primitive
        views = [
            View(y.origin, (y.all_pitches[0], *y.all_pitches[2:])),
            View(x.origin, (x.all_pitches[0], *(0 for _ in y.shape[2:]))),
            View(grid.origin, grid.all_pitches[:-1]),
        ]
        s = space((y.shape[0], *y.shape[2:]), views)
        channels = [y.shape[1], y.all_pitches[1], x.all_pitches[1], grid.all_pitches[-1]]
        how = [_MODES.index(f.mode), PADDINGS.index(f.padding), int(f.corners), x.rank - 2]
        axes = zip(x.shape[2:], x.all_pitches[2:], strict=True)
        numbers = table(s.dims, *s.views, channels, how, *axes)
        jit = float_jit(y.dtype, len(s.dims))
        jit = jit if grid.dtype == y.dtype else jit.define(**accesses(grid.dtype, "GRID"))
        return Plan((launch("grid_sample/grid_sample_ref", jit, s.counts[0], "in0", "in1", "out0", numbers),))
