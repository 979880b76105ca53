"""``clgraph tune``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from clgraph.cli.options import DeviceOptions, device_options, parse_shapes
from clgraph.cli.output import json_option, say, say_json, table
from clgraph.cli.sections import SectionedCommand
from clgraph.tuner import tune as tuner


@click.command(cls=SectionedCommand, name="tune")
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("--shape", "shapes", multiple=True, metavar="NAME=1,3,224,224", help="Shape of an input.")
@click.option("--seconds", default=60.0, show_default=True, help="Approximate time to measure.")
@click.option("--file", type=click.Path(path_type=Path), help="Save the results there instead of in the cache folder.")
@click.option("--report", is_flag=True, help="Show every candidate: the estimates before and after, the measurement.")
@json_option
@device_options
def command(
    where: DeviceOptions,
    model: Path | None,
    shapes: tuple[str, ...],
    seconds: float,
    file: Path | None,
    report: bool,
    as_json: bool,
) -> None:
    """Measure which kernels are fastest on the device for MODEL, and fit the cost model to it.

    Without MODEL a standard set of problems is measured, for the cost model. Each candidate is compared with the
    reference before it is timed; candidates with wrong results are not chosen again. Later compilations for the same
    device, driver and version of clgraph use the results automatically, and `clgraph explain` shows "tuned".
    CLGRAPH_TUNING=FILE uses another file than the device's own, CLGRAPH_TUNING=off none. Ctrl-C keeps the results
    measured so far.

    \b
    Examples:
      clgraph tune
      clgraph tune model.onnx --shape x=1,3,224,224 --seconds 120 --report
    """
    with _shown() as progress:
        found = tuner.tune(
            model,
            device=where.device,
            shapes=parse_shapes(shapes)[0],
            threads=where.threads,
            cache_dir=where.cache_dir,
            config={**where.config, "tuning": str(file) if file else None},
            seconds=seconds,
            progress=progress,
        )
    if as_json:
        rows = [_figures(row) for row in found.rows]
        say_json({"path": found.path, "finished": found.finished, "problems": found.problems, "rows": rows})
        return
    if report:
        _table(found)
        say()
    _summary(found)


def _table(found: tuner.TuningReport) -> None:
    table(
        ("", "problem", "implementation", "measured us", "estimate", "fitted", "error"),
        [
            (
                "*" if r.chosen else "",
                str(r.sample.query.primitive) + " " + " ".join(str(x.shape) for x in r.sample.query.own),
                r.sample.implementation,
                _micro(r.sample.seconds) if not r.sample.failure else r.sample.failure,
                _micro(r.before),
                _micro(r.after),
                f"{r.sample.error:.1e}",
            )
            for r in found.rows
        ],
    )


def _figures(row: tuner.Row) -> dict[str, object]:
    sample = row.sample
    return {
        "primitive": str(sample.query.primitive),
        "inputs": [str(layout) for layout in sample.query.own],
        "implementation": sample.implementation,
        "chosen": row.chosen,
        "seconds": sample.seconds,
        "estimate": row.before,
        "fitted": row.after,
        "error": sample.error,
        "failure": sample.failure,
    }


def _summary(found: tuner.TuningReport) -> None:
    right = [r for r in found.rows if r.sample.right]
    if not right:
        say("nothing was measured")
        return
    problems = sum(r.chosen for r in found.rows)
    for name, estimates in (("before", [r.before for r in right]), ("fitted", [r.after for r in right])):
        off = [abs(math.log(e / r.sample.seconds)) for e, r in zip(estimates, right, strict=True)]
        say(f"estimates {name}: a factor of {math.exp(sorted(off)[len(off) // 2]):.2f} off in the median")
    wrong = [r for r in found.rows if not r.sample.right]
    state = "all" if found.finished else "time ran out or it was broken off:"
    say(f"{len(right)} candidates on {state} {problems} of {found.problems} problems, {len(wrong)} wrong or failed")
    say(f"kept in {found.path}")


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}" if math.isfinite(seconds) else "wrong"


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[tuner.Progress], None] | None]:
    """Show a bar on the terminal's error stream; nothing when it is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.completed:.0f} of {task.total:.0f}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("loading")
        yield lambda p: bar.update(task, completed=p.done, total=p.problems, description=p.what)
