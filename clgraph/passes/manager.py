"""The pass manager: runs a numbered list of passes, and tells observers about each."""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeGuard

from clgraph.core.nearest import meant
from clgraph.errors import OptionError, ProgramError
from clgraph.graph.faults import faults, innermost
from clgraph.graph.program import Milestone, Program
from clgraph.passes.base import Context, Pass
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation


class Observer(Protocol):
    """Told about every pass; dumps, timings and checks are observers, not code inside passes."""

    def before(self, number: int, pass_: Pass, program: Program) -> None: ...

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None: ...


def check_names(passes: Sequence[Pass], disabled: frozenset[str], stop_after: str | None) -> None:
    """Raise ``OptionError`` where *disabled* or *stop_after* names none of *passes*, or *disabled* a required one."""
    known = {p.name: p for p in passes}
    for name in sorted(disabled | ({stop_after} if stop_after else set())):
        if name not in known:
            near = meant(name, known) or f"; the passes are {', '.join(known)}"
            raise OptionError(f"no pass is called {name!r}{near}")
        if name in disabled and known[name].required:
            raise OptionError(f"pass {name!r} is required and cannot be disabled")


class PassManager:
    """Runs passes in the given order and numbers them by position."""

    def __init__(
        self,
        passes: Sequence[Pass],
        observers: Sequence[Observer] = (),
        *,
        disabled: frozenset[str] = frozenset(),
        stop_after: str | None = None,
        first: int = 0,
        begin: Milestone = Milestone.BUILT,
    ) -> None:
        """Check the order and the options.

        Args:
            first: Number of the first pass, and *begin*: the milestone of the programs that it is given.

        Raises:
            OptionError: *disabled* or *stop_after* names no pass, or *disabled* a required one.
            ProgramError: A pass stands before the one that reaches the milestone it needs.
        """
        check_names(passes, disabled, stop_after)
        milestone = begin
        for p in passes:
            if p.needs > milestone:
                raise ProgramError(f"{p.name} needs a {p.needs.name} program but stands where it is {milestone.name}")
            milestone = max(milestone, p.reaches or milestone)
        self.passes, self.observers = tuple(passes), tuple(observers)
        self.disabled, self.stop_after, self.first = disabled, stop_after, first

    def run(self, program: Program, context: Context) -> None:
        """Run every pass that is not disabled; after ``stop_after`` only the required ones.

        Raises:
            ClgraphError: What a pass or an observer raises.
            InternalError: They raised something else; names the pass, the node it was at, and what gets round it.
        """
        stopped = False
        for number, p in enumerate(self.passes, self.first):
            if not p.required and (stopped or p.name in self.disabled):
                continue
            with faults(f"pass {p.name!r}", way_out=functools.partial(_way_out, p)):
                self._run(number, p, program, context)
            stopped = stopped or p.name == self.stop_after

    def _run(self, number: int, p: Pass, program: Program, context: Context) -> None:
        for observer in self.observers:
            observer.before(number, p, program)
        start = time.perf_counter()
        changes = p.run(program, context)
        seconds = time.perf_counter() - start
        program.milestone = max(program.milestone, p.reaches or program.milestone)
        for observer in self.observers:
            observer.after(number, p, program, changes, seconds)


def _way_out(p: Pass, error: Exception) -> str:
    """Say what gets round an error of pass *p*: leaving out the kernel that it was about, else the pass itself."""
    kernel = innermost(error, _is_special)
    if kernel is not None:
        return f"--deny-kernel {kernel.name}, or config={{'deny_kernels': [{kernel.name!r}]}}, gets round it"
    if p.required:
        return ""
    return f"--disable-pass {p.name}, or config={{'disable_passes': [{p.name!r}]}}, gets round it"


def _is_special(found: object) -> TypeGuard[type[Implementation[Any]]]:
    """Whether *found* is an implementation that there are others beside."""
    if not isinstance(found, type) or not issubclass(found, Implementation):
        return False
    # What implementations share is a class without a name.
    return getattr(found, "name", "") in IMPLEMENTATIONS and not found.general
