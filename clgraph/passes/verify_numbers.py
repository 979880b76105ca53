"""Comparison of a program's results before and after each pass."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import numpy as np

from clgraph.core.dtype import DType, is_floating, unit
from clgraph.errors import ProgramError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.constants.copying import copy_program
from clgraph.passes.observers import PassObserver
from clgraph.passes.pipeline import required_pipeline
from clgraph.passes.reference import has_steps, random_feeds, run_reference


class VerifyNumbers(PassObserver):
    """Compares the results before and after each pass and names the first pass that changes them.

    Until compile_graph the references compute both in float64; from compile_graph on the device computes a copy of the
    program, completed by the required passes that are left, when ``Context.execute`` is there. The yardstick is how far
    rounding every intermediate value to the program's own types moves the result; behind a pass with ``rounds``, to
    those it has chosen, and a unit in the last place of the narrowest of them, which constants may have. Doubles, which
    float64 does not round, move by as many of their units as floats in their place move by of theirs: the lengths of
    sums and the magnitudes that cancel in them are the same. A pass may
    round constants once more, which is less than that; a kernel may add up in another order, whose error grows with the
    square root of the number of terms (64 for the 4096 of a large convolution) where the reference's pairwise sums
    hardly grow at all. Where floats become whole numbers, what lies that near to a half may be a step off, which no
    rounding of the reference's own need show: results may also be as far apart as they move where all such floats are
    FACTOR units larger, and where they are smaller.
    """

    FACTOR = 8.0
    DEVICE_FACTOR = 64.0

    def __init__(self, context: Context, feeds: Mapping[str, Array] | None = None) -> None:
        """Compare on *feeds*; on random ones when not given."""
        self.context = context
        self._feeds = feeds
        self._expected: dict[str, Array] | None = None
        self._bounds: dict[str, float] = {}
        self._steps: dict[str, float] = {}
        self._verified: tuple[str, list[Array | None]] = ("", [])

    def before(self, number: int, pass_: Pass, program: Program) -> None:
        """Compute, once, what every later state of the program must."""
        if self._expected is not None:
            return
        self._feeds = self._feeds or random_feeds(program)
        self._expect(program)

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Compare the outputs; raises ``ProgramError`` that names the pass, the output and the distance.

        A program whose text and constants are those of the last comparison is not computed again.
        """
        assert self._expected is not None
        assert self._feeds is not None
        state = str(program), [v.constant for v in program.constants]
        if state[0] == self._verified[0] and all(map(operator.is_, state[1], self._verified[1])):
            return
        if pass_.rounds and changes:
            old, near_halves = self._expected, self._steps
            lost = max(_coarsest(program), pass_.coarsest(self.context))
            self._expect(program, lost)
            what = f"pass {number:02} {pass_.name}"
            # Another order of operations rounds what lies near to a half before it or behind it.
            kept, self._steps = self._steps, {n: max(s, near_halves[n]) for n, s in self._steps.items()}
            self._compare(old, self._expected, self.FACTOR, what, "by the references", lost)
            self._steps = kept
        on_device = program.milestone >= Milestone.SELECTED and self.context.execute is not None
        found = self._on_device(program) if on_device else run_reference(program, self._feeds, exact=True)
        factor = self.DEVICE_FACTOR if on_device else self.FACTOR
        where = "on the device" if on_device else "by the references"
        self._compare(self._expected, found, factor, f"pass {number:02} {pass_.name}", where)
        self._verified = state

    def confirm(self, program: Program, what: str) -> None:
        """Compare the outputs of a planned program of the same inputs; raises ``ProgramError`` that names *what*."""
        assert self._expected is not None
        assert self._feeds is not None
        if self.context.execute is None:
            found, factor, where = run_reference(program, self._feeds, exact=True), self.FACTOR, "by the references"
        else:
            found, factor, where = self.context.execute(program, self._feeds), self.DEVICE_FACTOR, "on the device"
        self._compare(self._expected, found, factor, what, where)

    def _expect(self, program: Program, lost: float = 0.0) -> None:
        """Compute what later states of the program must, and how far its rounding, or one to *lost*, moves that."""
        assert self._feeds is not None
        self._expected = run_reference(program, self._feeds, exact=True)
        rounded = run_reference(program, self._feeds)
        for name, exact in self._expected.items():
            self._bounds[name] = _distance(exact, rounded[name]) + _unit(rounded[name], exact)
        self._steps = moved_by_steps(program, self._feeds, self._expected, self.FACTOR * max(lost, _coarsest(program)))
        if any(v.layout.dtype == DType.F64 for v in program.values):
            with np.errstate(over="ignore", invalid="ignore"):
                floats = run_reference(program, self._feeds, floats=np.float32)
            units = unit(np.dtype(np.float64)) / unit(np.dtype(np.float32))
            for name, exact in self._expected.items():
                moved = _distance(exact, floats[name])
                # Doubles that no float can hold tell nothing.
                self._bounds[name] += units * moved if np.isfinite(moved) else 0.0

    def _compare(
        self,
        wanted: Mapping[str, Array],
        found: Mapping[str, Array],
        factor: float,
        what: str,
        where: str,
        lost: float = 0.0,
    ) -> None:
        """Raise ``ProgramError`` where results differ by more than the bounds and *lost* times the largest number."""
        for name, expected in wanted.items():
            bound = factor * (self._bounds[name] + lost * _largest(expected)) + self._steps[name]
            distance = _distance(expected, found[name])
            if not distance <= bound:
                raise ProgramError(
                    f"{what} changes output {name!r}: computed {where}, it moves by "
                    f"{distance:.3g}, which rounding does not explain (at most {bound:.3g})"
                )

    def _on_device(self, program: Program) -> dict[str, Array]:
        """Run a copy of *program*, completed by what is required behind compile_graph."""
        assert self.context.execute is not None
        assert self._feeds is not None
        copy = copy_program(program)
        for step in required_pipeline():
            if step.needs >= Milestone.SELECTED:
                step.run(copy, self.context)
                copy.milestone = max(copy.milestone, step.reaches or copy.milestone)
        return self.context.execute(copy, {v.name: self._feeds[v.name] for v in copy.inputs})


def moved_by_steps(
    program: Program, feeds: Mapping[str, Array], exact: Mapping[str, Array], near: float
) -> dict[str, float]:
    """Return how far results are from the *exact* ones where floats that become whole numbers are off by *near*."""
    moved = dict.fromkeys(exact, 0.0)
    if any(map(has_steps, program)):
        for sign in (1, -1):
            for name, found in run_reference(program, feeds, exact=True, moved=sign * near).items():
                moved[name] += _distance(exact[name], found)
    return moved


def _coarsest(program: Program) -> float:
    """Return a unit in the last place of the narrowest floats in *program*; 0 where there are none."""
    return max((unit(v.layout.dtype.numpy) for v in program.values if v.layout.dtype.floating), default=0.0)


def _distance(first: Array, second: Array) -> float:
    """Return the largest difference; ``inf`` where one is not a number and the other is."""
    if first.shape != second.shape:
        return float("inf")
    if not is_floating(first.dtype):
        return 0.0 if np.array_equal(first, second) else float("inf")
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(first.astype(np.float64) - second.astype(np.float64)))
    return float(np.max(np.nan_to_num(difference, nan=np.inf), initial=0.0))


def _unit(rounded: Array, exact: Array) -> float:
    """Return a unit in the last place of the largest result, for programs that round nothing on the way."""
    if not is_floating(rounded.dtype):
        return 0.0
    return unit(rounded.dtype) * _largest(exact)


def _largest(exact: Array) -> float:
    """Return the largest magnitude in *exact*, of what is finite and no integer."""
    finite = np.abs(exact[np.isfinite(exact)]) if is_floating(exact.dtype) else np.zeros(0)
    return float(np.max(finite, initial=0.0))
