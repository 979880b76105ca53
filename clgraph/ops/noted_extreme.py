"""Extremes of a whole tensor that what makes it notes on the way, so that nothing reads it once more for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.primitive import Array, PostOperation, Primitive, primitive

EXTREMA = {"max": 1, "min": -1}
"""By what their arguments are multiplied with to be maxima."""


@primitive
@frozen
class EmptyNote(Primitive):
    """A note on which no extreme stands yet. Input: anything, which is not read: a note is made in every run."""

    kind: ClassVar[str] = "empty_note"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (Layout(DType.F32, ()),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.array(-np.inf, np.float32),)


@primitive
@frozen
class NoteExtreme(Primitive):
    """``y = x``, whose extreme is put on a note on the way. Inputs: x and the note, which a kernel writes to.

    Only a post-operation, the last one: what it meets are the elements that are written.
    """

    function: str

    kind: ClassVar[str] = "note_extreme"
    holds_sizes: ClassVar[bool] = False
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        _check(inputs[0], inputs[1])
        return (inputs[0],)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0],)

    def as_post(self, slot: int) -> PostOperation | None:
        return None if slot else PostOperation(f"note_{self.function}")


@primitive
@frozen
class NotedExtreme(Primitive):
    """The largest or smallest element of x, NaN where there is one, ``[1, 1]``. Inputs: the note and x.

    Kernels read the note alone, the reference x alone.
    """

    function: str

    kind: ClassVar[str] = "noted_extreme"
    holds_sizes: ClassVar[bool] = False

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        _check(inputs[1], inputs[0])
        return (Layout(DType.F32, (1, 1)),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        found = inputs[1].max() if EXTREMA[self.function] > 0 else inputs[1].min()
        return (np.full((1, 1), found, np.float32),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 1.0


def _check(x: Layout, note: Layout) -> None:
    if (x.dtype, note.dtype, note.shape) != (DType.F32, DType.F32, ()):
        raise ShapeError(f"requires f32 and a note, not {x} and {note}")
