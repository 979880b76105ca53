"""Operators drawn by chance beside ONNX Runtime: what is above the limit, and how each such case is drawn again."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clgraph.cli.output import say
from tools.benchmark.cases import SETS
from tools.benchmark.measuring import Figures, Schedule, geometric_mean, measure
from tools.benchmark.operator_draws import described, draw_case, name_of
from tools.benchmark.peers import Options

PEER = "onnxruntime"

LEAST_SHOWN = 10
"""Of the cases, worst first, that the table has whether they are above the limit or not."""

AGAIN = 3
"""How many times as many rounds a case above the limit has when it is measured again."""


def measure_drawn(count: int, seed: int, options: Options, schedule: Schedule) -> Iterator[Figures]:
    """Yield the figures of *count* cases, without those that ONNX Runtime has no kernel for, or fails to run.

    What is above the limit is measured again with more rounds, and the lower figure counts.
    """
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail
    from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

    for number in range(count):
        name = name_of(seed, number)
        title = f"{name} {described(draw_case(name))}"
        try:
            found = measure("operators", name, [PEER], options, schedule)
            if found.ratio(PEER) > limit():
                longer = replace(schedule, rounds=AGAIN * schedule.rounds)
                found = min(found, measure("operators", name, [PEER], options, longer), key=lambda f: f.ratio(PEER))
        except (NoKernel, Fail) as error:
            say(f"      {title}: {PEER} refuses it, {type(error).__name__}")
            continue
        say(f"{found.ratio(PEER):5.2f} {title}")
        yield replace(found, model=title)
        gc.collect()


def limit() -> float:
    """Return what no operator's ratio may be above."""
    worst = SETS["operators"].goals[PEER].worst
    assert worst is not None
    return worst


def drawn_markdown(found: Sequence[Figures]) -> str:
    """Return the mean and a table of what is above the limit, and of the worst."""
    ordered = sorted(found, key=lambda f: f.ratio(PEER), reverse=True)
    above = sum(f.ratio(PEER) > limit() for f in found)
    mean = geometric_mean([f.ratio(PEER) for f in found])
    name = ordered[0].model.partition(" ")[0]
    rows = [
        f"| {f.ratio(PEER):.2f} | {f.median['clgraph'] * 1e6:.4g} | {f.model} |"
        for f in ordered[: max(above, LEAST_SHOWN)]
    ]
    return "\n".join(
        [
            f"{len(found)} cases: geometric mean {mean:.2f}, {above} above {limit():g}. "
            f"`tools/bench {name}` measures one again.",
            "",
            "| ratio | us | case |",
            "|---|---|---|",
            *rows,
        ]
    )
