"""Compress the float weights of large products and embeddings. OpenVINO's NNCF does so (compress_weights)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass

BITS = {"int8": 8, "int4": 4}
"""Bits of a weight, by the value of the option ``weights``."""


class CompressWeights(Pass):
    """Round constant weights of products and embeddings to 8 or 4 bits, where the option ``weights`` says so.

    A product reads records (block_matmul), with a scale for each group along the summed axis: 8 bits are symmetric, 4
    have a zero point a group. Tables whose rows are picked, and the last product, have 8 bits in any case; a row of a
    table has one scale. Floats stay matrices of less than 65536 weights, those that something else reads, weights of
    convolutions and recurrent cells, nodes that ``keep_f32`` names, and what nothing serves otherwise. A note has the
    errors of each. Counts the nodes.
    """

    name: ClassVar[str] = "compress_weights"
    rounds: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLACED
    handles: ClassVar[Mapping[str, str]] = {
        "matmul": "reads constant weights of 8 or 4 bits as block_matmul, with the option weights",
        "gather": "picks rows of 8 bits, with the option weights",
    }

    def coarsest(self, context: Context) -> float:
        """Return the largest share of a weight's magnitude that rounding it takes."""
        return 2.0 ** (1 - BITS[context.weights])

    def run(self, program: Program, context: Context) -> int:
        if context.weights not in BITS:
            return 0
        # Imported only where the option asks for it.
        from clgraph.passes.quantization.compressed_products import compress

        count, lines = compress(program, context, BITS[context.weights])
        self.note(program, lines)
        return count
