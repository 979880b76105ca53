"""Reductions of rows for GPUs: a group of work-items a row."""

from __future__ import annotations

from clgraph.implementations.gpu.rows import ROWS, SUBGROUPS, RowKernel, launch_rows
from clgraph.ops.reduce import CODES, Reduce, reduced_space
from clgraph.selector.general import table
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import Space


@implements(Reduce, name="reduce.gpu_rows", serves=ROWS)
class ReduceGpuRows(RowKernel[Reduce]):
    """A group of 64 or 256 work-items a row."""

    @classmethod
    def rows(cls, q: Query[Reduce]) -> Space:
        return reduced_space(q)

    @classmethod
    def plan(cls, q: Query[Reduce]) -> Plan:
        s = cls.rows(q)
        numbers = table(s.dims, *s.views[:2], CODES[q.primitive.function])
        return launch_rows(cls, q, "reduce/reduce_gpu_rows", s, ("in0", "out0", numbers), s.views[2:])


@implements(Reduce, name="reduce.gpu_subgroups", serves=SUBGROUPS)
class ReduceGpuSubgroups(ReduceGpuRows):
    """A group of 64 or 256 work-items a row, summed by sub-groups: Intel's where there are, else Khronos'."""

    subgroups = True
