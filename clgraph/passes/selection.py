"""Choosing under the conditions that passes add: proposals for every format, halos, and nodes that run nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import is_
from typing import Any

from clgraph.core.format import Format
from clgraph.core.frozen import frozen
from clgraph.core.layout import Halo, Layout
from clgraph.errors import UnsupportedError
from clgraph.graph.node import Node
from clgraph.passes.base import Context
from clgraph.passes.chosen import InPlace
from clgraph.selector.choose import Choice, candidates, choose
from clgraph.selector.implementation import IMPLEMENTATIONS, Formats, Implementation, refused
from clgraph.selector.query import Query


def in_place(node: Node, context: Context, query: Query[Any] | None = None) -> Choice:
    """Return the choice of a node whose results share the buffer of its inputs; *query* is its problem, where known."""
    return Choice(query or context.query(node), InPlace, 0.0, "shares the buffer of its inputs")


def widest(first: Halo, second: Halo) -> Halo:
    """Return the halo that covers both."""
    return tuple((max(a[0], b[0]), max(a[1], b[1])) for a, b in zip(first, second, strict=True))


def missing_halo(implementation: type[Implementation[Any]], q: Query[Any]) -> dict[int, Halo]:
    """Return the halos that the implementation reads and the inputs of *q* do not have, by slot."""
    return {slot: halo for slot, halo in implementation.halo(q).items() if not q.inputs[slot].has_zeros(halo)}


def stands(choice: Choice, q: Query[Any]) -> bool:
    """Whether *choice* is one for the problem *q*, whose inputs have the zeros around them that it reads."""
    return choice.query == q and not missing_halo(choice.implementation, q)


def select(context: Context, node: Node, query: Query[Any] | None = None) -> Choice:
    """Choose among the implementations whose halos the layouts already have.

    Raises:
        UnsupportedError: Nothing serves the node as its layouts are; names the node.
    """
    q = query or context.query(node)
    choice, refusals = context.choose(node, q), dict[str, str]()
    while missing := missing_halo(choice.implementation, q):
        name, (slot, halo) = choice.implementation.name, next(iter(missing.items()))
        if node.name in context.forced:
            raise UnsupportedError(f"node {node.name!r}: {name} was forced but needs zeros {halo} around input {slot}")
        context = replace(context, denied=context.denied | {name})
        refusals[name] = f"needs zeros {halo} around input {slot}"
        choice = context.choose(node, q)
    return replace(choice, refusals={**choice.refusals, **refusals}) if refusals else choice


def estimate(context: Context, node: Node, q: Query[Any]) -> float | None:
    """Return the seconds of the best implementation for *q* on its layouts as they are; ``None`` for none."""
    try:
        return select(context, node, q).seconds
    except UnsupportedError:
        return None


@lru_cache(maxsize=2048)
def still_serves(implementation: type[Implementation[Any]], q: Query[Any]) -> bool:
    """Whether the implementation serves *q*, given on plain layouts, in the formats and halos it prefers."""
    if implementation.serves.traits_refusal(q.traits) is not None:
        return False
    return next(_as_preferred(implementation, plain_query(q), _Variants()), None) is not None


class _Variants:
    """A problem in other formats and with halos: each is made once, and with it what is remembered of a query.

    Implementations of an operator propose few different ones. Formats are told apart as objects, which is quicker and
    makes at worst one more.
    """

    def __init__(self) -> None:
        self._laid_out: dict[tuple[int, ...], tuple[Formats, Query[Any]]] = {}
        self._with_halos: dict[tuple[object, ...], Query[Any]] = {}

    def laid_out(self, q: Query[Any], formats: Formats) -> Query[Any]:
        """Return *q*, the same at every call, in *formats*."""
        key = (*map(id, formats.inputs), *map(id, formats.outputs))
        found = self._laid_out.get(key)
        if found is None:
            # With the formats, so that their places in memory say which they are.
            found = self._laid_out[key] = formats, with_formats(q, formats.inputs, formats.outputs)
        return found[1]

    def with_halos(self, q: Query[Any], halos: Mapping[int, Halo]) -> Query[Any]:
        """Return *q*, one of those laid out, with at least these halos around its inputs."""
        if not halos:
            return q
        key = id(q), *halos.items()
        found = self._with_halos.get(key)
        if found is None:
            found = self._with_halos[key] = with_halos(q, halos)
        return found


def _as_preferred(
    implementation: type[Implementation[Any]], q: Query[Any], variants: _Variants
) -> Iterator[Query[Any]]:
    """Yield *q*, which is on plain layouts, in the formats and with the halos that the implementation serves it in.

    It serves problems with these traits. *variants* are those of *q*.
    """
    serves = implementation.serves
    for formats in implementation.formats(q):
        laid_out = variants.laid_out(q, formats)
        if serves.layout_refusal(laid_out) is None:
            laid_out = variants.with_halos(laid_out, implementation.halo(laid_out))
            if implementation.further_refusal(laid_out) is None:
                yield laid_out


@frozen
class Proposal:
    """An implementation with the layouts it would like (halos included), and its seconds: estimated, or tuned."""

    implementation: type[Implementation[Any]]
    query: Query[Any]
    seconds: float
    tuned: bool = False


def proposals(context: Context, node: Node, query: Query[Any] | None = None) -> tuple[Proposal, ...]:
    """Return what every implementation that does not refuse proposes for *node*, cheapest first.

    Only the special implementations count where there are any for the same layouts, as in ``choose``.
    """
    q = query or context.query(node)
    return _proposals(plain_query(q), context.forced.get(node.name), context.denied, candidates(q))


def plain_query(q: Query[Any]) -> Query[Any]:
    """Return the problem on plain layouts; constants keep the format they have."""
    return _on(q, [x if i in q.constant else x.plain() for i, x in enumerate(q.inputs)], [x.plain() for x in q.outputs])


def _on(q: Query[Any], inputs: Sequence[Layout], outputs: Sequence[Layout]) -> Query[Any]:
    """Return *q* on other layouts; itself, with what is remembered of it, where none is another."""
    same = all(map(is_, inputs, q.inputs)) and all(map(is_, outputs, q.outputs))
    return q if same else q.with_layouts(tuple(inputs), tuple(outputs))


def with_formats(q: Query[Any], inputs: Sequence[Format | None], outputs: Sequence[Format]) -> Query[Any]:
    """Return *q* with other formats; ``None`` and constants stay."""
    laid_out = list(q.inputs)
    for i, f in enumerate(inputs):
        if f is not None and i not in q.constant and f != laid_out[i].format:
            laid_out[i] = laid_out[i].with_format(f)
    return _on(q, laid_out, [x.with_format(f) for x, f in zip(q.outputs, outputs, strict=True)])


def with_halos(q: Query[Any], halos: Mapping[int, Halo]) -> Query[Any]:
    """Return *q* with at least these halos around its inputs."""
    if not halos:
        return q
    inputs = tuple(
        x.with_halo(widest(x.halos, halos[i])) if i in halos and not x.has_zeros(halos[i]) else x
        for i, x in enumerate(q.inputs)
    )
    return q.with_layouts(inputs, q.outputs)


@lru_cache(maxsize=2048)
def _proposals(
    q: Query[Any], forced: str | None, denied: frozenset[str], among: tuple[type[Implementation[Any]], ...]
) -> tuple[Proposal, ...]:
    found: list[Proposal] = []
    of_traits = refused(among, q.traits)
    special: set[Query[Any]] = set()
    variants = _Variants()
    for candidate in sorted(among, key=lambda c: c.general):
        if candidate in of_traits or candidate.is_denied(denied) or (forced is not None and candidate.name != forced):
            continue
        for laid_out in _as_preferred(candidate, q, variants):
            measured = laid_out.measured.get(candidate.name)
            if measured is None and candidate.general and laid_out in special:
                continue
            seconds = candidate.estimate(laid_out) if measured is None else measured
            if not math.isinf(seconds):
                found.append(Proposal(candidate, laid_out, seconds, measured is not None))
                if not candidate.general:
                    special.add(laid_out)
    return tuple(sorted(found, key=lambda p: (p.seconds, p.implementation.name)))


def refusals_of(context: Context, q: Query[Any]) -> str:
    """Say why no special implementation serves *q*, in formats and with the halos it prefers."""
    reasons: list[str] = []
    for candidate in IMPLEMENTATIONS.of(q.primitive.kind):
        if candidate.general:
            continue
        laid_out = [with_formats(plain_query(q), f.inputs, f.outputs) for f in candidate.formats(q)] or [q]
        reason = "denied by an option" if candidate.is_denied(context.denied) else candidate.refusal(laid_out[0])
        reasons.append(f"{candidate.name} {reason}")
    return "; ".join(reasons)


@lru_cache(maxsize=2048)
def _serves_generally(q: Query[Any], denied: frozenset[str], among: tuple[type[Implementation[Any]], ...]) -> bool:
    """Whether one of the general implementations *among* them serves *q*: models repeat most of their problems."""
    of_traits = refused(among, q.traits)
    able = (c for c in among if c.general and c not in of_traits and not c.is_denied(denied))
    return any(c.sizes_refusal(q) is None for c in able)


def unserved(context: Context, node: Node, query: Query[Any]) -> str | None:
    """Say why no implementation serves *query* in any formats, or return ``None``."""
    if _serves_generally(query, context.denied, candidates(query)) or proposals(context, node, query):
        return None
    try:
        choose(query, denied=context.denied)
    except UnsupportedError as error:
        return str(error)
    return None
