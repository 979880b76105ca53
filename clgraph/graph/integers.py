"""The integers that constants of quantised models are made of."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array


@frozen(eq=False)
class Integers:
    """What a constant was made of: ``(data - zero) * scale``.

    Attributes:
        scale, zero: One number, or one an index of *axis*; a zero of ``None`` is 0.
    """

    data: Array
    scale: Array
    zero: Array | None
    axis: int
