"""Sequences of tensors, which exported loops gather their results in: ONNX's Sequence operators, on the host."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.gathered import Gathered
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive

Tensors = tuple[Array, ...]
"""A sequence as a value of a run."""


@primitive
@frozen
class SequenceConstruct(OfHostValues):
    """The inputs as a sequence."""

    kind: ClassVar[str] = "sequence_construct"

    def reference(self, *inputs: Array) -> Any:
        Gathered("the tensors of the sequence").add(inputs)
        return (inputs,)


@primitive
@frozen
class SequenceAt(OfHostValues):
    """The tensor at a place, which may count from the back."""

    kind: ClassVar[str] = "sequence_at"
    sequences: ClassVar[frozenset[int]] = frozenset({0})

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        tensors, place = inputs
        return (tensors[_place(place, len(tensors))],)


@primitive
@frozen
class SequenceInsert(OfHostValues):
    """The sequence with a tensor put before the one at a place, at the end without a place."""

    kind: ClassVar[str] = "sequence_insert"
    sequences: ClassVar[frozenset[int]] = frozenset({0})

    def reference(self, *inputs: Any) -> Any:
        tensors, more, *rest = inputs
        place = _place(rest[0], len(tensors), behind=True) if rest else len(tensors)
        made = (*tensors[:place], more, *tensors[place:])
        Gathered("the tensors of the sequence").add(made)
        return (made,)


@primitive
@frozen
class SequenceErase(OfHostValues):
    """The sequence without the tensor at a place, the last one without a place."""

    kind: ClassVar[str] = "sequence_erase"
    sequences: ClassVar[frozenset[int]] = frozenset({0})

    def reference(self, *inputs: Any) -> Any:
        tensors, *rest = inputs
        place = _place(rest[0], len(tensors)) if rest else len(tensors) - 1
        return ((*tensors[:place], *tensors[place + 1 :]),)


@primitive
@frozen
class SequenceLength(OfHostValues):
    """How many tensors there are, as an int64 scalar."""

    kind: ClassVar[str] = "sequence_length"
    sequences: ClassVar[frozenset[int]] = frozenset({0})

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        return (np.array(len(inputs[0]), np.int64),)


@primitive
@frozen
class SplitToSequence(OfHostValues):
    """x cut along *axis* into parts of the sizes, or of the one size, in input 1; without it into slices of 1.

    Attributes:
        keepdims: Whether slices of 1 keep the axis; those that sizes are listed for always do.
    """

    axis: int = 0
    keepdims: bool = True

    kind: ClassVar[str] = "split_to_sequence"

    def reference(self, *inputs: Array) -> Any:
        x, *rest = inputs
        size = x.shape[positive_axis(self.axis, x.ndim)]
        given = rest[0] if rest else np.ones((), np.int64)
        if given.ndim and int(given.sum()) != size:
            raise ShapeError(f"parts of {given.tolist()} do not make up the {size} elements of axis {self.axis}")
        if given.ndim == 0 and int(given) <= 0:
            raise ShapeError(f"parts of {int(given)} elements make up no axis")
        cuts = np.cumsum(given)[:-1] if given.ndim else np.arange(int(given), size, int(given))
        parts = np.split(x, cuts, self.axis) if size or given.ndim else []
        # ONNX has keepdims hold without input 1 only; torch's exporter gives a size of 1, and ONNX Runtime follows it.
        slices = given.ndim == 0 and min(int(given), size) == 1
        return (tuple(part.squeeze(self.axis) if slices and not self.keepdims else part for part in parts),)


@primitive
@frozen
class ConcatFromSequence(OfHostValues):
    """The tensors one behind the other along *axis*, along a new one with *stack*."""

    axis: int
    stack: bool = False

    kind: ClassVar[str] = "concat_from_sequence"
    sequences: ClassVar[frozenset[int]] = frozenset({0})

    def reference(self, *inputs: Any) -> tuple[Array, ...]:
        if not inputs[0]:
            raise ShapeError("an empty sequence has nothing to put together")
        return (np.stack(inputs[0], self.axis) if self.stack else np.concatenate(inputs[0], self.axis),)


def _place(place: Array, count: int, *, behind: bool = False) -> int:
    """Return a place among *count* tensors, or right *behind* them; negative ones count from the back."""
    at = int(np.ravel(place)[0])
    if not -count <= at <= count - (not behind):
        raise ShapeError(f"place {at} is outside of a sequence of {count} tensors")
    return at + count if at < 0 else at


@onnx("SequenceConstruct", since=(11,))
@onnx("SequenceEmpty", since=(11,))
def import_sequence_construct(node: OnnxNode) -> Primitive:
    return SequenceConstruct()


@onnx("SequenceAt", since=(11,))
def import_sequence_at(node: OnnxNode) -> Primitive:
    return SequenceAt()


@onnx("SequenceInsert", since=(11,))
def import_sequence_insert(node: OnnxNode) -> Primitive:
    return SequenceInsert()


@onnx("SequenceErase", since=(11,))
def import_sequence_erase(node: OnnxNode) -> Primitive:
    return SequenceErase()


@onnx("SequenceLength", since=(11,))
def import_sequence_length(node: OnnxNode) -> Primitive:
    return SequenceLength()


@onnx("SplitToSequence", since=(11, 24))
def import_split_to_sequence(node: OnnxNode) -> Primitive:
    return SplitToSequence(node.attribute("axis", 0), bool(node.attribute("keepdims", 1)))


@onnx("ConcatFromSequence", since=(11,))
def import_concat_from_sequence(node: OnnxNode) -> Primitive:
    return ConcatFromSequence(node.attribute("axis", 0), bool(node.attribute("new_axis", 0)))
