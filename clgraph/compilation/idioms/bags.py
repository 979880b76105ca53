"""Bags of embeddings of one length, which a loop reduces one after the other, and the one reduction that makes all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clgraph.compilation.idioms.producers import Producers
from clgraph.core.frozen import frozen
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.concat import Concat
from clgraph.ops.reduce import Reduce
from clgraph.ops.reshape import Reshape, Unsqueeze
from clgraph.ops.shape import ShapeOf

_FUNCTIONS = frozenset({"sum", "mean", "max"})
_ANY = "bags: any"
NUMBERS = {_ANY: np.array([-1], np.int64)}
"""Constants that the layers of :attr:`Bags.together` read, by name."""


@frozen
class Bags:
    """What a loop reduces.

    Attributes:
        loop: The layer that makes one bag after the other.
        result: The layer that gives all bags: *loop*, or what joins the sequence that it makes.
        rows: Name of the rows of all bags ``[all, width]``; with *gather* of their indices in a table, of any shape.
        length: Name of the number of rows of a bag, a scalar.
        function: What makes a bag of its rows.
        gather: Picks the rows from the table that is called *table* and holds *entries*.
    """

    loop: Layer
    result: Layer
    rows: str
    length: str
    function: str
    gather: Primitive | None = None
    table: str = ""
    entries: Array | None = None

    @property
    def constants(self) -> dict[str, Array]:
        """The constants that :attr:`together` reads, by name."""
        return NUMBERS if self.entries is None else {**NUMBERS, self.table: self.entries}

    @property
    def together(self) -> list[Layer]:
        """The layers that make all bags at once: of rows ``[bags, length, width]``."""
        name, last = self.result.name, self.result
        steps: list[tuple[str, Primitive, tuple[str, ...]]] = [("length", Unsqueeze((0,)), (self.length,))]
        sizes: tuple[str, ...] = (_ANY, f"{name}/length")
        if self.gather is None:
            steps.append(("width", ShapeOf(1, 2), (self.rows,)))
            sizes = (*sizes, f"{name}/width")
        steps.append(("shape", Concat(0), sizes))
        steps.append(("rows", Reshape(reads=("shape",)), (self.rows, f"{name}/shape")))
        if self.gather is not None:
            steps.append(("picked", self.gather, (self.table, f"{name}/rows")))
        layers = [Layer(f"{name}/{n}", p, x, (f"{name}/{n}",), last.origin, last.annotation) for n, p, x in steps]
        return [
            *layers,
            replace(last, primitive=Reduce(self.function, (1,), keepdims=False), inputs=layers[-1].outputs),
        ]


def reduction(producers: Producers, layer: Layer, *, keepdims: bool) -> str | None:
    """Return the function by which *layer* makes a bag of rows along the first axis; ``None`` where it does not."""
    p = layer.primitive
    if not isinstance(p, Reduce) or p.function not in _FUNCTIONS or p.keepdims != keepdims:
        return None
    return p.function if len(layer.inputs) == 2 and producers.holds(layer.inputs[1], 0) else None
