"""The sizes that a family's representative, and the witnesses beside it, are tried with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
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

COMPUTED_ELEMENTS = 1
"""Of what is computed while layers are bound whether or not a size depends on it. A grid, or a table as long as some
size, would be computed for those that are small, and not for others; what a layer asks for is known in any case."""

ELEMENTS = (32, 4, 8, 2)
"""For elements of values: ends of slices, and sizes of reshaped tensors, lie within the others and divide them."""


SMALL_ALONE = ((96, 160), (64, 224), (112, 144))
"""Rows and columns of small pictures one by one, of about ``SMALL_PIXELS``. Networks of 48 or 96 channels have those of
the first, halved, as channels of some layer, networks of 32 the second; the third are no multiples of 32.
"""
MEDIUM_ALONE = ((160, 224), (192, 320), (224, 288))
"""The same of at most ``MEDIUM_PIXELS``: networks of 40 channels have a quarter of the first's 160."""
PAIR = 2
SMALL_PAIRS = ((72, 104), (80, 112), (96, 128))
"""The same in batches of ``PAIR``: of no more, and halved five times they are not that size themselves."""
MEDIUM_PAIRS = ((112, 144), (104, 136), (120, 152))
"""The same of at most ``MEDIUM_PIXELS``, about half of them: the last layers have direct kernels, those in front
Winograd's method."""
PAIRS = ((160, 224), (224, 288))
"""Larger pictures in batches of ``PAIR``: networks that compute many channels of all pixels take too much memory for
more of them."""

GROWN = (16, 64, 3)
"""What the first row is multiplied by where the model builds for too few sizes of the rows: one window of a waveform
alone may take 512 samples or more, the rows of luma and chroma in a video frame are a multiple of 3."""

FACTORS, SMALL = (64, 16, 4), (3, 5, 7, 9, 11)
"""For extremes: the representative's so many times, and small ones. Where a size inside a model is 1, or equals
another, for all sizes of the rows, it may be otherwise for these."""


@frozen
class Candidate:
    """What a representative is tried with, and the sizes beside it, which are derived when they are asked for.

    A piece of a model may have tens of free sizes, and none of its hundreds of candidates be built.

    Attributes:
        rows: The row of each free size that has one.
        first: The entry of the rows that the sizes begin at.
        times: How many times the sizes of a row these are: more than once where the model builds for none of the rows.
        own: Sizes that are of no row.
    """

    schema: Schema
    rows: Mapping[str, int]
    first: int = 0
    times: int = 1
    own: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> Sizes:
        """What is tried."""
        return _of(self.schema, self._chosen)

    @property
    def witnesses(self) -> Iterator[Sizes]:
        """The witnesses, in the order they are tried in."""
        for by in (1, -1):
            shifted = {name: row + by for name, row in self.rows.items()}
            if all(0 <= row < len(OTHERS) for row in shifted.values()):
                yield _of(self.schema, _chosen(self.schema, shifted, self.first + 3, self.times))
        for turn in (1, 2):
            yield _of(self.schema, _chosen(self.schema, self.rows, self.first + turn, self.times))

    @property
    def larger(self) -> tuple[tuple[int, Sizes], ...]:
        """Extremes of many times its sizes, and how many times, largest first."""
        chosen = self._chosen
        return tuple((by, _of(self.schema, {name: by * size for name, size in chosen.items()})) for by in FACTORS)

    @property
    def small(self) -> Sizes:
        """The extreme of which all are few."""
        return _of(self.schema, {name: SMALL[i % len(SMALL)] for i, name in enumerate(self._chosen)})

    @property
    def _chosen(self) -> dict[str, int]:
        return _chosen(self.schema, self.rows, self.first, self.times) | {**self.own}


def candidates(schema: Schema) -> Iterator[Candidate]:
    """Yield what to try as the representative of *schema*: a fixed list, that no request has a say in.

    First all sizes are of one row, the largest first, or for small pictures sizes of their own and a smaller row; then
    the sizes of a row trade places, and batches are of two; then of two sizes or more one is of another row than the
    others, as where the height of a picture must be small; then all are of the last row. Then elements of values are
    like sizes of inputs, as where pictures are resized to them; then batches are of another size, as where some axis of
    a model has the one before; at last sizes are far larger. Medium pictures have sizes of their own alone: where these
    do not do, those of large ones are tried as of large ones.
    """
    counted = any(given.count_of for given in schema.values)
    leading = schema.leading
    others = [name for name in schema.free if counted or name not in leading]
    batches = [name for name in schema.free if name not in others]
    rows = range(len(OTHERS))
    wide = rows[-3::-1] if schema.small else rows[:-2]

    def pictures(sides: Sequence[tuple[int, int]]) -> Iterator[Candidate]:
        for of_two in sides if [len(others), len(batches[1:])] == [2, 0] else ():
            own = dict.fromkeys(batches, PAIR) | dict(zip(others, of_two, strict=True))
            yield Candidate(schema, dict.fromkeys(others, 1), own=own)

    if schema.most_pixels and not schema.small:
        yield from pictures(MEDIUM_PAIRS if batches else MEDIUM_ALONE)
        return
    if schema.small:
        yield from pictures(SMALL_PAIRS if batches else SMALL_ALONE)
    for row in wide if others else ():
        yield Candidate(schema, dict.fromkeys(others, row))
    for row in wide if len(others) > 1 else ():
        for first in range(1, len(LEADING)):
            yield Candidate(schema, dict.fromkeys(others, row), first=first)
    yield from pictures(PAIRS if batches else ())
    for row, odd in permutations(rows[:-1], 2) if len(others) > 1 else ():
        for name in others:
            yield Candidate(schema, {n: odd if n == name else row for n in others})
    for row in rows[-2:] if others else rows[:1]:
        yield Candidate(schema, dict.fromkeys(others, row))
    for row in rows[:-2] if schema.free_elements else ():
        yield Candidate(schema, dict.fromkeys((*schema.free_elements, *others), row))
    for first in range(1, len(LEADING)) if len(others) < len(schema.free) else ():
        yield Candidate(schema, dict.fromkeys(others, 0), first=first)
    for times in GROWN if others else ():
        yield Candidate(schema, dict.fromkeys(others, 0), times=times)


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
    counted = [given for given in schema.values if given.count_of is not None]
    elements = schema.free_elements if counted else ()
    for given in counted:
        last = next((e for e in reversed(given.elements) if e in elements), None)
        if given.count_of is not None and isinstance(last, str):
            count = prod(shapes[schema.names.index(given.count_of)])
            sizes[last] = count // prod(sizes[e] if isinstance(e, str) else e for e in given.elements if e != last)
    return Sizes(shapes, {given.name: given.of(sizes) for given in schema.values})
