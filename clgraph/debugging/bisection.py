"""Finding what makes a model's results wrong: the first pass that changes them, or the node and kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clgraph.compilation.compiler import Compiler
from clgraph.debugging.compare import compare, relative_error, tolerance_of
from clgraph.debugging.comparison import Comparison
from clgraph.errors import ClgraphError, UnsupportedError
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.passes.base import Pass
from clgraph.passes.observers import PassObserver
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.reference import run_reference
from clgraph.settings import Settings


@dataclass(frozen=True)
class Finding:
    """What a bisection found.

    Attributes:
        comparison: Of the model as it is compiled by default.
        rewrite: The first pass after which the references compute something else: the pass itself is wrong.
        pass_: The first optional pass with which the device is wrong and without which it is right.
        node, kernel: The first node that differs, and the implementation without which the results are right.
        executor: Whether only the executor is wrong: launching each tile function by itself gives the right results.
        log: What was tried, and how it ended.
    """

    comparison: Comparison
    rewrite: str | None = None
    pass_: str | None = None
    node: str | None = None
    kernel: str | None = None
    executor: bool = False
    log: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.comparison.agrees:
            return self.comparison.verdict()
        found = []
        if self.rewrite is not None:
            found.append(f"pass {self.rewrite!r} changes what the model computes")
        if self.executor:
            found.append("the persistent executor is wrong: executor=stream gives the right results")
        if self.kernel is not None:
            where = "" if self.node is None else f" at node {self.node!r}"
            found.append(f"kernel {self.kernel!r} is wrong{where}")
        elif self.node is not None:
            found.append(f"node {self.node!r} is the first that differs")
        if self.pass_ is not None and self.rewrite is None:
            found.append(f"only with pass {self.pass_!r}")
        return "; ".join(found) or self.comparison.verdict()


def bisect(
    topology: Topology,
    feeds: Mapping[str, Array],
    options: Settings,
    *,
    tolerance: float | None = None,
    expected: Mapping[str, Array] | None = None,
    against: str = "the references",
    say: Callable[[str], None] = lambda line: None,
) -> Finding:
    """Compare, and where the results differ find out why.

    First the references run after every pass; then the device runs with fewer and fewer optional passes; last each
    implementation in use is denied, that of the first node that differs before the others.

    Args:
        say: Told about each step.

    Raises:
        ClgraphError: As :func:`clgraph.debugging.compare.compare`.
    """
    tolerance = tolerance_of(options) if tolerance is None else tolerance
    search = _Search(topology, feeds, options, tolerance, expected, say)
    comparison = compare(topology, feeds, options, tolerance=tolerance, expected=expected, against=against)
    search.note("as it is", comparison.verdict())
    if comparison.agrees:
        return Finding(comparison, log=tuple(search.log))
    rewrite = search.rewrite() if comparison.changed or comparison.mixed else None
    first = comparison.first
    if rewrite is not None and first is None:
        return Finding(comparison, rewrite, log=tuple(search.log))
    if comparison.torn and first is None:
        streamed = search.right("with executor stream", executor="stream")
        return Finding(comparison, rewrite, executor=streamed, log=tuple(search.log))
    pass_ = search.first_pass()
    used = dict.fromkeys(
        n.implementation for n in comparison.nodes if n.implementation not in ("in_place", "host.reference")
    )
    order = list(used) if first is None else [first.implementation, *(u for u in used if u != first.implementation)]
    wrong_memory = first is not None and bool(first.overwritten)
    kernel = None if wrong_memory else search.kernel(order)
    node = None if first is None else first.node
    return Finding(comparison, rewrite, pass_, node, kernel, log=tuple(search.log))


@dataclass
class _Search:
    topology: Topology
    feeds: Mapping[str, Array]
    options: Settings
    tolerance: float
    expected: Mapping[str, Array] | None
    say: Callable[[str], None]
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._shapes = {name: array.shape for name, array in self.feeds.items()}
        self._reference = run_reference(self.topology.build(self._shapes), self.feeds, exact=True)

    def note(self, what: str, result: str) -> None:
        self.log.append(f"{what}: {result}")
        self.say(self.log[-1])

    def rewrite(self) -> str | None:
        """Return the first pass after which the references give something else."""
        watcher = _ReferenceWatcher(self.feeds, self._reference, self.tolerance)
        try:
            Compiler(self.options.with_(verify_passes=False), observers=[watcher]).specialise(
                self.topology, self._shapes
            )
        except ClgraphError as error:
            self.note("references after each pass", str(error))
        self.note("references after each pass", f"first wrong after {watcher.first or 'none'}")
        return watcher.first

    def first_pass(self) -> str | None:
        """Return the optional pass that makes the device wrong, by halving the list of optional passes."""
        optional = [p.name for p in default_pipeline() if not p.required and p.name not in self.options.disable_passes]
        none = frozenset(optional)
        if not optional or not self.right("without optional passes", disable_passes=self.options.disable_passes | none):
            return None
        good, bad = 0, len(optional)
        while bad - good > 1:
            middle = (good + bad) // 2
            out = self.options.disable_passes | frozenset(optional[middle:])
            if self.right(f"up to {optional[middle - 1]}", disable_passes=out):
                good = middle
            else:
                bad = middle
        return optional[bad - 1]

    def kernel(self, names: list[str]) -> str | None:
        """Return the implementation whose denial makes the results right."""
        return next(
            (n for n in names if self.right(f"without {n}", deny_kernels=self.options.deny_kernels | {n})), None
        )

    def right(self, what: str, **changes: Any) -> bool:
        """Whether the device is right under other options."""
        try:
            made = Compiler(self.options.with_(**changes)).specialise(self.topology, self._shapes)
            assert made.network is not None
            results = made.network.run(dict(self.feeds))
        except UnsupportedError as error:
            self.note(what, f"does not compile: {str(error).splitlines()[0]}")
            return False
        wanted = self._reference if self.expected is None else self.expected
        worst = max(relative_error(results[name], wanted[name]) for name in results)
        self.note(what, f"off by {worst:.2g}")
        return worst <= self.tolerance


@dataclass
class _ReferenceWatcher(PassObserver):
    """Runs the references after every pass that changed something."""

    feeds: Mapping[str, Array]
    expected: Mapping[str, Array]
    tolerance: float
    first: str | None = None

    def after(self, number: int, pass_: Pass, program: Program, changes: int, seconds: float) -> None:
        """Compare, unless a pass has been found already."""
        if self.first is not None or not changes:
            return
        found = run_reference(program, self.feeds, exact=True)
        if any(not relative_error(found[name], self.expected[name]) <= self.tolerance for name in found):
            self.first = pass_.name
