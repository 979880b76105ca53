"""Compute a large batch in slices, one after another. clDNN has no such pass."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

from clgraph.core.frozen import mutable
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Primitive
from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.entries_apart import RULES, divided, keeps_apart, of_slice
from clgraph.passes.memory.slice_costs import divisors, fastest_slices
from clgraph.selector.query import DeviceInfo


class SplitBatch(Pass):
    """Compute one of equal slices of the batch, so that what nodes hand on stays in the cache; a run computes them all.

    Every input with as many entries as the first one is cut along its first axis; the others are the same for all
    slices. Only a program all of whose results are known to be computed for each entry apart is cut, on a CPU that
    works on the host's memory. The layouts of all values become those of one slice; ``Program.batch_slices`` counts
    the slices. Counts them, where there are several.
    """

    name: ClassVar[str] = "split_batch"

    def run(self, program: Program, context: Context) -> int:
        slices = best_slices(program, context.default) if context.split_batch and program.batch_slices == 1 else 1
        found = slice_of(program, slices) if slices > 1 else None
        if not isinstance(found, BatchSlice):
            return 0
        entries = program.inputs[0].layout.shape[0]
        found.apply(program)
        program.notes[self.name] = f"computed in {slices} slices of {entries // slices}, one after another"
        return slices

    def describe(self, kind: str) -> str:
        return (
            "may keep the entries of a batch apart" if kind in RULES else "keeps a batch whole: it may mix its entries"
        )


def best_slices(program: Program, device: DeviceInfo) -> int:
    """Return in how many equal slices the batch should be computed fastest on *device*; 1 leaves it whole.

    Where the batch is large, what a node makes has left the cache when the next one reads it; where it is small, all
    weights are read again for few inputs. Bytes that come from memory for the one and the other decide.
    """
    if device.kind != "cpu" or "host_memory" not in device.features or not program.inputs:
        return 1
    first = program.inputs[0].layout.shape
    sizes = divisors(first[0])[1:] if first else []
    if not sizes or not isinstance(slice_of(program, sizes[-1]), BatchSlice):
        return 1
    return fastest_slices(program, device)


@mutable
class BatchSlice:
    """What changes in a program when it computes one of so many slices of its inputs.

    Attributes:
        layouts: Of the values that a node makes or that are cut, and ``primitives``: what nodes compute then.
    """

    slices: int
    layouts: dict[Value, Layout] = field(default_factory=dict)
    primitives: dict[Node, Primitive] = field(default_factory=dict)

    def is_cut(self, value: Value) -> bool:
        """Whether *value* has fewer entries in a slice."""
        return value in self.layouts and self.layouts[value].shape != value.layout.shape

    def apply(self, program: Program) -> None:
        """Make *program*, which this was found for, that of a slice."""
        for value, layout in self.layouts.items():
            value.layout = layout
        for node, primitive in self.primitives.items():
            node.primitive = primitive
        program.batch_slices = self.slices


def slice_of(program: Program, slices: int) -> BatchSlice | str:
    """Return what *program* is for one of so many equal slices of its inputs along the first axis.

    Else why there is none: some result is not known to be the slices' results one behind the other, or an input that is
    the same for all slices would have as many entries as a slice.
    """
    entries, found = program.inputs[0].layout.shape[0], BatchSlice(slices)
    for value in program.inputs:
        first = value.layout.shape[:1]
        if first == (entries,):
            found.layouts[value] = value.layout.with_shape(divided(value.layout.shape, slices))
        elif first == (entries // slices,):
            return f"input {value.name!r} has as many entries as a slice"
    for node in program:
        try:
            apart = _enter(node, found)
        except (ShapeError, UnsupportedError) as error:
            return f"{node.name} ({node.primitive.kind}) is not that of a part of the batch: {error}"
        if not apart:
            return f"{node.name} ({node.primitive.kind}) is not known to keep the entries of a batch apart"
    whole = [name for name, value in program.outputs if not found.is_cut(value)]
    return f"output {whole[0]!r} has no entry for each of the batch" if whole else found


def _enter(node: Node, found: BatchSlice) -> bool:
    """Enter what *node* computes in a slice, and the layouts it makes; say whether it keeps the slices apart."""
    inputs = [found.layouts.get(v, v.layout) for v in node.inputs]
    cut, primitive = [found.is_cut(v) for v in node.inputs], node.primitive
    if any(cut):
        if not keeps_apart(primitive, [v.layout.shape for v in node.inputs], node.output.layout.shape, cut):
            return False
        primitive = of_slice(primitive, found.slices)
    if primitive is not node.primitive:
        found.primitives[node] = primitive
    for value, layout in zip(node.outputs, primitive.infer(inputs), strict=True):
        if layout.shape != (divided(value.layout.shape, found.slices) if any(cut) else value.layout.shape):
            return False
        found.layouts[value] = layout
    return True
