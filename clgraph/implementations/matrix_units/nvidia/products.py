"""Matrix products for NVIDIA GPUs as steps: what scales them, the products, what adds up those of several parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.implementations.gpu.products import ProductSizes
from clgraph.implementations.matrix_units.nvidia.scales import Scales
from clgraph.implementations.matrix_units.nvidia.tiles import Tiling, best_tiling
from clgraph.selector.general import launch, table
from clgraph.selector.implementation import roofline
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Argument, Launch, Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View

_TRAFFIC = 0.7
"""Share of the memory's rate. An estimate."""


@frozen
class Products:
    """Products of certain sizes by the kernels that include ``nvidia_tile.clh``.

    Attributes:
        scales: Of the factors; none where products need no scales.
    """

    sizes: ProductSizes
    tiling: Tiling
    scales: Scales | None = None

    @property
    def parts(self) -> str:
        """The role of the sums of the parts of k: four bytes each; of none where there is one part."""
        return "scratch0" if self.tiling.split_k > 1 else "null"

    @property
    def largest(self) -> str:
        """The role of what the factors are scaled by."""
        return f"scratch{int(self.tiling.split_k > 1)}" if self.scales else "null"

    def cost(self, q: Query[Any], compute: float, slower: float = 1.0) -> float:
        """Estimate all steps.

        Args:
            compute: Of what the cost model knows as the peak; an estimate.
            slower: By how much longer than those of the cost model steps take.
        """
        before = self.scales.seconds(q.device) if self.scales else 0.0
        return before + max(roofline(q, compute, _TRAFFIC), q.device.launch_seconds + slower * self.tiling.seconds)

    def plan(self, kernel: str, jit: Jit, arguments: Sequence[Argument], ending: Callable[[], Launch]) -> Plan:
        """Return all steps.

        Args:
            kernel: Such as ``matmul/matmul_nvidia``; *jit* its preamble, but for PARTS.
            ending: Makes the step that adds up several parts.
        """
        tile, parts, sizes, entry = self.tiling.tile, self.tiling.split_k, self.sizes, kernel.rsplit("/", 1)[1]
        tiles = -(-sizes.rows // tile.rows) * -(-sizes.columns // tile.columns)
        grid = (tiles * tile.items, parts, sizes.count)
        steps = [self.scales.step(self.largest)] if self.scales else []
        steps.append(
            Launch(f"{kernel}.cl", entry, jit.define(PARTS=parts > 1), grid, (tile.items, 1, 1), tuple(arguments))
        )
        scratch = [4 * parts * self.sizes.results] if parts > 1 else []
        if parts > 1:
            steps.append(ending())
        return Plan(tuple(steps), (*scratch, *([self.scales.scratch_bytes] if self.scales else [])))

    def added(
        self,
        kernel: str,
        jit: Jit,
        dims: Sequence[int],
        views: Sequence[View],
        tensors: Sequence[Argument],
        posts: Sequence[Argument],
        *more: int,
    ) -> Launch:
        """Return the step that adds up the parts: a work-item four neighbours of the result, by ``parts.clh``.

        Args:
            dims: Of the result, in fours; *views* on them.
            tensors: The arguments between parts and table.
            more: What the table has behind the number of parts and the elements of one.
        """
        numbers = table(dims, *views, [self.tiling.split_k, self.sizes.results, *more])
        return launch(kernel, jit, prod(dims), self.parts, *tensors, numbers, *posts)


def products(
    q: Query[Any], product: str, sizes: ProductSizes, tiling: Tiling | None = None, scales: Scales | None = None
) -> Products:
    """Return the products of *q*, made as *product* says, in a given tiling or in the one that makes them soonest."""
    return Products(sizes, best_tiling(q.device, product, sizes) if tiling is None else tiling, scales)
