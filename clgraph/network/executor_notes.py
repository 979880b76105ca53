"""What a program's note ``executor`` says: how its kernels are launched, and why not otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from clgraph.errors import DeviceError
from clgraph.graph.program import Program
from clgraph.network.bound_subgraph import BoundSubgraph
from clgraph.network.buffer_table import BufferTable
from clgraph.network.commands import Segment
from clgraph.network.joining import Joining
from clgraph.runtime.engine import Engine
from clgraph.runtime.stream import Step


def note_tiles(
    program: Program, placements: Mapping[str, BufferTable], parts: Sequence[BoundSubgraph], joining: Joining
) -> None:
    """Say how the tile functions of *parts* are run, and whether kernels run in the calling thread."""
    lines = []
    for placement, places in placements.items():
        own = [part for part in parts if part.subgraph.placement == placement]
        segments = [c.work for part in own for c in part.launches if isinstance(c.work, Segment)]
        steps = sum([segment.count for segment in segments])
        if steps:
            why = joining.reasons.get(placement)
            because = f"; not joined: {why}" if why else ""
            lines.append(f"{placement}: {steps} tile steps in {len(segments)} launches{because}")
        if places.engine.is_alone:
            lines.append(f"{placement}: in the calling thread, sooner than others are woken")
    if lines:
        program.notes["executor"] = "\n".join(lines)


def recording(program: Program, engines: Mapping[str, Engine], places: Mapping[str, BufferTable]) -> set[str]:
    """Return the placements whose launches are recorded; notes why others' are not.

    Raises:
        DeviceError: Those of none are.
    """
    reasons = {
        p: "its kernels use the caller's arrays" if places[p].borrowed else e.stream.records for p, e in engines.items()
    }
    for placement, why in reasons.items():
        if why is not None:
            add_note(program, f"{placement}: launches not recorded: {why}")
    if reasons and all(reasons.values()):
        listed = "; ".join(f"{placement}: {why}" for placement, why in reasons.items())
        raise DeviceError(f"command_buffers: no device in use records launches: {listed}")
    return {p for p, why in reasons.items() if why is None}


def submissions(program: Program, parts: Sequence[BoundSubgraph], recorded: Container[str]) -> list[Step]:
    """Return the steps of a run, one a subgraph; launches are recorded on the placements of *recorded*."""
    recordings = Counter[str]()
    for bound in parts:
        placement = bound.subgraph.placement
        recordings[placement] += bound.prepare(alone=len(parts) == 1, recorded=placement in recorded)
    for placement, count in recordings.items():
        if count:
            add_note(program, f"{placement}: launches recorded in {count} command buffers")
    return [bound.submit for bound in parts]


def add_note(program: Program, line: str) -> None:
    """Add a line to the note, unless it is there."""
    notes = program.notes
    notes["executor"] = "\n".join(dict.fromkeys([*notes.get("executor", "").splitlines(), line]))
