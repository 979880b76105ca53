"""The one call behind ``clgraph.tune``: measure what the problems of a model can be run by, and keep the results."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.compilation.compiler import Compiler
from clgraph.core.frozen import frozen
from clgraph.engines.opening import load_extensions, options_of, tuning_identity, tuning_of, tuning_path
from clgraph.errors import OptionError
from clgraph.graph.topology import Topology
from clgraph.model.specialisation import Shapes
from clgraph.network.network import Network
from clgraph.passes.selection import plain_query
from clgraph.runtime.engine import Engine
from clgraph.selector.query import Query, problem_key
from clgraph.selector.tuning import Tuning, write_tuning
from clgraph.tuner.fit import estimate_by, fit
from clgraph.tuner.measure import Bench, Sample
from clgraph.tuner.problems import problems, standard

if TYPE_CHECKING:
    from clgraph.frontend.files import Source


@frozen
class Progress:
    """Progress of tuning: problems done, problems in all, and the one being measured."""

    done: int
    problems: int
    what: str


@frozen
class Row:
    """One sample beside the estimates.

    Attributes:
        before, after: Seconds by the cost model that was in force, and by the one that was fitted.
        chosen: Whether the implementation was the fastest of its problem.
    """

    sample: Sample
    before: float
    after: float
    chosen: bool


@dataclass(frozen=True)
class TuningReport:
    """What ``clgraph.tune`` did.

    Attributes:
        path: The file that later compilations read.
        tuning: What it holds: this and earlier results.
        rows: What was measured now.
        finished: Whether every problem was measured; else time ran out, or the user broke it off.
    """

    path: Path
    tuning: Tuning
    rows: tuple[Row, ...]
    problems: int
    finished: bool


def tune(
    model: Source | Topology | None = None,
    device: str | int = "auto",
    shapes: Shapes | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
    seconds: float = 60.0,
    progress: Callable[[Progress], None] | None = None,
) -> TuningReport:
    """Measure the kernels that could run a model on a device, and keep which is fastest for what.

    Every candidate is checked against the NumPy reference before it is timed. Later compilations for the same device,
    driver and version of clgraph use the times, and a cost model that is fitted to them; ``explain`` says *tuned*.
    Results of earlier calls stay. Ctrl-C ends the measuring and keeps what was done.

    Args:
        model: As for ``clgraph.compile``; a standard set of problems when not given.
        device, shapes, threads, cache_dir, config: As for ``clgraph.compile``. The option ``tuning`` names another file
            than the device's own in the cache folder.
        seconds: How long to measure, about; what is largest comes first.
        progress: Called before each candidate.

    Raises:
        OptionError: The device is none that kernels run on, or the file cannot be written.
        ClgraphError: The model cannot be loaded or compiled.
    """
    options = options_of(device, threads, cache_dir, config)
    load_extensions(options)
    compiler = Compiler(options.with_(tuning="off"))
    engine = next((e for e in compiler.engines.values() if isinstance(e, Engine)), None)
    if engine is None:
        raise OptionError(f"nothing can be tuned on {options.device!r}: no OpenCL kernels run there")
    path, identity = tuning_path(engine.device, options), tuning_identity(engine.device)
    known = tuning_of(engine.device, options) or Tuning()
    laid_out: dict[str, Query[Any]] = {}
    for topology, given in _topologies(model, shapes):
        laid_out |= {problem_key(q): q for q in problems(topology.build(given), compiler.context)}
    bench = Bench(compiler.context, lambda program: Network(program, compiler.engines, options.executor))
    samples: list[Sample] = []
    finished = _measure(bench, list(laid_out.values()), samples, time.monotonic() + seconds, progress)
    tuning = _joined(engine, known, samples)
    if samples:
        write_tuning(path, identity, tuning)
    return TuningReport(path, tuning, _rows(tuning, samples), len(laid_out), finished)


def _topologies(model: Source | Topology | None, shapes: Shapes | None) -> Iterable[tuple[Topology, Shapes]]:
    if model is None:
        return [(topology, {}) for topology in standard()]
    if isinstance(model, Topology):
        return [(model, shapes or {})]
    from clgraph.frontend.onnx_loader import load_onnx

    return [(load_onnx(model), shapes or {})]


def _measure(
    bench: Bench,
    laid_out: Sequence[Query[Any]],
    samples: list[Sample],
    end: float,
    progress: Callable[[Progress], None] | None,
) -> bool:
    """Measure problem by problem into *samples*, one that is broken off not; return whether all were."""
    try:
        for done, q in enumerate(laid_out):
            offered = bench.candidates(q)
            arrays, expected = bench.expected(q)
            found = []
            for proposal in offered:
                if time.monotonic() > end:
                    return False
                if progress is not None:
                    progress(Progress(done, len(laid_out), f"{proposal.implementation.name}: {q.primitive.kind}"))
                found.append(bench.measure(proposal, arrays, expected))
            samples += found
    except KeyboardInterrupt:
        return False
    return True


def _joined(engine: Engine, known: Tuning, samples: Sequence[Sample]) -> Tuning:
    """Return *known* updated by *samples*: their times replace older ones, costs are fitted anew, other scales stay."""
    times = {key: dict(found) for key, found in known.times.items()}
    for s in samples:
        if not s.failure:
            times.setdefault(problem_key(s.query), {})[s.implementation] = s.seconds
    before = known.costs or engine.info.costs
    costs = fit(before, samples)
    if known.costs is not None:
        costs = replace(costs, scales={**known.costs.scales, **costs.scales})
    return Tuning(costs if samples else known.costs, times)


def _rows(tuning: Tuning, samples: Sequence[Sample]) -> tuple[Row, ...]:
    groups: dict[str, list[Sample]] = {}
    for s in samples:
        groups.setdefault(problem_key(plain_query(s.query)), []).append(s)
    best = {id(min(found, key=lambda s: s.seconds)) for found in groups.values()}
    return tuple(
        Row(s, s.estimate, s.estimate if tuning.costs is None else estimate_by(tuning.costs, s), id(s) in best)
        for s in samples
    )
