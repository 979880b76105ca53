"""Softmax, layer normalisation and reductions for GPUs: a group of work-items a row, sums in local memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar, TypeVar

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.attributes import positive_axes, positive_axis
from clgraph.graph.primitive import Primitive
from clgraph.ops.gpu_vectors import LANES, LANES_OF_HALVES, vector_jit
from clgraph.ops.layer_normalization import LayerNormalization, over_result
from clgraph.ops.reduce import CODES, Reduce, reduced_space
from clgraph.ops.softmax import Softmax
from clgraph.selector.general import (
    FLOATS,
    General,
    Space,
    View,
    float_jit,
    lanes_of,
    post_arguments,
    post_views,
    space,
    table,
)
from clgraph.selector.implementation import Serves, implements, roofline
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

P = TypeVar("P", bound=Primitive)

SHORTEST = 32
"""Elements of a row below which a work-item a row is better."""
GROUPS = ((1024, 64), (1 << 31, 256))
"""Longest row, and work-items for it."""
HELD = 16
"""Elements of a row that a work-item keeps in registers where they come in vectors."""
_ROWS = Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE)
_SUBGROUPS = replace(_ROWS, features=frozenset({"subgroups"}))


class _Rows(General[P]):
    """What they have in common: rows of neighbouring elements, each read once from memory where it fits.

    Attributes:
        subgroups: Whether sums and maxima are those of sub-groups first.
    """

    subgroups: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def rows(cls, q: Query[P]) -> Space:
        """Return the axes that number the rows, then those of a row, with the views of y, x, other inputs, operands."""

    @classmethod
    def further_limits(cls, q: Query[P]) -> str | None:
        s = cls.rows(q)
        if s.groups[1] != 1 or s.views[1].pitches[-1] != 1 or s.counts[1] < SHORTEST:
            return f"wants rows of at least {SHORTEST} neighbouring elements"
        group = _group(s.counts[1])
        if q.device.max_work_group < group or q.device.local_bytes < 4 * group:
            return f"wants groups of {group} work-items with local memory"
        return None

    @classmethod
    def cost(cls, q: Query[P]) -> float:
        return roofline(q, 0.1, 0.7) * (0.95 if cls.subgroups else 1)


def _group(count: int) -> int:
    return next(group for longest, group in GROUPS if count <= longest)


def _lanes(q: Query[P], s: Space) -> int:
    """Return how many elements of a row are read, and but for reductions written, at once: 1, 4 or 8."""
    views = s.views[1:2] if isinstance(q.primitive, Reduce) else s.views[:2]
    most = LANES_OF_HALVES if q.outputs[0].dtype == DType.F16 else LANES
    found = lanes_of(s.dims, views, most)
    return found if found >= LANES else 1


def _launch(
    cls: type[_Rows[P]], q: Query[P], kernel: str, s: Space, arguments: Sequence[Argument], posts: Sequence[View]
) -> Plan:
    """Return the launch of a group for each row of *s*; *posts* are the views of operands of fused operations."""
    group, dtype, lanes = _group(s.counts[1]), q.outputs[0].dtype, _lanes(q, s)
    jit = float_jit(dtype, len(s.dims)) if lanes == 1 else vector_jit(dtype, len(s.dims), lanes)
    jit = jit.define(GROUP=group, **({} if lanes == 1 else {"LANES": lanes, "HELD": HELD}))
    if cls.subgroups and "intel_subgroups" in q.device.features:
        jit = jit.define(SUBGROUPS=1)
    elif cls.subgroups:
        jit = jit.define(SUBGROUPS=2, OPENCL_C=30 if "opencl_c_30" in q.device.features else 20)
    listed = (*arguments, *post_arguments(q, posts, len(s.dims)))
    rows = prod(s.dims[:-1])
    return Plan((Launch(f"{kernel}.cl", kernel.rsplit("/", 1)[1], jit, (rows * group,), (group,), listed),))


@implements(Softmax, name="softmax.gpu_rows", serves=_ROWS)
class SoftmaxGpuRows(_Rows[Softmax]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[Softmax]) -> Space:
        x, (y,) = q.inputs[0], q.outputs
        axes = positive_axes(q.primitive.axes, x.rank)
        kept = [a for a in range(x.rank) if a not in axes]
        return space(y.shape, [View.of(y), View.of(x), *post_views(q)], [kept, axes])

    @classmethod
    def plan(cls, q: Query[Softmax]) -> Plan:
        s = cls.rows(q)
        numbers = table(s.dims, *s.views[:2], int(q.primitive.log))
        return _launch(cls, q, "softmax/softmax_gpu_rows", s, ("in0", "out0", numbers), s.views[2:])


@implements(LayerNormalization, name="layer_normalization.gpu_rows", serves=_ROWS)
class LayerNormalizationGpuRows(_Rows[LayerNormalization]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[LayerNormalization]) -> Space:
        (y,), f = q.outputs, q.primitive
        axis = positive_axis(f.axis, y.rank)
        bias: Layout | None = q.own[2] if q.arity > 2 else None
        views = [View.of(y), View.of(q.inputs[0]), over_result(q, q.own[1]), over_result(q, bias), *post_views(q)]
        return space(y.shape, views, [range(axis), range(axis, y.rank)])

    @classmethod
    def plan(cls, q: Query[LayerNormalization]) -> Plan:
        s, biased = cls.rows(q), q.arity > 2
        numbers = table(s.dims, *s.views[:4], int(biased))
        arguments = ("in0", "in1", "in2" if biased else "null", "out0", numbers, q.primitive.epsilon)
        return _launch(cls, q, "layer_normalization/layer_normalization_gpu_rows", s, arguments, s.views[4:])


@implements(Reduce, name="reduce.gpu_rows", serves=_ROWS)
class ReduceGpuRows(_Rows[Reduce]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[Reduce]) -> Space:
        return reduced_space(q)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        s = cls.rows(q)
        numbers = table(s.dims, *s.views[:2], CODES[q.primitive.function])
        return _launch(cls, q, "reduce/reduce_gpu_rows", s, ("in0", "out0", numbers), s.views[2:])


@implements(Softmax, name="softmax.gpu_subgroups", serves=_SUBGROUPS)
class SoftmaxGpuSubgroups(SoftmaxGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True


@implements(LayerNormalization, name="layer_normalization.gpu_subgroups", serves=_SUBGROUPS)
class LayerNormalizationGpuSubgroups(LayerNormalizationGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True


@implements(Reduce, name="reduce.gpu_subgroups", serves=_SUBGROUPS)
class ReduceGpuSubgroups(ReduceGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True
