"""Operators along rows for GPUs: a group of work-items a row, sums in local memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar, TypeVar

from clgraph.core.dtype import DType
from clgraph.graph.primitive import Primitive
from clgraph.implementations.gpu.vectors import LANES, LANES_OF_HALVES, vector_jit
from clgraph.ops.reduce import Reduce
from clgraph.selector.general import FLOATS, General, float_jit, post_arguments
from clgraph.selector.implementation import Serves, roofline
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query
from clgraph.selector.views import Space, View, lanes_of

P = TypeVar("P", bound=Primitive)

SHORTEST = 32
"""Elements of a row below which a work-item a row is better."""
GROUPS = ((1024, 64), (1 << 31, 256))
"""Longest row, and work-items for it."""
HELD = 16
"""Elements of a row that a work-item keeps in registers where they come in vectors."""
ROWS = Serves(dtypes=FLOATS, kinds=frozenset({"gpu"}), fuses=FUSABLE)
SUBGROUPS = replace(ROWS, features=frozenset({"subgroups"}))


class RowKernel(General[P]):
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
            return f"requires rows of at least {SHORTEST} neighbouring elements"
        group = _group(s.counts[1])
        if q.device.max_work_group < group or q.device.local_bytes < 4 * group:
            return f"requires groups of {group} work-items with local memory"
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


def launch_rows(
    cls: type[RowKernel[P]], q: Query[P], kernel: str, s: Space, arguments: Sequence[Argument], posts: Sequence[View]
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
