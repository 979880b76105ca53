"""Running a program by the references of its primitives, at any milestone: the yardstick for every pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from clgraph.core.dtype import is_floating
from clgraph.graph.batch_slices import slices_of, whole_shape
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.reorder import Reorder
from clgraph.passes.constants.constant_programs import logical


def run_reference(
    program: Program,
    feeds: Mapping[str, Array],
    *,
    exact: bool = False,
    floats: type[np.floating] | None = None,
    moved: float = 0.0,
) -> dict[str, Array]:
    """Return the outputs by name.

    Args:
        feeds: Logical arrays by input name, of the whole batch; inputs that nothing reads may be missing.
        exact: Compute everything that is floating-point in float64, so that what two equivalent programs differ by is
            the rounding of their constants alone.
        floats: Compute it in this type instead.
        moved: Add so much of themselves to the floats that a node makes whole numbers of, as quantization does.
    """
    within = np.float64 if exact else floats
    found = [_run(program, given, within, moved) for given in slices_of(program, feeds)]
    return found[0] if len(found) == 1 else {name: np.concatenate([f[name] for f in found]) for name in found[0]}


def has_steps(node: Node) -> bool:
    """Return whether *node* makes whole numbers of floats: what is beside a half may be a step off, or two."""
    if not any(is_floating(v.layout.dtype.numpy) for v in node.inputs):
        return False
    functions = [getattr(p, "function", None) for p in (node.primitive, *(step.primitive for step in node.fused))]
    return any(f in _STEPPED for f in functions) or any(not v.layout.dtype.floating for v in node.outputs)


_STEPPED = frozenset({"ceil", "fake_quantize", "fake_quantize_wide", "floor", "round", "sign"})


def _run(
    program: Program, feeds: Mapping[str, Array], floats: type[np.floating] | None, moved: float
) -> dict[str, Array]:
    values: dict[Value, Array] = {v: _within(feeds[v.name], floats) for v in program.inputs if v.name in feeds}
    last: dict[Value, Node] = {v: node for node in program for v in node.inputs}
    kept = {v for _, v in program.outputs}
    for node in program:
        inputs = [logical(v) if v.constant is not None else values[v] for v in node.inputs]
        results = _compute(node, _moved(inputs, moved) if moved and has_steps(node) else inputs, floats)
        values.update(zip(node.outputs, results, strict=True))
        for value in node.inputs:
            if last[value] is node and value not in kept:
                values.pop(value, None)
    return {name: _within(logical(v), floats) if v.constant is not None else values[v] for name, v in program.outputs}


def _moved(inputs: Sequence[Array], moved: float) -> list[Array]:
    """Return *inputs*, the first of floats a little larger: scales are behind it."""
    first = next(i for i, a in enumerate(inputs) if is_floating(a.dtype))
    return [a * a.dtype.type(1 + moved) if i == first else a for i, a in enumerate(inputs)]


def random_feeds(program: Program, seed: int = 0) -> dict[str, Array]:
    """Return an array for each input: normal numbers, small integers, or booleans."""
    generator = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for value in program.inputs:
        dtype, shape = value.layout.dtype.numpy, whole_shape(program, value)
        if value.layout.dtype.floating:
            feeds[value.name] = generator.standard_normal(shape).astype(dtype)
        else:
            feeds[value.name] = generator.integers(0, 2 if dtype == np.bool_ else 4, shape).astype(dtype)
    return feeds


def compute(node: Node, inputs: Sequence[Array], *, exact: bool = False) -> tuple[Array, ...]:
    """Return what *node* makes of *inputs*, its constants among them; *exact* as in :func:`run_reference`."""
    return _compute(node, inputs, np.float64 if exact else None)


def _compute(node: Node, inputs: Sequence[Array], floats: type[np.floating] | None) -> tuple[Array, ...]:
    inputs = [_within(a, floats) for a in inputs]
    converts = floats is not None and isinstance(node.primitive, Reorder) and not node.fused
    if converts and inputs[0].dtype == floats and node.output.layout.dtype.floating:
        return (inputs[0],)
    return tuple(_within(np.asarray(r), floats) for r in node.reference(*inputs))


def _within(array: Array, floats: type[np.floating] | None) -> Array:
    return array.astype(floats) if floats is not None and is_floating(array.dtype) else array
