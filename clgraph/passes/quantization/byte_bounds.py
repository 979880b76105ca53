"""Roundings behind bounds of rounded values: PyTorch's exporter writes a Relu between a Dequantize and a product."""

from __future__ import annotations

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.passes.quantization.byte_makers import rounds
from clgraph.passes.quantization.steps import Steps, steps_of
from clgraph.passes.rewriting import apart, bypass


def round_bounded(program: Program) -> list[Node]:
    """Round once more what a bound of values on known steps makes, for products of integers that read it.

    The values lie on the same steps, so that nothing is changed by it. Returns the roundings, which ``without`` takes
    away where they have not become integers.
    """
    found = []
    for node in tuple(program):
        steps = steps_of(node.inputs[0]) if isinstance(node.primitive, Activation) and not node.fused else None
        if steps is None or not _stays_on(node, steps) or any(rounds(n.output) for n in node.output.readers):
            continue
        readers = [n for n in node.output.readers if _multiplies(n, node)]
        if not readers or apart([node, *readers]) is not None:
            continue
        first = min(readers, key=program.position)
        again = Activation("fake_quantize", steps.scale, float(steps.low))
        rounded = program.insert(again, [node.output], sources=[node], before=first)
        program.rewire(node.output, rounded.output, uses=[(n, 0) for n in readers])
        found.append(rounded)
    return found


def without(program: Program, roundings: list[Node]) -> None:
    """Take away those of *roundings* that are there still."""
    for node in roundings:
        if node in program and rounds(node.output):
            bypass(program, node)


def _stays_on(node: Node, steps: Steps) -> bool:
    """Whether *node* bounds its input by 0, and by nothing else that is within reach of *steps*."""
    p = node.primitive
    assert isinstance(p, Activation)
    if p.function == "relu":
        return True
    return p.function == "clip" and p.alpha == 0 and p.beta >= steps.scale * (steps.low + 255)


def _multiplies(node: Node, bound: Node) -> bool:
    """Whether *node* is a product of what *bound* makes with integers of 8 bits."""
    if not isinstance(node.primitive, Convolution | MatMul | ConvTranspose) or node.fused or len(node.inputs) < 2:
        return False
    integers = node.inputs[1].integers
    return node.inputs[0] is bound.output and integers is not None and integers.data.itemsize == 1
