"""Functions of quantised values that are tables of 256 bytes; a step of use_integers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.byte_lookup import ENTRIES
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.on_steps import OnSteps
from clgraph.passes.quantization.steps import steps_of


@frozen(eq=False)
class ByteTable:
    """A rounded value that depends on a byte of another one alone.

    Attributes:
        root: The other one, on known steps.
        entries: The bytes, U8, by those of *root*.
        last: Whether others read it than what is computed on the way to further tables of the same root.
    """

    root: Value
    entries: Array
    last: bool


def byte_tables(program: Program) -> dict[Value, ByteTable]:
    """Return the rounded values that elementwise functions make of one value on known steps, whatever lies between."""
    known: dict[Value, tuple[Value, Array]] = {}
    rounded: dict[Value, Array] = {}
    for node in program:
        y = node.output if len(node.outputs) == 1 else None
        if y is None or y.layout.dtype != DType.F32 or y.constant is not None:
            continue
        function = _function(node, known)
        steps = steps_of(y)
        if function is not None:
            known[y] = function
            if steps is not None:
                bytes_ = np.rint(function[1] / np.float32(steps.scale)) - steps.low
                rounded[y] = np.clip(bytes_, 0, ENTRIES - 1).astype(np.uint8)
        elif steps is not None:
            known[y] = y, (np.arange(ENTRIES, dtype=np.float32) + steps.low) * np.float32(steps.scale)
    found = {}
    for y, entries in rounded.items():
        root = known[y][0]
        inside = all(v in known and known[v][0] is root for n in y.readers for v in n.outputs)
        found[y] = ByteTable(root, entries, not inside or program.is_output(y))
    return found


def _function(node: Node, known: Mapping[Value, tuple[Value, Array]]) -> tuple[Value, Array] | None:
    """Return the value that *node* is an elementwise function of, and what it makes of each of its steps."""
    if node.fused or not isinstance(node.primitive, Activation | Eltwise | OnSteps):
        return None
    numbers = [v.constant if v.constant is not None and v.layout.count == 1 else None for v in node.inputs]
    varied = [v for v, number in zip(node.inputs, numbers, strict=True) if number is None]
    if not varied or any(v not in known or v.layout.shape != node.output.layout.shape for v in varied):
        return None
    roots = {known[v][0] for v in varied}
    if len(roots) > 1:
        return None
    inputs = [known[v][1] if n is None else n.reshape(()) for v, n in zip(node.inputs, numbers, strict=True)]
    with np.errstate(all="ignore"):
        (values,) = node.primitive.reference(*inputs)
    return (roots.pop(), values) if np.isfinite(values).all() else None
