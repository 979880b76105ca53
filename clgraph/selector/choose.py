"""Choosing one implementation for one query, and saying why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import OptionError, UnsupportedError
from clgraph.graph.primitive import Primitive
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation, Serves, refused
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import Query

OF_FAMILY = "family"
"""Why an implementation was taken that the representative of a family has, whose seconds stand in the choice."""

MIXED = frozenset({"convolution", "matmul"})
"""Primitives that most networks run on GPUs by few kernels, some with fused operations and others without."""


@frozen
class Choice:
    """The chosen implementation, why it was chosen, and the reasons the others gave.

    Attributes:
        seconds: By which it was chosen: an estimate, or where it was tuned, a measurement.
        because: ``forced``, ``tuned``, ``cheapest`` by cost, ``general``, or what a pass says.
        slower: The seconds of the others that serve the query.
    """

    query: Query[Any]
    implementation: type[Implementation[Any]]
    seconds: float
    because: str
    refusals: Mapping[str, str] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)
    _plan: Plan | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """Name of the implementation."""
        return self.implementation.name

    @property
    def in_place(self) -> bool:
        """Whether nothing runs, because the results lie in the memory of the inputs."""
        return self.implementation.in_place

    @property
    def expected(self) -> float:
        """The seconds with the workers that there are, however many it was chosen for."""
        q = self.query
        if q.device == q.device.whole or self.name in q.measured or self.name not in IMPLEMENTATIONS:
            return self.seconds
        return self.implementation.predicted(q)

    def plan(self) -> Plan:
        """Return the steps of the chosen implementation for the query's layouts."""
        if self._plan is None:
            object.__setattr__(self, "_plan", _plan(self.implementation, self.query))
        assert self._plan is not None
        return self._plan

    def with_query(self, q: Query[Any]) -> Choice:
        """Return the same choice for the same problem on layouts that have changed since."""
        return self if q == self.query else replace(self, query=q)

    def __str__(self) -> str:
        return f"{self.name} ({self.because})"


def taken_over(q: Query[Any], implementation: type[Implementation[Any]], seconds: float, because: str) -> Choice:
    """Return the choice of an implementation that is known to serve *q*, with its plan.

    Unlike others, the plan is not looked for among those of equal problems, which costs as much as making it.
    """
    made = Choice(q, implementation, seconds, because)
    object.__setattr__(made, "_plan", planned(implementation, q))
    return made


class HostReference(Implementation[Any]):
    """The NumPy reference of the primitive, fused operations included; what the ``host`` placement runs."""

    primitive = Primitive
    name = "host.reference"
    serves = Serves(
        dtypes=frozenset(DType),
        mixed=True,
        kinds=frozenset({"host"}),
        fuses=None,
        prefuses=None,
        operands=None,
        meets=None,
    )
    general = True

    @classmethod
    def limits(cls, q: Query[Any]) -> str | None:
        """Refuse what has no reference."""
        computed = (q.primitive, *(f.primitive for f in q.fused))
        without = [p.kind for p in computed if not p.has_reference]
        return f"{', '.join(without)} has no reference" if without else None

    @classmethod
    def plan(cls, q: Query[Any]) -> Plan:
        """Return no steps: the network runs ``Node.reference``."""
        return Plan(())


class HostMove(HostReference):
    """The reference of what moves data alone: a value on the host has no layout, so that any will do.

    Only where no device lays the data out: it goes element by element, dearer than any device's reorder.
    """

    name = "host.move"
    serves = replace(HostReference.serves, formats=True, halos=True)

    @classmethod
    def cost(cls, q: Query[Any]) -> float:
        """Return more seconds than a reorder on the device and a plain copy take."""
        return 1e-4 + q.outputs[0].nbytes / 1e8


_MOVES = frozenset({"reorder", "transfer"})


def candidates(q: Query[Any]) -> tuple[type[Implementation[Any]], ...]:
    """Return the implementations of the query's primitive for its kind of device; on the host, the reference."""
    if q.device.kind == "host":
        plain = q.primitive.kind not in _MOVES or all(x.is_dense_plain for x in (*q.inputs, *q.outputs))
        return (HostReference,) if plain else (HostMove,)
    return IMPLEMENTATIONS.of(q.primitive.kind, q.device.kind)


def choose(q: Query[Any], *, forced: str | None = None, denied: frozenset[str] = frozenset()) -> Choice:
    """Pick the implementation for *q*: forced by name, else the fastest measured or estimated; *denied* as a context's.

    What was tuned counts by its measurement, other special ones by their estimate, general ones only without both.

    A pure function of its arguments, memoised.

    Raises:
        OptionError: *forced* names no implementation of the primitive.
        UnsupportedError: *forced* refuses, or nobody serves *q*; lists every candidate's reason, or where there is no
            candidate, those of other devices' implementations.
    """
    return _choose(q, forced, denied, candidates(q))


@lru_cache(maxsize=2048)
def _choose(
    q: Query[Any], forced: str | None, denied: frozenset[str], among: tuple[type[Implementation[Any]], ...]
) -> Choice:
    refusals: dict[str, str] = {}
    able: list[type[Implementation[Any]]] = []
    of_traits = refused(among, q.traits)
    for candidate in among:
        if candidate.is_denied(denied):
            reason: str | None = "denied by an option"
        else:
            reason = of_traits.get(candidate) or candidate.sizes_refusal(q)
        if reason is None:
            able.append(candidate)
        else:
            refusals[candidate.name] = reason
    if forced is not None:
        return _forced(q, forced, refusals)
    measured = q.measured
    seconds = {c: measured[c.name] if c.name in measured else c.estimate(q) for c in able}
    wrong = [c.name for c in able if math.isinf(seconds[c])]
    refusals |= dict.fromkeys(wrong, "gave wrong results when it was tuned")
    able = [c for c in able if c.name not in wrong]
    special = [c for c in able if not c.general or c.name in measured]
    ranked = sorted(special, key=lambda c: (seconds[c], c.name)) or [c for c in able if c.general]
    if not ranked:
        if not among:
            others = IMPLEMENTATIONS.of(q.primitive.kind)
            refusals |= {c.name: reason for c in others if (reason := c.serves.refusal(q))}
        reasons = "".join(f"\n  {n}: {r}" for n, r in refusals.items()) or "\n  no implementation is registered"
        raise UnsupportedError(f"nothing serves {q}:{reasons}")
    best = ranked[0]
    because = "tuned" if best.name in measured else "cheapest" if special else "general"
    slower = {c.name: seconds[c] for c in able if c is not best}
    return Choice(q, best, seconds[best], because, refusals, slower)


def _forced(q: Query[Any], forced: str, refusals: Mapping[str, str]) -> Choice:
    if forced in refusals:
        raise UnsupportedError(f"{forced} was forced on {q} but refuses: {refusals[forced]}")
    names = [c.name for c in IMPLEMENTATIONS.of(q.primitive.kind)]
    if forced in names and (reason := IMPLEMENTATIONS[forced].serves.traits_refusal(q.traits)):
        raise UnsupportedError(f"{forced} was forced on {q} but refuses: {reason}")
    if forced not in names:
        raise OptionError(f"{forced!r} is not an implementation of {q.primitive.kind}; there are {', '.join(names)}")
    return Choice(q, IMPLEMENTATIONS[forced], IMPLEMENTATIONS[forced].estimate(q), "forced", refusals)


@lru_cache(maxsize=2048)
def _plan(implementation: type[Implementation[Any]], q: Query[Any]) -> Plan:
    return planned(implementation, q)


def planned(implementation: type[Implementation[Any]], q: Query[Any]) -> Plan:
    """Return the steps of *implementation*, whose kernels have a list of fused operations only where there are some.

    The list, with all functions of elements, takes longer to compile than most kernels that apply it. On GPUs those of
    :data:`MIXED` have it always: one text is then enough.
    """
    plan = implementation.plan(q)
    for step in plan.steps:
        if isinstance(step, Launch):
            break
    else:
        return plan
    if q.device.kind == "gpu" and q.primitive.kind in MIXED:
        return plan
    return Plan(tuple(s.without_list() if isinstance(s, Launch) else s for s in plan.steps), plan.scratch)
