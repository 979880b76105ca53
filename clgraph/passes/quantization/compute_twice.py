"""Compute convolutions twice in place of writing floats that are rounded by their range. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass


class ComputeTwice(Pass):
    """Compute a convolution of bytes that dynamic quantisation rounds once for its range, and once more for its bytes.

    Its floats are four times the bytes that the next product reads, and are written and read for nothing else than
    their range. Where what is behind the sums (scale, bias, bounds) rises or falls with each of them, the range is that
    of the extremes of each channel's sums, which the products find without writing anything; computed once more, they
    are rounded before they are written. Only where that is estimated faster: where a result is large beside its
    products. Counts the convolutions.
    """

    name: ClassVar[str] = "compute_twice"
    handles: ClassVar[Mapping[str, str]] = {
        "quantized_convolution": "is computed twice where its result is rounded by its own range",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        found = [n for n in program if n.primitive.kind == "quantized_convolution"]
        if not found:
            return 0
        # Imported only where there are such convolutions: most models have none.
        from clgraph.passes.quantization.repeated_convolutions import repeat

        twice = [n.name for n in found if repeat(program, context, n)]
        self.note(program, [f"computed twice, for their range and for their bytes: {', '.join(twice)}"] * bool(twice))
        return len(twice)
