"""What ``clgraph bench --hint throughput`` does: find the number of streams, and keep it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from clgraph.cli.options import ModelOptions
from clgraph.cli.output import milliseconds, say, table
from clgraph.cli.progress import working
from clgraph.errors import OptionError
from clgraph.graph.primitive import Array
from clgraph.throughput.batching import Batching
from clgraph.tuner.streams import ROUNDS, StreamsReport, tune_streams


def bench_streams(
    options: ModelOptions,
    cycle: Sequence[Mapping[str, Array]],
    json_file: Path | None,
    *,
    joins: bool,
    clients: int | None,
    seconds: float,
) -> None:
    """Measure the streams of a model on requests like those of *cycle*; print it, or write it to *json_file*.

    Raises:
        OptionError: The requests cannot be joined, or the file cannot be written.
        ClgraphError: The model cannot be compiled or run.
    """
    where = options.where
    with working("measuring streams"):
        report = tune_streams(
            options.model,
            cycle,
            where.device,
            where.threads,
            where.cache_dir,
            dict(options.config),
            batching=Batching() if joins else None,
            clients=clients,
            seconds=seconds / ROUNDS,
            preprocess=options.images,
        )
    if json_file is None:
        _show(report)
        return
    rows = [{"streams": r.streams, "maximum": r.maximum, **asdict(r.load)} for r in report.rows]
    text = json.dumps(
        {"model": str(options.model), "clients": report.clients, "rows": rows, "kept": report.kept}, indent=2
    )
    if str(json_file) == "-":
        say(text)
        return
    try:
        json_file.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{json_file} cannot be written: {error.strerror}") from error
    _show(report)
    say(f"figures -> {json_file}")


def _show(report: StreamsReport) -> None:
    table(
        ("streams", "batch", "requests/s", "p50 ms", "p99 ms", "CPU ms"),
        [
            (
                row.streams,
                row.maximum,
                f"{row.load.requests_per_second:.1f}",
                *map(milliseconds, (row.load.p50, row.load.p99, row.load.cpu_seconds)),
            )
            for row in report.rows
        ],
    )
    say(f"{report.clients} clients; CPU time is of a request")
    if report.kept:
        say(f"kept in {report.kept}")
