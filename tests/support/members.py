"""Members of families against whole compilations: both run on the same feeds, and their results are compared."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clgraph.compilation.compiler import Compiler
from clgraph.core.dtype import unit
from clgraph.engines.opening import options_of
from clgraph.errors import ClgraphError, UnknownValueError
from clgraph.families.notes import NOTE
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import KEY_WORDS, RANDOM_KEY
from clgraph.graph.signature import Dimension
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.specialisation import Specialisation
from clgraph.model.stages.model import StagedModel
from clgraph.model.stages.split import needs_stages
from clgraph.passes.observers import PassObserver
from clgraph.passes.reference import run_reference
from clgraph.passes.verify_numbers import VerifyNumbers, moved_by_steps

Array = NDArray[Any]
Feeds = Mapping[str, Array]
Place = tuple[str, int]
"""An input, and one of its axes."""

SIZES = (
    1,
    2,
    3,
    5,
    7,
    8,
    12,
    16,
    17,
    24,
    31,
    32,
    33,
    40,
    48,
    63,
    64,
    65,
    96,
    100,
    101,
    128,
    160,
    192,
    320,
    448,
    512,
    513,
)
"""What members have: 1, sizes of blocks and around them, those of representatives, and where models clamp."""
MOST_ELEMENTS = 1 << 17
"""Of all inputs of a member together: what runs in a moment. Twice a model's own may be more: a picture and another."""
TRIED = 32
"""Sizes that are drawn for each member: of a picture's batch, hardly one of these fits."""
WHOLE = "compiled whole: "


@dataclass
class Tally:
    """What was compared.

    Attributes:
        models: With a size that can be opened.
        members: That ran both ways.
        bound: Of these, those whose programs were all bound to families.
        identical: Of those, bit for bit the same.
        refused: Members that cannot be compiled either way.
        without: Models that have no member: they are not read, no size can be opened, or none of those tried fits.
        whole: Why others were compiled whole, by the number of them.
        wrong: What differs by more than rounding explains.
    """

    models: int = 0
    members: int = 0
    bound: int = 0
    identical: int = 0
    refused: int = 0
    without: int = 0
    whole: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Count what *other* has, too."""
        for name in ("models", "members", "bound", "identical", "refused", "without"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.whole.update(other.whole)
        self.wrong += other.wrong

    def __str__(self) -> str:
        return (
            f"{self.models} models, {self.members} members: {self.bound} bound ({self.identical} bit for bit), "
            f"{self.members - self.bound} compiled whole, {len(self.wrong)} wrong; {self.refused} refused either way; "
            f"{self.without} models without a member"
        )


@cache
def compiler(device: str, config: tuple[tuple[str, Any], ...], whole: bool) -> Compiler:
    """Return a compiler on *device*; with an observer, which has all passes run for every shape, if *whole*."""
    options = options_of(device, None, None, {"tuning": "off", "model_cache": 0, **dict(config)})
    return Compiler(options, (PassObserver(),) if whole else ())


class Side:
    """A model whose sizes are open, and the programs that its last run made."""

    def __init__(self, topology: Topology, made_by: Compiler) -> None:
        self.made: list[Program] = []

        def specialise(*given: Any) -> Specialisation:
            found = made_by.specialise(*given)
            self.made.append(found.program)
            return found

        kind = StagedModel if needs_stages(topology) else Model
        self.model = kind(topology, made_by.context.default, specialise)

    def run(self, feeds: Feeds) -> dict[str, Array] | ClgraphError:
        """Run the model; return its results, or why there are none."""
        self.made.clear()
        try:
            return self.model.run(feeds)
        except ClgraphError as error:
            return error


def compare(
    name: str, topology: Topology, members: Sequence[Feeds], device: str, config: Mapping[str, Any] | None = None
) -> Tally:
    """Run the *members* of *topology* both ways, and count."""
    settings = tuple(sorted((config or {}).items()))
    bound, whole = (Side(topology, compiler(device, settings, way)) for way in (False, True))
    tally = Tally(models=1)
    for feeds in members:
        if RANDOM_KEY in topology.inputs:
            feeds = {**feeds, RANDOM_KEY: np.arange(KEY_WORDS, dtype=np.uint32)}
        what = f"{name} {dict(settings)} {_spell(feeds)}"
        found, wanted = bound.run(feeds), whole.run(feeds)
        if isinstance(wanted, ClgraphError):
            tally.refused += 1
            if not isinstance(found, type(wanted)):
                tally.wrong.append(f"{what}: whole it is {type(wanted).__name__}: {wanted}; bound it is {found}")
            continue
        tally.members += 1
        reasons = [n[len(WHOLE) :] for p in bound.made if (n := p.notes.get(NOTE, "")).startswith(WHOLE)]
        tally.whole.update(f"{name}: {reason}" for reason in dict.fromkeys(reasons))
        if isinstance(found, ClgraphError):
            tally.wrong.append(f"{what}: {type(found).__name__}: {found}")
            continue
        same = all(_same(found[n], a) for n, a in wanted.items())
        if not reasons:
            tally.bound += 1
            tally.identical += same
        if not same and (why := differs(found, wanted, (whole, bound), feeds)):
            tally.wrong.append(f"{what}: {why}")
    for side in (bound, whole):
        side.model.close()
    return tally


def _spell(feeds: Feeds) -> str:
    return ", ".join(
        f"{n} {a.tolist() if a.dtype.kind in 'iu' and a.size < 9 else list(a.shape)}" for n, a in feeds.items()
    )


def _same(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def differs(found: Feeds, wanted: Feeds, sides: Sequence[Side], feeds: Feeds) -> str | None:
    """Say how results of two *sides* differ by more than rounding explains, or return ``None``.

    The yardstick is that of :class:`~clgraph.passes.verify_numbers.VerifyNumbers`: how far rounding every intermediate
    value moves the results, times what sums in another order may be off by; each of the two may be that far from the
    exact ones. What lies that near to a half may be a step of quantization higher in one, and lower in the other.
    Stages have none: they have to be the same.
    """
    for n, a in wanted.items():
        if (found[n].shape, found[n].dtype) != (a.shape, a.dtype):
            return f"{n!r} is {found[n].dtype} {list(found[n].shape)}, not {a.dtype} {list(a.shape)}"
    bounds = dict.fromkeys(wanted, 0.0)
    models = [s.model for s in sides if not isinstance(s.model, StagedModel)]
    if models:
        program = models[0].program
        exact, rounded = (run_reference(program, feeds, exact=e) for e in (True, False))
        floats = {v.layout.dtype.numpy for m in models for v in m.program.values if v.layout.dtype.floating}
        steps = moved_by_steps(program, feeds, exact, VerifyNumbers.FACTOR * max(map(unit, floats), default=0.0))
        bounds = {
            n: 2 * VerifyNumbers.DEVICE_FACTOR * (_far(e, rounded[n]) + _unit(e, rounded[n])) + steps[n]
            for n, e in exact.items()
        }
    for n, a in wanted.items():
        if not (far := _far(found[n], a)) <= bounds[n]:
            return f"{n!r} is off by {far:.3g}, of at most {bounds[n]:.3g}"
    return None


def _far(first: Array, second: Array) -> float:
    if first.dtype.kind not in "f":
        return float(np.max(np.abs(first.astype(np.float64) - second.astype(np.float64)), initial=0.0))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(first.astype(np.float64) - second.astype(np.float64)))
    return float(np.max(np.nan_to_num(far, nan=np.inf), initial=0.0))


def _unit(exact: Array, rounded: Array) -> float:
    if rounded.dtype.kind != "f":
        return 1.0
    return float(np.finfo(rounded.dtype).eps * np.max(np.abs(exact[np.isfinite(exact)]), initial=0.0))


def opened(topology: Topology, feeds: Feeds, seed: int = 0) -> tuple[Topology, list[list[Place]]]:
    """Return *topology* with every size open that can be another, and the groups of axes that change together.

    Axes of the same place and size are tried together, then all of the same size. Half of the time they have names.
    """
    groups: list[list[Place]] = []
    places = [(n, axis, size) for n, a in feeds.items() for axis, size in enumerate(a.shape) if size]
    for together in (lambda p: (p[1], p[2]), lambda p: p[2]):
        for key in dict.fromkeys(map(together, places)):
            group = [(n, axis) for n, axis, size in places if together((n, axis, size)) == key]
            if any(place in other for other in groups for place in group):
                continue
            size = feeds[group[0][0]].shape[group[0][1]]
            if any(
                _builds(topology, _resized(feeds, dict.fromkeys(group, s))) for s in (size + 1, 2 * size, size + 32)
            ):
                groups.append(group)
    named = random.Random(seed).random() < 0.5
    shapes: dict[str, list[Dimension]] = {n: list(a.shape) for n, a in feeds.items()}
    for i, group in enumerate(groups):
        for n, axis in group:
            shapes[n][axis] = f"d{i}" if named else None
    return topology.with_shapes(shapes, anew=True), groups


def random_members(
    topology: Topology, groups: Sequence[Sequence[Place]], feeds: Feeds, count: int, seed: int = 0
) -> list[Feeds]:
    """Return feeds of *count* members at most: each group of axes has random sizes, once, integers those of *feeds*."""
    return list(_members(topology, groups, feeds, count, random.Random(seed)))


def _members(
    topology: Topology, groups: Sequence[Sequence[Place]], feeds: Feeds, count: int, pick: random.Random
) -> Iterator[Feeds]:
    found, seen = 0, set()
    most = max(MOST_ELEMENTS, 2 * sum(a.size for a in feeds.values()))
    for _ in range(TRIED * count):
        sizes: dict[Place, int] = {}
        for group in groups:
            n, axis = group[0]
            old = feeds[n].shape[axis]
            new = pick.choice(
                (old, pick.choice(SIZES), pick.choice(SIZES), pick.choice((2, 4, 32)) * pick.randint(1, 5))
            )
            sizes |= dict.fromkeys(group, new)
        numbers = pick.randrange(1 << 30)
        if (key := tuple(sizes.values())) in seen:
            continue
        seen.add(key)
        # Asked before they are made: a random net's input may be gigabytes.
        if sum(prod(_shape(n, a, sizes)) for n, a in feeds.items()) > most:
            continue
        made = _resized(feeds, sizes, numbers)
        if _builds(topology, made):
            yield made
            found += 1
            if found == count:
                return


def _shape(name: str, array: Array, sizes: Mapping[Place, int]) -> tuple[int, ...]:
    return tuple(sizes.get((name, axis), size) for axis, size in enumerate(array.shape))


def _resized(feeds: Feeds, sizes: Mapping[Place, int], seed: int = 0) -> dict[str, Array]:
    """Return *feeds* with other sizes: new normal numbers, and the integers that there are, over and over."""
    generator = np.random.default_rng(seed)
    made = {}
    for n, a in feeds.items():
        shape = _shape(n, a, sizes)
        made[n] = generator.standard_normal(shape).astype(a.dtype) if a.dtype.kind == "f" else np.resize(a, shape)
    return made


def _builds(topology: Topology, feeds: Feeds) -> bool:
    shapes = {n: a.shape for n, a in feeds.items()}
    if any(isinstance(d, int) for s in topology.inputs.values() for d in s.shape or ()):
        topology = topology.with_shapes(shapes, anew=True)
    known: dict[str, Array] = {}
    while True:
        try:
            topology.build(shapes, known)
        except UnknownValueError as error:
            if not set(error.inputs) - set(known):
                return False
            known |= {n: feeds[n] for n in error.inputs}
        except ClgraphError:
            return False
        else:
            return True
