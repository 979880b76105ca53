"""The sizes that a family's representative, and the witnesses beside it, are tried with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations
from math import prod

from clgraph.core.frozen import frozen
from clgraph.families.schema import Schema, Sizes

LEADING = (13, 17, 19, 23)
"""For batches: no sizes of windows, and hardly ever numbers of channels."""
OTHERS = (
    (320, 448, 192, 576, 384),
    (96, 160, 224, 128, 288),
    (24, 40, 56, 48, 72),
    (12, 20, 28, 18, 30),
)
"""For other axes, largest first: models that halve pictures five times want multiples of 32, tables of positions end
somewhere. Of a row, each free size gets one of its own."""


COMPUTED_ELEMENTS = min(*LEADING, *(size for row in OTHERS for size in row)) - 1
"""Of what is computed while layers are bound whether or not a size depends on it: shape arithmetic. A table as long as
some size is then computed for no candidate, where it would be for those that are small."""

ELEMENTS = (32, 4, 8, 2)
"""For elements of values: ends of slices, and sizes of reshaped tensors, lie within the others and divide them."""


GROWN = (16, 64, 3)
"""What the first row is multiplied by where the model builds for too few sizes of the rows: one window of a waveform
alone may take 512 samples or more, the rows of luma and chroma in a video frame are a multiple of 3."""

FACTORS, SMALL = (64, 16, 4), (3, 5, 7, 9, 11)
"""For extremes: the representative's so many times, and small ones. Where a size inside a model is 1, or equals
another, for all sizes of the rows, it may be otherwise for these."""


@frozen
class Candidate:
    """What a representative is tried with, what its witnesses are, in the order they are tried in, and extremes.

    Attributes:
        larger: Extremes of many times its sizes, and how many times, largest first; ``small`` are few of everything.
        times: How many times the sizes of a row these are: more than once where the model builds for none of the rows.
    """

    sizes: Sizes
    witnesses: tuple[Sizes, ...]
    larger: tuple[tuple[int, Sizes], ...]
    small: Sizes
    times: int = 1


def candidates(schema: Schema) -> Iterator[Candidate]:
    """Yield what to try as the representative of *schema*: a fixed list, that no request has a say in.

    First all sizes are of one row, the largest first, or for small pictures a smaller one; then of two sizes or more
    one is of another row than the others, as where the height of a picture must be small; then all are of the last row.
    Then elements of values are like sizes of inputs, as where pictures are resized to them; then batches are of another
    size, as where some axis of a model has the one before; at last sizes are far larger.
    """
    counted = any(given.count_of for given in schema.values)
    others = [name for name in schema.free if counted or name not in schema.leading]
    rows = range(len(OTHERS))
    for row in (rows[-3::-1] if schema.small else rows[:-2]) if others else ():
        yield _candidate(schema, dict.fromkeys(others, row))
    for row, odd in permutations(rows[:-1], 2) if len(others) > 1 else ():
        for name in others:
            yield _candidate(schema, {n: odd if n == name else row for n in others})
    for row in rows[-2:] if others else rows[:1]:
        yield _candidate(schema, dict.fromkeys(others, row))
    for row in rows[:-2] if schema.free_elements else ():
        yield _candidate(schema, dict.fromkeys((*schema.free_elements, *others), row))
    for first in range(1, len(LEADING)) if len(others) < len(schema.free) else ():
        yield _candidate(schema, dict.fromkeys(others, 0), first=first)
    for times in GROWN if others else ():
        yield _candidate(schema, dict.fromkeys(others, 0), times)


def _candidate(schema: Schema, rows: Mapping[str, int], times: int = 1, first: int = 0) -> Candidate:
    near = [_sizes(schema, rows, first + turn, times) for turn in (1, 2)]
    shifted = [{name: row + by for name, row in rows.items()} for by in (1, -1)]
    shifted = [other for other in shifted if all(0 <= row < len(OTHERS) for row in other.values())]
    far = [_sizes(schema, other, first + 3, times) for other in shifted]
    sizes = _chosen(schema, rows, first, times)
    larger = [(factor, _of(schema, {name: factor * size for name, size in sizes.items()})) for factor in FACTORS]
    small = _of(schema, {name: SMALL[i % len(SMALL)] for i, name in enumerate(sizes)})
    return Candidate(_of(schema, sizes), (*far, *near), tuple(larger), small, times)


def _sizes(schema: Schema, rows: Mapping[str, int], turn: int, times: int) -> Sizes:
    return _of(schema, _chosen(schema, rows, turn, times))


def _chosen(schema: Schema, rows: Mapping[str, int], turn: int, times: int) -> dict[str, int]:
    """Return sizes from entry *turn* of each one's row on, those that have a row so many *times*."""
    leading = [name for name in schema.free if name not in rows]
    sizes = {name: LEADING[(i + turn) % len(LEADING)] for i, name in enumerate(leading)}
    for i, (name, row) in enumerate(rows.items()):
        sizes[name] = times * OTHERS[row][(i + turn) % len(OTHERS[row])]
    for i, name in enumerate(name for name in schema.free_elements if name not in rows):
        sizes[name] = ELEMENTS[(i + turn) % len(ELEMENTS)]
    return sizes


def _of(schema: Schema, sizes: dict[str, int]) -> Sizes:
    """Return what has *sizes* for those that are free; elements that make up a number are changed for it."""
    sizes = schema.with_sums(sizes)
    shapes = schema.shapes_of(sizes)
    for given in schema.values:
        last = next((e for e in reversed(given.elements) if e in schema.free_elements), None)
        if given.count_of is not None and isinstance(last, str):
            count = prod(shapes[schema.names.index(given.count_of)])
            sizes[last] = count // prod(sizes[e] if isinstance(e, str) else e for e in given.elements if e != last)
    return Sizes(shapes, {given.name: given.of(sizes) for given in schema.values})
