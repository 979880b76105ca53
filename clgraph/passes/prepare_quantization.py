"""Turn quantised spellings into integer primitives. Answers clDNN's prepare_quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass


@dataclass(frozen=True)
class PrepareQuantization(Pass):
    """Change nothing: no primitive of this version computes with quantised integers.

    QuantizeLinear, DequantizeLinear and the integer operators are refused by name when a model is imported, so no
    program holds a group that this pass could rewrite.
    """

    name: ClassVar[str] = "prepare_quantization"

    def run(self, program: Program, context: Context) -> int:
        return 0
