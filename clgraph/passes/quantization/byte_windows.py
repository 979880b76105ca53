"""Maxima of bytes whose channels come last, which need not come first for that; a step of prepare_quantization."""

from __future__ import annotations

from dataclasses import replace

from clgraph.graph.node import Node
from clgraph.graph.program import Program
from clgraph.ops.byte_lookup import BYTES
from clgraph.ops.pooling import Pooling
from clgraph.ops.reshape import Reshape
from clgraph.ops.transpose import Transpose
from clgraph.passes.rewriting import apart, read_outside, substitute

_CHANNELS_FIRST, _CHANNELS_LAST = Transpose((0, 3, 1, 2)), Transpose((0, 2, 3, 1))


def leave_channels_last(program: Program, node: Node) -> bool:
    """Make the maxima *node* of bytes between two transposes those of a volume ``[N, 1, H, W, C]``; say whether."""
    p, made = node.primitive, node.inputs[0].producer
    if not isinstance(p, Pooling) or p.function != "max" or node.fused or node.output.layout.dtype not in BYTES:
        return False
    if made is None or made.primitive != _CHANNELS_FIRST or len(node.output.readers) != 1:
        return False
    (back,) = node.output.readers
    chain = [made, node, back]
    if back.primitive != _CHANNELS_LAST or any(n.fused for n in chain) or apart(chain) is not None:
        return False
    if any(read_outside(program, n.output, chain[i + 1 : i + 2]) is not None for i, n in enumerate(chain[:2])):
        return False
    batch, *image = made.inputs[0].layout.shape
    volume = replace(
        p, kernel=(*p.kernel, 1), strides=(*p.strides, 1), dilations=(*p.dilations, 1), pads=(*p.pads, (0, 0))
    )
    x = program.insert(Reshape((batch, 1, *image)), [made.inputs[0]], sources=[node], before=made).output
    y = program.insert(volume, [x], sources=[node], before=made).output
    substitute(program, chain, Reshape(back.output.layout.shape), [y], back)
    return True
