"""Slices that are assigned: ``y[:, :, start:end] = x`` as a Concat of what stays in front, x, and what stays behind.

PyTorch's exporters write such an assignment as a ScatterND whose indices are ranges over axes, each of the size that an
axis has: of every axis and expanded to all elements (``torch.onnx.export`` by tracing), or of the first axis, to which
the assigned one is moved.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.compilation.idioms.producers import Producers
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.graph.layer import Layer
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.state.examples import Examples
from clgraph.ops.concat import Concat
from clgraph.ops.scatter_nd import ScatterND
from clgraph.ops.slice import Slice

_MOVES = frozenset({"concat", "expand", "reorder", "reshape", "slice", "squeeze", "transpose", "unsqueeze"})
"""Kinds whose elements are those of what they read, or numbers of another type."""

_EVERY = np.iinfo(np.int64).max


@frozen
class AssignedPart:
    """Places *start* to *end* of an axis; to the last one where *end* is ``None``."""

    axis: int
    start: int
    end: int | None


def with_assigned_slices(topology: Topology) -> Topology:
    """Return *topology* with slices joined where indices of a ScatterND are ranges over one part of its data.

    The ranges are compared in examples of several sizes.
    """
    made_by = Producers.of(topology)
    found = {
        x.name: x
        for x in topology.layers
        if isinstance(x.primitive, ScatterND) and x.primitive.reduction == "none"
        if x.inputs[1] in made_by.layers and _is_of_ranges(x, made_by)
    }
    programs = Examples(topology).programs if found else ()
    parts = {name: part for name, x in found.items() if (part := _part(x, programs)) is not None}
    if not parts:
        return topology
    made = replace(topology, layers=[])
    for layer in topology.layers:
        made.layers += _joined(layer, parts[layer.name]) if layer.name in parts else [layer]
    return made.pruned()


def _is_of_ranges(scatter: Layer, made_by: Producers) -> bool:
    """Whether indices are made of ranges that end with sizes of the data, of which slices may be taken."""
    data, indices, _ = scatter.inputs
    waiting, seen = [indices], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name in made_by.constants:
            continue
        seen.add(name)
        layer = made_by.layers.get(name)
        if layer is None:
            return False
        slots = layer.primitive.value_slots()
        if layer.primitive.kind == "sequence" and len(layer.inputs) == len(slots):
            start, limit, step = layer.inputs
            if not made_by.constants.keys() >= {start, step} or not _is_size(limit, data, made_by):
                return False
        elif layer.primitive.kind in _MOVES:
            read = [layer.inputs[slot] for slot in slots if layer.primitive.kind != "expand"]
            if not made_by.constants.keys() >= set(read):
                return False
            waiting += [n for slot, n in enumerate(layer.inputs) if slot not in slots]
        else:
            return False
    return True


def _is_size(name: str, data: str, made_by: Producers) -> bool:
    """Whether *name* is a size of *data*, or of what that is a transposition of."""
    shape = made_by.find(name, "gather", "shape")
    return shape is not None and _untransposed(shape.inputs[0], made_by) == _untransposed(data, made_by)


def _untransposed(name: str, made_by: Producers) -> str:
    while (layer := made_by.find(name, "transpose")) is not None:
        name = layer.inputs[0]
    return name


def _part(layer: Layer, programs: tuple[Program, ...]) -> AssignedPart | None:
    """Return the part of its data that *layer* replaces in all *programs*, which are two at least."""
    found = []
    for program in programs:
        values = {v.name: v for v in (*program.inputs, *program.values)}
        data, indices, updates = (values.get(name) for name in layer.inputs)
        if data is None or updates is None or indices is None:
            return None
        found.append(_replaced(_elements(indices), data.layout.shape))
    parts = set(found)
    return parts.pop() if len(programs) > 1 and len(parts) == 1 else None


def _elements(value: Value) -> Array:
    """Return the elements of a value that is moved constants and ranges; of large ones a program knows none."""
    if value.constant is not None or (node := value.producer) is None:
        assert value.constant is not None
        return value.constant
    return node.primitive.reference(*map(_elements, node.inputs))[node.outputs.index(value)]


def _replaced(indices: Array, data: Shape) -> AssignedPart | None:
    """Return the part of *data* that *indices* ``[..., axes]`` go through in order."""
    *sizes, axes = indices.shape
    if len(sizes) != axes or not axes or 0 in sizes:
        return None
    first = indices[(0,) * axes]
    if not np.array_equal(np.moveaxis(indices, -1, 0) - first.reshape(-1, *(1,) * axes), np.indices(sizes)):
        return None
    parts = [
        AssignedPart(i, int(start), None if start + n == whole else int(start) + n)
        for i, (start, n, whole) in enumerate(zip(first, sizes, data, strict=False))
        if start or n != whole
    ]
    return None if len(parts) > 1 or first.min() < 0 else parts[0] if parts else AssignedPart(0, 0, None)


def _joined(layer: Layer, part: AssignedPart) -> list[Layer]:
    """Return what joins the updates of *layer* with what it keeps of its data."""
    data, _, updates = layer.inputs
    before, behind = f"{layer.name}/before", f"{layer.name}/behind"
    kept, joined = [], [updates]
    if part.start:
        kept.append(Layer(before, Slice((0,), (part.start,), (1,), (part.axis,)), (data,), (before,), layer.origin))
        joined.insert(0, before)
    if part.end is not None:
        kept.append(Layer(behind, Slice((part.end,), (_EVERY,), (1,), (part.axis,)), (data,), (behind,), layer.origin))
        joined.append(behind)
    return [*kept, replace(layer, primitive=Concat(part.axis), inputs=tuple(joined))]
