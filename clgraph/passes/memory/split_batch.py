"""Compute a large batch in slices, one after another. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import singledispatch
from typing import ClassVar

from clgraph.core.frozen import mutable
from clgraph.core.layout import Layout, Shape
from clgraph.errors import ShapeError, UnsupportedError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import PRIMITIVES, Primitive
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.concat import Concat
from clgraph.ops.conv_transpose import ConvTranspose
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.image_planes import ImagePlanes
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.lrn import Lrn
from clgraph.ops.matmul import MatMul
from clgraph.ops.nv12_to_rgb import Nv12ToRgb
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.resize import Resize
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.ops.where import Where
from clgraph.passes.base import Context, Pass
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
        keeps = _apart.dispatch(PRIMITIVES[kind]) is not _apart.dispatch(object)
        return "may keep the entries of a batch apart" if keeps else "keeps a batch whole: it may mix its entries"


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
            found.layouts[value] = value.layout.with_shape(_divided(value.layout.shape, slices))
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
        if not _apart(primitive, [v.layout.shape for v in node.inputs], node.output.layout.shape, cut):
            return False
        if isinstance(primitive, Reshape):
            primitive = replace(primitive, shape=_divided(primitive.shape, found.slices))
        elif isinstance(primitive, Slice):
            primitive = replace(primitive, ends=_divided(primitive.ends, found.slices))
    if primitive is not node.primitive:
        found.primitives[node] = primitive
    for value, layout in zip(node.outputs, primitive.infer(inputs), strict=True):
        if layout.shape != (_divided(value.layout.shape, found.slices) if any(cut) else value.layout.shape):
            return False
        found.layouts[value] = layout
    return True


def _divided(shape: Shape, slices: int) -> Shape:
    if not shape or shape[0] % slices:
        raise ShapeError(f"{list(shape)} is not cut into {slices}")
    return (shape[0] // slices, *shape[1:])


@singledispatch
def _apart(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    """Whether entry i of the first axis of the result depends on the cut inputs' entries i alone, for shapes uncut."""
    return False


@_apart.register(Activation)
@_apart.register(Eltwise)
@_apart.register(Where)
@_apart.register(Reorder)
def _broadcast(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(len(s) == len(out) if c else len(s) < len(out) or s[0] == 1 for s, c in zip(inputs, cut, strict=True))


@_apart.register(Convolution)
@_apart.register(ConvTranspose)
@_apart.register(Pooling)
@_apart.register(Lrn)
@_apart.register(BatchNormalization)
@_apart.register(ImagePlanes)
def _spatial(primitive: Primitive, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return cut[0] and not any(cut[1:])


@_apart.register
def _(primitive: Nv12ToRgb, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut)


@_apart.register
def _(primitive: Resize, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return out[0] == inputs[0][0] and primitive.shape is None and not any(cut[1:])


@_apart.register
def _(primitive: LayerNormalization, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    whole = all(len(s) < len(out) or s[0] == 1 for s in inputs[1:])
    return cut[0] and not any(cut[1:]) and primitive.axis % len(out) > 0 and (primitive.channels or whole)


@_apart.register
def _(primitive: Softmax, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(axis % len(out) > 0 for axis in primitive.axes) and not primitive.flatten


@_apart.register
def _(primitive: Reduce, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return 0 not in primitive.reduced(len(inputs[0]))


@_apart.register(Concat)
@_apart.register(Split)
def _along(primitive: Concat | Split, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut) and primitive.axis % len(inputs[0]) > 0


@_apart.register
def _(primitive: Slice, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return (primitive.starts[0], primitive.ends[0], primitive.steps[0]) == (0, inputs[0][0], 1)


@_apart.register
def _(primitive: Pad, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return primitive.pads[0] == (0, 0)


@_apart.register
def _(primitive: Transpose, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return bool(primitive.axes) and primitive.axes[0] == 0


@_apart.register
def _(primitive: Reshape, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(out) > 0


@_apart.register
def _(primitive: Gather, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    axis = primitive.axis % len(inputs[0])
    return (cut == [True, False] and axis > 0) or (cut == [False, True] and axis == 0)


@_apart.register
def _(primitive: MatMul, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    a, b, *bias = inputs
    if any(cut[2:]) or any(len(s) == len(out) and s[0] != 1 for s in bias):
        return False
    if cut[0] and cut[1]:
        return len(a) == len(b) > 2
    one, other, transposed = (a, b, primitive.transpose_a) if cut[0] else (b, a, True)
    alone = len(other) < 3 or len(other) < len(one) or other[0] == 1
    return len(one) == len(out) and alone and (len(one) > 2 or (len(one) == 2 and not transposed))
