"""The printed and JSON reports of ``clgraph bench``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.cli.output import milliseconds, nbytes, say, table

PERCENTILES = (50, 90, 99)
"""Of the runs' times, beside the least and the largest."""


def show(figures: Mapping[str, Any], peer: str | None) -> None:
    """Print what was measured, and what of *peer* was where there is one."""
    start, inputs = figures["start"], figures["inputs"]
    say(f"device      {figures['device']}, {figures['threads']} threads")
    first = (
        f"compile {milliseconds(start['compile_seconds'])} ms, first run {milliseconds(inputs[0]['first_seconds'])} ms"
    )
    say(f"start       read {milliseconds(start['read_seconds'])} ms, {first}")
    say()
    rows = [("clgraph", figures["latency"])]
    if peer is not None:
        rows.append((peer, figures[peer]["latency"]))
    many = figures["throughput"]
    if "latency" in many:
        rows.append((f"clgraph, {many['streams']} streams", many["latency"]))
    _latency_table("latency", rows)
    if len(inputs) > 1:
        say()
        _latency_table("inputs", [(_shapes(i["shapes"]), i["latency"]) for i in inputs if i["latency"]["runs"]])
    say()
    if peer is not None:
        theirs = figures[peer]
        load, first = (milliseconds(theirs[key]) for key in ("load_seconds", "first_seconds"))
        say(f"{peer:<11} load {load} ms, first run {first} ms")
        spread = f"{theirs['least_ratio']:.3f} to {theirs['largest_ratio']:.3f}"
        say(f"ratio       {theirs['ratio']:.3f} of {peer}'s time ({spread}); below 1 clgraph is faster")
        say(f"difference  {theirs['largest_difference']:.1e} at most, relative to an output's largest value")
    items = f", {many['items_per_second']:.1f} items/s" if "items_per_second" in many else ""
    gain = f", {many['over_one_stream']:.2f} times one stream's" if "over_one_stream" in many else ""
    streams = f"{many['streams']} stream{'' if many['streams'] == 1 else 's'}"
    say(f"throughput  {many['runs_per_second']:.1f} runs/s{items} with {streams}{gain}")
    memory = figures["memory"]
    arenas = ", ".join(f"{nbytes(size)} on {placement}" for placement, size in memory["arena_bytes"].items())
    say(f"memory      arena {arenas or 'none'}; constants {nbytes(memory['constant_bytes'])}")
    if memory["resident_bytes"] is not None:
        grown = nbytes(memory["resident_bytes"] - memory["resident_at_start_bytes"])
        peak = "" if memory["peak_resident_bytes"] is None else f", at most {nbytes(memory['peak_resident_bytes'])}"
        say(f"process     {nbytes(memory['resident_bytes'])} resident, {grown} of it since the start{peak}")


def _latency_table(what: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    keys = ("min_seconds", *(f"p{p}_seconds" for p in PERCENTILES), "max_seconds")
    table(
        (what, "runs", "min ms", "p50 ms", "p90 ms", "p99 ms", "max ms"),
        [(name, int(row["runs"]), *(_latency(row[key]) for key in keys)) for name, row in rows],
    )


def _latency(seconds: float) -> str:
    """Return milliseconds; a model of a few layers runs in microseconds, which two decimals do not show."""
    return milliseconds(seconds) if seconds >= 1e-4 else f"{seconds * 1e3:.4f}"


def _shapes(shapes: Mapping[str, Sequence[int]]) -> str:
    return " ".join(f"{name}={'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes.items())
