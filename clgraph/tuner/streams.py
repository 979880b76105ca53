"""Behind ``clgraph.tune_streams``: measure how many streams, and which batches, serve most requests a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from clgraph.compilation.entry import compile_model
from clgraph.compilation.sources import images_of
from clgraph.compilation.stream_choices import StreamChoice, choice_path, write_choice
from clgraph.core.frozen import frozen
from clgraph.engines.opening import options_of
from clgraph.errors import InputError
from clgraph.throughput.batching import Batching
from clgraph.throughput.load import Load, closed_loop
from clgraph.throughput.seats import default_streams

ROUNDS = 3
"""Each way of running is measured so often, in turn with the others."""


@frozen
class StreamsRow:
    """One way of running: streams, entries of a batch at most, and its best round."""

    streams: int
    maximum: int
    load: Load


@frozen
class StreamsReport:
    """What was measured, the best first; printed, it is a table.

    Attributes:
        kept: The file that later compilations read; empty where the model has none to be known by.
    """

    rows: tuple[StreamsRow, ...]
    clients: int
    kept: str

    @property
    def best(self) -> StreamsRow:
        """What later compilations choose."""
        return self.rows[0]

    def __str__(self) -> str:
        lines = [f"{self.clients} clients", "streams  batch  requests/s   p50 ms   p99 ms  CPU ms a request"]
        for row in self.rows:
            load = row.load
            lines.append(
                f"{row.streams:7}  {row.maximum:5}  {load.requests_per_second:10.1f}  {load.p50 * 1e3:7.2f}  "
                f"{load.p99 * 1e3:7.2f}  {load.cpu_seconds * 1e3:16.2f}"
            )
        return "\n".join([*lines, *([f"kept in {self.kept}"] if self.kept else [])])


def tune_streams(
    source: Any,
    feeds: Sequence[Mapping[str, Any]],
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: Any = None,
    config: Mapping[str, Any] | None = None,
    *,
    batching: Batching | None = None,
    clients: int | None = None,
    seconds: float = 1.0,
    **options: Any,
) -> StreamsReport:
    """Measure a model with 1, 2, 4, ... streams, and keep what serves most requests for later compilations.

    Args:
        source, device, threads, cache_dir, config: As for :func:`clgraph.compile`, and so are further *options*.
        feeds: Requests like those to come: their shapes decide what is best.
        batching: Measures batches of 1, 4 and 16 entries, too, joined as it says; without, none are made.
        clients: Requests at once; twice as many as streams and entries of a batch at most by default.
        seconds: Of each way in each of three rounds.

    Raises:
        InputError: There are no *feeds*.
        ClgraphError: As :func:`clgraph.compile` and :meth:`StreamedModel.run`.
    """
    if not feeds:
        raise InputError("feeds: give some requests like those to come, a list of dictionaries")
    chosen = options_of(device, threads, cache_dir, config).with_(
        precision=options.get("precision"), weights=options.get("weights")
    )
    most = default_streams(chosen.device, chosen.threads)
    counts = sorted({*(1 << n for n in range(most.bit_length()) if 1 << n <= most), most})
    ways = [(streams, size) for streams in counts for size in ([1] if batching is None else [1, 4, 16])]
    clients = clients or 2 * most * (1 if batching is None else 4)
    compiled = partial(
        compile_model,
        source,
        device,
        threads=threads,
        cache_dir=cache_dir,
        config=config,
        hint="throughput",
        queue_size=max(64, clients),
        **options,
    )
    with ExitStack() as stack:
        runs = {}
        for streams, size in ways:
            joined = None if batching is None or size == 1 else replace(batching, maximum=size)
            runs[streams, size] = stack.enter_context(compiled(streams=streams, batching=joined)).run
        loads = _measured(runs, feeds, clients, seconds)
    rows = [StreamsRow(*way, max(each, key=lambda load: load.requests_per_second)) for way, each in loads.items()]
    rows.sort(key=lambda row: -row.load.requests_per_second)
    path = choice_path(source, chosen, images_of(options.get("preprocess")))
    if path is not None:
        _keep(rows, path)
    return StreamsReport(tuple(rows), clients, str(path or ""))


def _measured(
    runs: Mapping[tuple[int, int], Callable[..., Any]], feeds: Sequence[Mapping[str, Any]], clients: int, seconds: float
) -> dict[tuple[int, int], list[Load]]:
    """Return the load of each round, by way of running (streams, entries of a batch)."""
    for run in runs.values():
        closed_loop(run, feeds, clients, seconds / 2)  # shapes are bound, memory is touched
    loads: dict[tuple[int, int], list[Load]] = {way: [] for way in runs}
    for number in range(ROUNDS):
        for way in list(runs)[:: 1 if number % 2 else -1]:
            loads[way].append(closed_loop(runs[way], feeds, clients, seconds))
    return loads


def _keep(rows: Sequence[StreamsRow], path: Path) -> None:
    """Write the best of *rows*, and what one stream served beside it."""
    alone = next(r for r in rows if (r.streams, r.maximum) == (1, 1)).load.requests_per_second
    best = rows[0]
    write_choice(path, StreamChoice(best.streams, best.maximum, best.load.requests_per_second, alone))
