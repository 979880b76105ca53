"""Transformed constants, above all packed weights, shared by a model's specialisations and clones."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence

import numpy as np

from clgraph.core.dtype import spelled
from clgraph.graph.primitive import Array

SMALL_BYTES = 1 << 12
"""Arrays up to this size are known by their content."""

BUDGET = 12
"""Up to this many times the bytes of a model's constants are kept, used or not: Winograd's form alone takes 4."""


class Recipe:
    """The computation that made an array and the recipes of what it read; the same recipe makes equal arrays.

    A :class:`PackedWeights` has one object for equal ones, so that they are told apart by identity: compared by what
    they hold, a chain of n computations that read their predecessor twice would take 2^n comparisons.
    """

    __slots__ = ("__weakref__", "parts")

    def __init__(self, parts: tuple[Hashable, ...]) -> None:
        self.parts = parts


class PackedWeights:
    """Finds arrays by *recipe*: the computation, and the recipes of the arrays that it reads.

    The recipe of a model's constant is its identity, that of a small array its content. What is neither of these nor a
    remembered result has no recipe, and nothing that is computed of it is remembered. A result is found as long as a
    program uses it; those that were found last stay longer, within a bound. Safe between threads.

    Attributes:
        keeps_steps: Whether intermediate results stay, too: for a model of open shapes, which passes will meet again.
    """

    def __init__(self) -> None:
        self.keeps_steps = False
        self._one: weakref.WeakValueDictionary[tuple[Hashable, ...], Recipe] = weakref.WeakValueDictionary()
        self._recipes: dict[int, tuple[weakref.ref[Array], Recipe]] = {}
        self._alive: weakref.WeakValueDictionary[Recipe, Array] = weakref.WeakValueDictionary()
        self._kept: OrderedDict[Recipe, Array] = OrderedDict()
        self._nbytes = self._budget = self._registered = 0
        self._lock = threading.RLock()

    @property
    def nbytes(self) -> int:
        """Bytes that are kept whether a program uses them or not."""
        return self._nbytes

    def register(self, constants: Iterable[Array]) -> None:
        """Know *constants* by identity from now on; they are not kept alive."""
        with self._lock:
            total = 0
            for array in constants:
                total += array.nbytes
                if array.nbytes > SMALL_BYTES and self._recipe(array) is None:
                    self._registered += 1
                    self._know(array, self.made_of("constant", self._registered))
            self._budget = max(self._budget, BUDGET * total)

    def made_of(self, *parts: Hashable) -> Recipe:
        """Return the recipe of *parts*: what computes, and the recipes of what it reads."""
        with self._lock:
            if (found := self._one.get(parts)) is None:
                found = self._one[parts] = Recipe(parts)
            return found

    def recipe(self, what: Hashable, sources: Sequence[Array]) -> Recipe | None:
        """Return the recipe of what *what* makes of *sources*; ``None`` when one of them has none."""
        with self._lock:
            found = tuple(self._recipe(array) for array in sources)
            return None if None in found else self.made_of(what, *found)

    def find(self, recipe: Recipe | None) -> Array | None:
        """Return the result of *recipe*, read-only, if it is still there."""
        if recipe is None:
            return None
        with self._lock:
            if recipe in self._kept:
                self._kept.move_to_end(recipe)
            return self._alive.get(recipe)

    def remember(self, recipe: Recipe | None, array: Array, *, keep: bool = True) -> Array:
        """Return *array*, read-only: from now on the result of *recipe*, and *keep* it when nobody uses it."""
        array.flags.writeable = False
        if recipe is None:
            return array
        with self._lock:
            self._alive[recipe] = array
            self._know(array, recipe)
            if keep and recipe not in self._kept:
                self._kept[recipe] = array
                self._nbytes += array.nbytes
            while self._nbytes > self._budget and self._kept:
                self._nbytes -= self._kept.popitem(last=False)[1].nbytes
        return array

    def once(self, what: Hashable, sources: Sequence[Array], compute: Callable[[], Array]) -> Array:
        """Return what *compute* makes, which is all in *what* and *sources*; the earlier result where there is one."""
        recipe = self.recipe(what, sources)
        found = self.find(recipe)
        if found is not None:
            return found
        made = np.asarray(compute())
        if made.nbytes <= SMALL_BYTES or any(made is source for source in sources):
            return made
        return self.remember(recipe, made, keep=self.keeps_steps)

    def each_once(
        self, what: Hashable, sources: Sequence[Array], compute: Callable[[], tuple[Array, ...]]
    ) -> tuple[Array, ...]:
        """Return the arrays that *compute* makes, all of which are in *what* and *sources*, as :meth:`once` does."""
        count = self.recipe((what, "count"), sources)
        if (known := self.find(count)) is not None:
            found = [self.find(self.recipe((what, i), sources)) for i in range(int(known))]
            if all(array is not None for array in found):
                return tuple(array for array in found if array is not None)
        made = compute()
        self.remember(count, np.array(len(made)))
        for i, array in enumerate(made):
            keep = array.nbytes <= SMALL_BYTES or self.keeps_steps
            self.remember(self.recipe((what, i), sources), array, keep=keep)
        return made

    def _know(self, array: Array, recipe: Recipe) -> None:
        known, number = self._recipes, id(array)

        def forget(reference: weakref.ref[Array]) -> None:
            if number in known and known[number][0] is reference:
                del known[number]

        known[number] = (weakref.ref(array, forget), recipe)

    def _recipe(self, array: Array) -> Recipe | None:
        if array.nbytes <= SMALL_BYTES:
            return self.made_of(spelled(array.dtype), array.shape, array.tobytes())
        reference, recipe = self._recipes.get(id(array), (None, None))
        return recipe if reference is not None and reference() is array else None
