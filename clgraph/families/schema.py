"""Which sizes of a model's inputs a family leaves free, and which it fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod

import numpy as np

from clgraph.core.dtype import named, spelled
from clgraph.core.frozen import frozen
from clgraph.core.layout import Shape
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature

Size = int | str
"""A size that all members of a family have, or the name of one that is free: 2 or more, the same wherever it stands."""

ROWS = ".rows"
"""How the names of sizes end that are the rows of an image, which is fed without a batch."""

SMALL_PIXELS = 128 * 128
"""Pixels of all pictures of a run together, up to which these are small: networks that halve them five times end in few
pixels, where what kernels read of weights decides, and what they compute a pixel does not. Of ResNets and RepVGGs with
16 to 128 channels, most layers choose Winograd's method from 24 thousand pixels on."""

MEDIUM_PIXELS = 256 * 256
"""Pixels of all pictures of a run up to which the last layers of such networks do not: what five halvings leave are few
tiles, which narrow pictures fill in part only."""

MOST_SUMS = 4
"""How many sums of sizes are tried: some hold by chance."""


@frozen
class Given:
    """A value that decides sizes, as all members of a family have it.

    Attributes:
        dtype: As ``spelled`` spells it.
        elements: In order; of integers those above 1 may be free. ``data`` holds those of other types.
        count_of: The input that has as many elements as the product of these, as a tensor and its shape do.
    """

    name: str
    dtype: str
    shape: Shape
    elements: tuple[Size, ...]
    data: bytes = b""
    count_of: str | None = None

    def of(self, sizes: Mapping[str, int]) -> Array:
        """Return the value with *sizes* for the free elements."""
        if self.data:
            return np.frombuffer(self.data, named(self.dtype)).reshape(self.shape)
        elements = [sizes[e] if isinstance(e, str) else e for e in self.elements]
        return np.array(elements, self.dtype).reshape(self.shape)


@frozen
class Schema:
    """The inputs of a family's members: their shapes, one size an axis, and the values that decide sizes.

    Sizes of 0 and 1 are fixed: operators treat them specially (an axis of one element is repeated, one of none makes
    nothing), so that what is decided for them holds for no other size, and what is decided for others not for them.

    Attributes:
        sums: Sizes that are the sum of two others, as the keys of attention are those of the past and the new ones.
        most_pixels: Of pictures with at most so many pixels together, which other kernels may suit; 0 for any.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[Size, ...], ...]
    values: tuple[Given, ...] = ()
    sums: tuple[tuple[str, Size, Size], ...] = ()
    most_pixels: int = 0

    @property
    def small(self) -> bool:
        """Whether pictures are small."""
        return self.most_pixels == SMALL_PIXELS

    @property
    def free(self) -> tuple[str, ...]:
        """The names of the free sizes of inputs, in order of their first place."""
        summed = {name for name, _, _ in self.sums}
        found = dict.fromkeys(d for shape in self.shapes for d in shape if isinstance(d, str))
        return tuple(name for name in found if name not in summed)

    @property
    def free_elements(self) -> tuple[str, ...]:
        """The names of the free elements of values that are no sizes of inputs."""
        found = dict.fromkeys(e for given in self.values for e in given.elements if isinstance(e, str))
        others = {*self.free, *(name for name, _, _ in self.sums)}
        return tuple(name for name in found if name not in others)

    @property
    def leading(self) -> frozenset[str]:
        """The free sizes that stand first in an input of several axes, as the batch does; rows of images are none."""
        first = (s[0] for s in self.shapes if len(s) > 1)
        return frozenset(size for size in first if isinstance(size, str) and not size.endswith(ROWS))

    def shapes_of(self, sizes: Mapping[str, int]) -> tuple[Shape, ...]:
        """Return the shapes with *sizes* for those that are no numbers, sums among them."""
        return tuple(tuple(sizes[d] if isinstance(d, str) else d for d in shape) for shape in self.shapes)

    def with_sums(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return *sizes* of the free ones with those that are sums of them."""
        found = dict(sizes)
        for name, *parts in self.sums:
            found[name] = sum(found[d] if isinstance(d, str) else d for d in parts)
        return found

    def __str__(self) -> str:
        shapes = [f"{n} [{', '.join(map(str, shape))}]" for n, shape in zip(self.names, self.shapes, strict=True)]
        values = [f"{g.name} = {g.of({}) if g.data else _spell(g.elements)}" for g in self.values]
        small = [f"at most {self.most_pixels} pixels"] if self.most_pixels else []
        return ", ".join([*shapes, *values, *(f"{name} = {a} + {b}" for name, a, b in self.sums), *small])


def _spell(elements: Sequence[Size]) -> str:
    return f"[{', '.join(map(str, elements))}]"


@frozen
class Sizes:
    """The shapes of the inputs, and the values that decide sizes by name."""

    shapes: tuple[Shape, ...]
    known: Mapping[str, Array]


def schemas(signatures: Sequence[Signature], shapes: Sequence[Shape], known: Mapping[str, Array]) -> Iterator[Schema]:
    """Yield the schemas that inputs of *shapes* may belong to, the widest first.

    First all open sizes are free, those of one name together, and all elements of values; then sizes without a name
    together that stand in the same place of several inputs, and elements with the sizes they are equal to; then sizes
    of different inputs together that are equal, whatever their names; then elements whose product is the number of
    elements of an input; then sizes that are the sum of two others; then equal sizes together again, and no element
    free that is not equal to one; then sums with equal ones together as well; at last only the sizes that stand first.
    Behind a schema of small pictures stand those of larger ones and of all, for models that need no such. What is
    yielded depends on the signatures, *shapes* and values alone, so that every shape has one family, whichever was met
    first.
    """
    seen: set[Schema] = set()
    for schema in _narrowing(signatures, shapes, known):
        if schema in seen:
            continue
        seen.add(schema)
        if (schema.free or schema.free_elements) and _fits(schema, shapes, known):
            pixels = _pixels(schema, shapes)
            if 0 < pixels <= SMALL_PIXELS:
                yield replace(schema, most_pixels=SMALL_PIXELS)
            if 0 < pixels <= MEDIUM_PIXELS:
                yield replace(schema, most_pixels=MEDIUM_PIXELS)
            yield schema


def _pixels(schema: Schema, shapes: Sequence[Shape]) -> int:
    """Return the pixels of the input that has most of those with two free sizes or more behind the first; else 0."""
    found = 0
    for names, shape in zip(schema.shapes, shapes, strict=True):
        free = [axis for axis, n in enumerate(names) if isinstance(n, str) and n not in schema.leading]
        if len(free) > 1:
            found = max(found, prod(shape[axis] for axis in {0, *free}))
    return found


def _narrowing(
    signatures: Sequence[Signature], shapes: Sequence[Shape], known: Mapping[str, Array]
) -> Iterator[Schema]:
    """Yield what :func:`schemas` chooses from, each when it is asked for: mostly the first will do."""
    names = tuple(s.name for s in signatures)

    def sizes(tied: bool) -> Schema:
        rows = zip(signatures, shapes, strict=True)
        return Schema(names, tuple(_named(s, shape, s.name in known, tied) for s, shape in rows))

    values = tuple(_given(name, array) for name, array in known.items())
    yield replace(sizes(False), values=values)
    tied = sizes(True)
    equal = tuple(_matched(given, tied, shapes, known) for given in values)
    yield replace(tied, values=equal)
    # Of pictures of several sizes beside one another no axis has one size: there those that are equal have one name.
    apart = tied if _fits(tied, shapes, {}) else sizes(False)
    one = replace(apart, shapes=_joined(apart, shapes))
    yield replace(one, values=tuple(_matched(given, one, shapes, known) for given in values))
    yield replace(tied, values=tuple(_counted(given, names, shapes, known) for given in values))
    for found in _sums(tied, shapes):
        yield replace(tied, values=equal, sums=(found,))
    yield replace(one, values=tuple(_settled(given, one, shapes, known) for given in values))
    for found in _sums(one, shapes):
        yield replace(one, values=tuple(_matched(given, one, shapes, known) for given in values), sums=(found,))
    leading = tuple(
        tuple(n if n in tied.leading else d for n, d in zip(sizes_of, shape, strict=True))
        for sizes_of, shape in zip(tied.shapes, shapes, strict=True)
    )
    fixed = tuple(replace(g, elements=() if g.data else tuple(known[g.name].ravel().tolist())) for g in values)
    yield Schema(names, leading, fixed)
    yield replace(tied, values=fixed)


def _named(signature: Signature, shape: Shape, known: bool, tied: bool) -> tuple[Size, ...]:
    declared = signature.shape or (None,) * len(shape)
    names: list[Size] = []
    for axis, (dimension, size) in enumerate(zip(declared, shape, strict=True)):
        if isinstance(dimension, int) or size < 2 or known:
            names.append(size)
        elif isinstance(dimension, str) and dimension != "?":
            names.append(dimension)
        else:
            names.append(f"axis {axis}" if tied else f"{signature.name}.{axis}")
    return tuple(names)


def _given(name: str, array: Array) -> Given:
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4:  # the sizes of a family are no bytes
        return Given(name, spelled(array.dtype), array.shape, (), array.tobytes())
    elements: list[Size] = [e if e < 2 else f"{name}[{i}]" for i, e in enumerate(array.ravel().tolist())]
    return Given(name, spelled(array.dtype), array.shape, tuple(elements))


def _matched(given: Given, schema: Schema, shapes: Sequence[Shape], known: Mapping[str, Array]) -> Given:
    """Return *given* with the names of free sizes for the elements that are equal to them."""
    if given.data:
        return given
    rows = zip(schema.shapes, shapes, strict=True)
    of = {size: name for names, shape in rows for name, size in zip(names, shape, strict=True) if isinstance(name, str)}
    numbers = known[given.name].ravel().tolist()
    return replace(given, elements=tuple(of.get(n, e) for e, n in zip(given.elements, numbers, strict=True)))


def _settled(given: Given, schema: Schema, shapes: Sequence[Shape], known: Mapping[str, Array]) -> Given:
    """Return *given* as :func:`_matched`, with the numbers themselves for elements that are no free size."""
    found, free = _matched(given, schema, shapes, known), schema.free
    numbers = known[given.name].ravel().tolist()
    return replace(found, elements=tuple(e if e in free else n for e, n in zip(found.elements, numbers, strict=False)))


def _joined(schema: Schema, shapes: Sequence[Shape]) -> tuple[tuple[Size, ...], ...]:
    """Return the sizes of *schema* where free ones of different inputs that are equal have one name."""
    first: dict[int, str] = {}
    found = []
    for names, shape in zip(schema.shapes, shapes, strict=True):
        row = tuple(first.get(size, n) if isinstance(n, str) else n for n, size in zip(names, shape, strict=True))
        for name, size in zip(row, shape, strict=True):
            if isinstance(name, str):
                first.setdefault(size, name)
        found.append(row)
    return tuple(found)


def _sums(schema: Schema, shapes: Sequence[Shape]) -> list[tuple[str, Size, Size]]:
    """Return the free sizes that are the sum of two other sizes, one of them free, as far as *shapes* tell."""
    rows = zip(schema.shapes, shapes, strict=True)
    sizes: dict[Size, int] = {n: size for names, shape in rows for n, size in zip(names, shape, strict=True)}
    free = schema.free
    pairs = [(a, b) for a, b in combinations(sizes, 2) if a in free or b in free]
    return [
        (name, a, b) for name in free for a, b in pairs if sizes[name] == sizes[a] + sizes[b] and name not in (a, b)
    ][:MOST_SUMS]


def _counted(given: Given, names: Sequence[str], shapes: Sequence[Shape], known: Mapping[str, Array]) -> Given:
    """Return *given* as the shape of the first input that has as many elements as it says."""
    if given.data or not given.elements or 0 in given.elements:
        return given
    count = prod(known[given.name].ravel().tolist())
    return replace(given, count_of=next((n for n, s in zip(names, shapes, strict=True) if prod(s) == count), None))


def _fits(schema: Schema, shapes: Sequence[Shape], known: Mapping[str, Array]) -> bool:
    """Whether every free size has one value in *shapes* and values."""
    rows: list[tuple[Sequence[Size], Sequence[int]]] = list(zip(schema.shapes, shapes, strict=True))
    rows += [(g.elements, known[g.name].ravel().tolist()) for g in schema.values if not g.data]
    sizes: dict[str, int] = {}
    return all(
        sizes.setdefault(name, size) == size if isinstance(name, str) else name == size
        for names, row in rows
        for name, size in zip(names, row, strict=True)
    )
