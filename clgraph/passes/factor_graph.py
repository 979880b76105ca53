"""Minimise a sum of small tables over discrete variables: exactly on narrow graphs, bounded elsewhere.

Variable elimination (R. Dechter, "Bucket elimination", 1999): exact whenever no intermediate table grows beyond
``LIMIT`` entries, which holds for chains, trees and the residual and dense blocks of networks. Beyond that the variable
with the most neighbours is fixed at its value in a first solution, and single changes are tried at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import prod
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from clgraph.core.frozen import frozen, mutable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = NDArray[np.float64]

F = TypeVar("F")

LIMIT = 1 << 12
"""Entries of the largest table that elimination may make."""
_SWEEPS = 8
"""Over all variables, which are changed one at a time."""


@frozen(eq=False)
class Factor:
    """The cost of every combination of some variables; ``inf`` forbids one. Axis i of the table is ``scope[i]``."""

    scope: tuple[int, ...]
    table: Table


@frozen
class Solution:
    """A value for each variable, their total cost, and whether no other values cost less."""

    values: tuple[int, ...]
    cost: float
    exact: bool


def factor_of(first: int | None, second: int | None, table: Table) -> Factor:
    """Return the table over two variables, of which ``None`` is a fixed one with a single row or column."""
    if first == second:
        return Factor(() if first is None else (first,), table[0, 0] if first is None else np.diagonal(table))
    if first is None:
        return Factor(() if second is None else (second,), table[0])
    return Factor((first,), table[:, 0]) if second is None else Factor((first, second), table)


@mutable
class Edges(Generic[F]):
    """Variables with the values of a first solution, and costs between them, of values that have forms of kind F.

    Attributes:
        sizes: How many values each variable has.
        start: A first solution.
    """

    sizes: list[int]
    start: list[int]
    factors: list[Factor]

    def add(
        self,
        maker: int | None,
        made: Sequence[F],
        needs: Sequence[tuple[int | None, Sequence[F]]],
        price: Mapping[tuple[F, F], float],
        forms: Sequence[F],
    ) -> None:
        """Add the cost of what is made in one form and read in others: each of these is made of it once.

        Where there are several readers, a variable of its own stands for the set of *forms* that are there.

        Args:
            maker: The variable that decides which form of *made* there is.
            needs: Of each reader the variable, and the form that it wants for each of its values.
            price: Of making the second form of the first.
        """
        if len(needs) == 1:
            ((reader, wanted),) = needs
            self.factors.append(factor_of(maker, reader, np.array([[price[m, w] for w in wanted] for m in made])))
            return
        sets, variable = range(1, 1 << len(forms)), len(self.sizes)
        self.sizes.append(len(sets))
        self.start.append(len(sets) - 1)
        table = np.array([[sum(price[m, f] for i, f in enumerate(forms) if s >> i & 1) for s in sets] for m in made])
        self.factors.append(factor_of(maker, variable, table))
        for reader, wanted in needs:
            has = [[0.0 if s >> forms.index(w) & 1 else float("inf") for s in sets] for w in wanted]
            self.factors.append(factor_of(reader, variable, np.array(has)))

    def minimise(self) -> Solution:
        """Return values that make the sum of the costs small."""
        return minimise(self.sizes, self.factors, self.start)


def minimise(sizes: Sequence[int], factors: Sequence[Factor], start: Sequence[int]) -> Solution:
    """Return values for variables of *sizes* values each that make the sum of *factors* small.

    Args:
        start: A first solution, for the variables that must be fixed when the graph is too wide.
    """
    values, exact = _eliminate(sizes, factors, start)
    if not exact:
        values = _descend(sizes, factors, values)
        first = _descend(sizes, factors, list(start))
        values = min(values, first, key=lambda v: total(factors, v))
    return Solution(tuple(values), total(factors, values), exact)


def total(factors: Sequence[Factor], values: Sequence[int]) -> float:
    """Return the sum of *factors* at *values*."""
    return float(sum(f.table[tuple(values[v] for v in f.scope)] for f in factors))


def _eliminate(sizes: Sequence[int], factors: Sequence[Factor], start: Sequence[int]) -> tuple[list[int], bool]:
    free = [v for v, size in enumerate(sizes) if size > 1]
    holding: dict[int, list[Factor]] = {v: [] for v in free}
    near: dict[int, set[int]] = {v: set() for v in free}
    for f in factors:
        _enter(_of_free(f, sizes), holding, near)
    widths = {v: prod(sizes[n] for n in near[v]) for v in near}
    # The next to eliminate in front; entries whose width has changed since, or that are gone, are passed over.
    queue = [(width, v) for v, width in widths.items()]
    heapify(queue)
    decided: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    fixed: dict[int, int] = {}
    values = [0] * len(sizes)
    while near:
        while widths.get(queue[0][1]) != queue[0][0]:
            heappop(queue)
        v = queue[0][1]
        if widths[v] * sizes[v] > LIMIT:
            v = max(near, key=lambda u: (len(near[u]), -u))
            fixed[v] = start[v]
            made = [_slice(f, v, start[v]) for f in holding[v]]
        else:
            scope = tuple(sorted(near[v]))
            table = _combine(holding[v], (*scope, v), sizes)
            decided.append((v, scope, np.argmin(table, axis=-1)))
            made = [Factor(scope, table.min(axis=-1))]
        touched = near[v]
        for f in holding[v]:
            for u in f.scope:
                if u != v:
                    holding[u].remove(f)
        for u in touched:
            near[u].discard(v)
        del near[v], holding[v], widths[v]
        for f in made:
            _enter(f, holding, near)
        for u in touched:
            widths[u] = prod(sizes[n] for n in near[u])
            heappush(queue, (widths[u], u))
    for v, value in fixed.items():
        values[v] = value
    for v, scope, best in reversed(decided):
        values[v] = int(best[tuple(values[u] for u in scope)])
    return values, not fixed


def _of_free(factor: Factor, sizes: Sequence[int]) -> Factor:
    """Return *factor* without the variables that have one value only."""
    free = tuple(v for v in factor.scope if sizes[v] > 1)
    return factor if len(free) == len(factor.scope) else Factor(free, factor.table.reshape([sizes[v] for v in free]))


def _enter(factor: Factor, holding: Mapping[int, list[Factor]], near: Mapping[int, set[int]]) -> None:
    for v in factor.scope:
        holding[v].append(factor)
        near[v].update(u for u in factor.scope if u != v)


def _combine(factors: Sequence[Factor], scope: tuple[int, ...], sizes: Sequence[int]) -> Table:
    """Return the sum of *factors* as one table over *scope*."""
    place = {v: i for i, v in enumerate(scope)}
    table = np.zeros([sizes[v] for v in scope])
    for f in factors:
        order = sorted(range(len(f.scope)), key=lambda i: place[f.scope[i]])
        shape = [1] * len(scope)
        for v in f.scope:
            shape[place[v]] = sizes[v]
        table += f.table.transpose(order).reshape(shape)
    return table


def _slice(factor: Factor, variable: int, value: int) -> Factor:
    axis = factor.scope.index(variable)
    return Factor(tuple(v for v in factor.scope if v != variable), np.take(factor.table, value, axis))


def _descend(sizes: Sequence[int], factors: Sequence[Factor], values: list[int]) -> list[int]:
    """Return *values* after changing one variable at a time as long as that pays, at most ``_SWEEPS`` times over."""
    holding: dict[int, list[Factor]] = {v: [] for v in range(len(sizes))}
    for f in factors:
        for v in f.scope:
            holding[v].append(f)
    for _ in range(_SWEEPS):
        changed = False
        for v, size in enumerate(sizes):
            costs = []
            for option in range(size):
                tried = [*values[:v], option, *values[v + 1 :]]
                costs.append(total(holding[v], tried))
            best = int(np.argmin(costs))
            if costs[best] < costs[values[v]]:
                values[v], changed = best, True
        if not changed:
            break
    return values
