"""Functions between integers of 8 bits as tables; a step of prepare_quantization."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import BYTES, ENTRIES, ByteLookup
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.passes.rewriting import apart, read_outside, substitute


def look_up(program: Program, node: Node) -> bool:
    """Make a table of a Dequantize, activations and *node*, a Quantize of what they make; say whether it did.

    Both are of 8 bits, with one known scale.
    """
    if not _known(node) or node.output.layout.dtype not in BYTES:
        return False
    chain = [node]
    while (made := chain[0].inputs[0].producer) is not None and isinstance(made.primitive, Activation | Dequantize):
        if made.fused or read_outside(program, made.output, chain[:1]) is not None or not _known(made):
            return False
        chain.insert(0, made)
        if isinstance(made.primitive, Dequantize):
            break
    first = chain[0]
    if not isinstance(first.primitive, Dequantize) or apart(chain) is not None:
        return False
    if first.inputs[0].layout.dtype not in BYTES or any(n.output.layout.dtype != DType.F32 for n in chain[:-1]):
        return False
    entries = program.constant(f"{node.name}/entries", _entries(chain))
    substitute(program, chain, ByteLookup(), [first.inputs[0], entries], node)
    return True


def look_up_parts(program: Program, node: Node) -> bool:
    """Let *node*, a Quantize of 8 bits, make the parts of a concat of bytes instead of the whole; say whether it did.

    Parts on the steps of the result are taken as they are.
    """
    joined = node.inputs[0].producer
    if joined is None or not isinstance(joined.primitive, Concat) or joined.fused or not _known(node):
        return False
    if node.output.layout.dtype not in BYTES or read_outside(program, joined.output, [node]) is not None:
        return False
    made = [v.producer for v in joined.inputs]
    parts = [n for n in made if n is not None and isinstance(n.primitive, Dequantize) and _known(n)]
    if len(parts) < len(made) or any(n.inputs[0].layout.dtype not in BYTES for n in parts):
        return False
    if apart([*dict.fromkeys(parts), joined, node]) is not None or any(
        n.output.layout.dtype != DType.F32 for n in parts
    ):
        return False
    rounded = []
    for part in parts:
        if part.inputs[0].layout.dtype == node.output.layout.dtype and _steps(part) == _steps(node):
            rounded.append(part.inputs[0])
            continue
        entries = program.constant(f"{part.name}/entries", _entries([part, node]))
        looked_up = program.insert(ByteLookup(), [part.inputs[0], entries], sources=[part, node], before=joined)
        rounded.append(looked_up.output)
    substitute(program, [joined, node], joined.primitive, rounded, node)
    for part in dict.fromkeys(parts):
        if not part.output.readers and not program.is_output(part.output):
            program.erase(part)
    return True


def _steps(node: Node) -> list[float]:
    """Return scale and zero point of a Quantize or Dequantize, both known."""
    scale, zero = (*(v.constant for v in node.inputs[1:]), None)[:2]
    assert scale is not None
    return [float(scale.reshape(())), 0.0 if zero is None else float(zero.reshape(()))]


def _known(node: Node) -> bool:
    """Whether all of *node*'s inputs but the first are known single numbers, where it has any."""
    return not node.fused and all(v.constant is not None and v.layout.count == 1 for v in node.inputs[1:])


def _entries(chain: list[Node]) -> Array:
    """Return what *chain* makes of all bytes, by their bits."""
    value: Array = np.arange(ENTRIES, dtype=np.uint8).view(chain[0].inputs[0].layout.dtype.numpy)
    with np.errstate(all="ignore"):
        for node in chain:
            (value,) = node.primitive.reference(value, *(v.constant for v in node.inputs[1:] if v.constant is not None))
    return value
