"""Keep quantised weights of products in the bits that they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass


class KeepWeightsPacked(Pass):
    """Let products read constant weights behind a Dequantize as records of 2, 4 or 8 bits, on CPUs.

    Such weights would become floats, of up to sixteen times the memory, of which a product of few rows reads all. The
    Dequantize has one scale for all weights, one a column or one a block along the summed axis, and products alone read
    it, whose other side is not dequantised itself: those of quantised groups are use_integers's. Counts the products.
    """

    name: ClassVar[str] = "keep_weights_packed"
    rounds: ClassVar[bool] = True
    handles: ClassVar[Mapping[str, str]] = {
        "matmul": "reads constant weights of few bits as block_matmul",
        "dequantize": "of constant weights of few bits, becomes a part of the products that read it",
    }

    def run(self, program: Program, context: Context) -> int:
        if not context.on_cpus or not any(node.primitive.kind == "dequantize" for node in program):
            return 0
        # Imported only where there may be such weights: most models have none.
        from clgraph.passes.quantization.packed_products import pack_products

        done, notes = pack_products(program, context)
        self.note(program, notes)
        return done
