"""Fold scales and shifts of channels into weights and biases. Answers fuse_bias of clDNN's prepare_primitive_fusing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.fusing.weight_scaling import followers, scale_weights


class FoldIntoWeights(Pass):
    """Let weights and bias do what multiplies and adds constants to the channels they make.

    The longest chain of such operators behind a convolution or matrix product with constant weights goes at once,
    computed in float64 and rounded once. Counts the nodes that went.
    """

    name: ClassVar[str] = "fold_into_weights"
    handles: ClassVar[Mapping[str, str]] = {
        "activation": "a linear one becomes part of the weights and bias in front of it",
        "convolution": "constant weights take the scales and shifts of channels behind them",
        "eltwise": "with a constant a channel it becomes part of the weights and bias in front of it",
        "matmul": "constant weights take the scales and shifts of columns behind them",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        notes, gone = list[str](), 0
        for node in program:
            if node not in program:
                continue
            chain, total = followers(program, node)
            if chain:
                scale_weights(program, node, chain, total, context.packed)
                notes.append(f"{', '.join(n.name for n in chain)}: into the weights and bias of {node.name}")
                gone += len(chain)
        self.note(program, notes)
        return gone
