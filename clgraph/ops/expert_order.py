"""The order in which rows that have chosen the same expert stand together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.primitive import primitive
from clgraph.ops.fill import Fill
from clgraph.ops.gather import Gather
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.scatter_elements import ScatterElements
from clgraph.ops.top_k import TopK


@primitive
@frozen
class ExpertOrder(Composite):
    """Sort the choices ``[rows, k]`` of experts by expert, those of one by row.

    Results, for ``pairs = rows * k``: the experts in ascending order (i32 ``[pairs]``), the row and the place among its
    row's choices of each (i64 ``[pairs]``), and where each choice stands in this order (i64 ``[rows, k]``).
    """

    kind: ClassVar[str] = "expert_order"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        (chosen,) = c.inputs
        layout = c.layout(chosen)
        if layout.rank != 2 or layout.dtype not in (DType.I32, DType.I64):
            raise ShapeError(f"requires rows of i32 or i64 numbers of experts, not {layout}")
        (rows, k), pairs = layout.shape, layout.count
        flat = c.add(Reshape((pairs,), zero_is_zero=True), chosen)
        narrow = flat if layout.dtype == DType.I32 else c.add(Reorder(DType.I32), flat)
        experts, order = c.add_all(TopK(0, largest=False, k=pairs), narrow)
        row, place = (
            c.add(Gather(0), c.constant(numbers), order)
            for numbers in (np.repeat(np.arange(rows), k), np.tile(np.arange(k), rows))
        )
        none = c.add(Fill(0, DType.I64, (pairs,)))
        stands = c.add(ScatterElements(0), none, order, c.constant(np.arange(pairs)))
        return experts, row, place, c.add(Reshape((rows, k), zero_is_zero=True), stands)
