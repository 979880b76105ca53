"""Reports and files that commands make of a compiled model."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from clgraph.cli.output import nbytes, say, say_json, table
from clgraph.core.frozen import frozen
from clgraph.errors import OptionError
from clgraph.model.memory_report import memory_report
from clgraph.model.model import Model
from clgraph.network.node_steps import texts
from clgraph.selector.query import DeviceInfo

LARGEST = 12
"""Buffers that the report of memory shows."""


def report_memory(model: Model, picture: Path, *, as_json: bool = False) -> None:
    """Print the arenas and the largest buffers of *model*, and draw the arenas over time into *picture* (SVG).

    Raises:
        OptionError: The file cannot be written.
    """
    report = memory_report(model.program)
    _write(picture, report.to_svg())
    if as_json:
        say_json(report)
        return
    table(
        ("arena", "bytes", "at least", "ratio", "without sharing", "buffers", "peak at"),
        [
            (
                a.placement,
                nbytes(a.nbytes),
                nbytes(a.lower_bound),
                f"{a.overhead:.3f}",
                nbytes(a.unshared),
                len(a.buffers),
                _node(report.nodes, a.peak),
            )
            for a in report.arenas
        ],
    )
    say()
    largest = sorted((b for a in report.arenas for b in a.buffers), key=lambda b: -b.nbytes)[:LARGEST]
    table(
        ("largest buffers", "of", "bytes", "offset", "from", "to", "values"),
        [
            (
                b.name,
                b.kind,
                b.nbytes,
                b.offset,
                _node(report.nodes, b.first),
                _node(report.nodes, b.last),
                len(b.values),
            )
            for b in largest
        ],
    )
    say(f"constants   {nbytes(report.constants)}")
    if report.results:
        say(f"results     {nbytes(report.results)}, kept for later runs as the caller drops them")
    say(f"picture     {picture}")


def dump_sources(model: Model, folder: Path) -> list[Path]:
    """Write every kernel text of *model*, complete with its ``#define`` lines, into *folder*; return the files.

    Raises:
        OptionError: The folder cannot be written.
    """
    written = []
    for (_, text), (what, library) in texts(model.program, {model.device.name: _Named(model.device)}).items():
        stem = re.sub(r"[^\w.-]+", "_", what.partition(" of ")[0] if not library else what)
        path = folder / f"{stem}_{hashlib.sha256(text.encode()).hexdigest()[:8]}.cl"
        _write(path, f"// {what}\n{text}")
        written.append(path)
    return written


@frozen
class _Named:
    """A device that is not open, as far as the names of its kernel texts go."""

    info: DeviceInfo


def _node(nodes: tuple[str, ...], position: int) -> str:
    if position < 0:
        return "input"
    return nodes[position] if position < len(nodes) else "output"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be written: {error.strerror or error}") from error
