"""Make one operator of a convolution and the relu behind it: the example of ONNC's guide, with its missing cases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from acme_clgraph.conv_relu import ConvRelu
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import apart, substitute


@dataclass(frozen=True)
class FuseConvRelu(Pass):
    """Replace each convolution of images whose only reader is a relu, and the relu, by one ``acme_conv_relu``.

    The convolution stays when nobody reads it, when its result is a result of the graph, when something else reads it
    too, or when the two are placed or annotated apart.
    """

    name: ClassVar[str] = "acme_fuse_conv_relu"
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        fused = 0
        for node in program:
            relu = _relu_behind(program, context, node)
            if relu is not None:
                p = node.primitive
                made = ConvRelu(p.strides, p.dilations, p.pads, p.groups)
                substitute(program, [node, relu], made, node.inputs)
                fused += 1
        return fused

    def describe(self, kind: str) -> str:
        ours = {Convolution.kind: "is fused with the relu behind it", Activation.kind: "a relu goes into a convolution"}
        return ours.get(kind, "as any node: opaque")


def _relu_behind(program: Program, context: Context, node: Node) -> Node | None:
    p = node.primitive
    if not isinstance(p, Convolution) or node.output.layout.rank != 4 or "acme" not in context.device(node).features:
        return None
    if node.fused or p.apart or program.is_output(node.output) or not node.output.has_one_use:
        return None
    (relu,) = node.output.readers
    is_relu = isinstance(relu.primitive, Activation) and relu.primitive.function == "relu" and not relu.fused
    return relu if is_relu and apart((node, relu)) is None else None
