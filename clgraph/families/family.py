"""A family of shapes: its representative, compiled by all passes, and what its members are derived by."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.core.memo import Remembering, remembered
from clgraph.families.binding import Packings, bind
from clgraph.families.member import MemberRecipe
from clgraph.families.schema import Schema, Sizes
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.passes.base import Context
from clgraph.passes.memory.slice_costs import fastest_slices

PassRow = tuple[int, str, int, float]
"""Number, name, changes and seconds of a pass."""
Compile = Callable[[Program, Sequence[Shape]], Sequence[PassRow]]
"""Runs all passes over the built program of the given input shapes; returns what each did."""


@frozen
class Family(Remembering):
    """What the programs of all shapes of a schema are derived from.

    Attributes:
        representative: What the representative was compiled for.
        sliced: Whether a batch of it may be computed in slices.
        order: The number of the order in which buffers are packed best.
        made: When it was, by ``time.perf_counter``.
        passes: What the passes did to the representative.
    """

    schema: Schema
    representative: Sizes
    recipe: MemberRecipe
    context: Context
    sliced: bool = False
    order: int = 0
    packings: Packings = field(default_factory=Packings)
    made: float = field(default_factory=time.perf_counter)
    passes: tuple[PassRow, ...] = ()

    def slices(self, program: Program) -> int:
        """Return in how many slices the batch of *program*, a member, is computed fastest."""
        device = self.context.default
        applies = self.sliced and device.kind == "cpu" and "host_memory" in device.features
        return fastest_slices(program, device) if applies else 1

    @remembered
    def __str__(self) -> str:
        shapes = ", ".join(str(list(shape)) for shape in self.representative.shapes)
        return f"{self.schema} of {shapes}"

    def bind(self, shapes: Sequence[Shape], known: Mapping[str, Array]) -> Program:
        """Return the planned program for inputs of *shapes*; raises ``BindingError`` where there is no telling."""
        return bind(self.recipe, self.packings, self.context, shapes, known, self.order)
