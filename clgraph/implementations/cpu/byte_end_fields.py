"""The fields that say how sums of bytes become results on CPU devices."""

from __future__ import annotations

from typing import Any

from clgraph.core.frozen import frozen
from clgraph.selector.descriptor import Float, Int, Pointer, fields

FLOATS, BYTES, TWICE, SUMS, EXTREMES, COMPUTED = 0, 1, 2, 3, 4, 5
"""Modes of ``micro_bytes.cl``: floats, bytes; bytes and floats of what is rounded, scaled or added to before; extremes
of sums; bytes of computed steps."""
NOTED, NOTED_BEHIND = 1, 2
"""Extremes of floats are kept as they are written, or behind the list."""
END_BYTES = 128
"""Bytes of a tile's scratch for the fields of :class:`ByteEnd`: see ``end_with`` of ``bytes.clh``."""
CHANNEL_NUMBERS = 8
"""Floats of a channel that a tile puts into its scratch: see ``write_scales``."""


@fields
class ByteEnd:
    """Fields as in ``micro_bytes.cl``, in the order of the struct ``byte_end``."""

    first: Float
    floor: Float
    middle: Float
    adding: Float
    bottom: Float
    second: Float
    third: Float
    shift: Float
    step: Float
    later: Float
    ending: Float
    least: Float
    most: Float
    slope: Float
    offset: Float
    gate: Float
    gate_from: Float
    factor: Float
    summand: Float
    within: Int
    again: Int
    after: Int
    joint: Int
    single: Int
    bounded: Int
    noting: Int
    finished: Int
    lined: Int
    zero: Int
    low: Int
    high: Int


@fields
class EndOperands:
    """What ``operand_refs`` of ``byte_ends.py`` returns: ``NULL`` for what there is not."""

    by: Pointer
    plus: Pointer
    by_after: Pointer
    plus_after: Pointer
    entries: Pointer
    largest: Pointer
    smallest: Pointer
    steps: Pointer
    zeros: Pointer


@frozen
class End:
    """What happens to sums.

    Attributes:
        taken: How many operations the micro-kernel applies; the others are the list, but the rounding at the end.
        last: What the list's results are divided by to be rounded; 0 where there is no list, or no rounding.
        numbers: The fields of :class:`ByteEnd`.
        by, plus: The slots of a factor and a summand of each channel.
        by_after, plus_after: Those that meet what the second rounding makes.
        residual: The slot of bytes that are added.
        entries: The slot of a table that the bytes are looked up in.
        largest, smallest: The slots of notes of the extremes of floats.
        steps, zeros: The slots of scale and zero point of the last rounding, where the network computes them.
    """

    mode: int
    taken: int
    last: float
    numbers: dict[str, Any]
    by: int | None = None
    plus: int | None = None
    by_after: int | None = None
    plus_after: int | None = None
    residual: int | None = None
    entries: int | None = None
    largest: int | None = None
    smallest: int | None = None
    steps: int | None = None
    zeros: int | None = None

    def __hash__(self) -> int:
        return hash((self.mode, self.residual, self.taken))


_FLOATS = (
    "first",
    "floor",
    "middle",
    "adding",
    "bottom",
    "second",
    "third",
    "shift",
    "step",
    "later",
    "ending",
    "least",
    "most",
    "slope",
    "offset",
    "gate",
    "gate_from",
    "factor",
    "summand",
)


def end_numbers(zero: int = 0, low: int = 0, high: int = 255, **said: Any) -> dict[str, Any]:
    """Return the fields of :class:`ByteEnd`, 0 where nothing is said; the bounds stand there four times."""
    bounds = {name: four_times(value) for name, value in (("low", low), ("high", high))}
    return {
        **dict.fromkeys(_FLOATS, 0.0),
        "within": 0,
        "again": 0,
        "after": 0,
        "joint": 0,
        "single": 0,
        "bounded": 0,
        "noting": 0,
        "finished": 0,
        "lined": 0,
        "zero": zero,
        **bounds,
        **said,
    }


def four_times(byte: int) -> int:
    """Return an int of four equal bytes."""
    word = (byte & 255) * 0x01010101
    return word - (word >> 31 << 32)
