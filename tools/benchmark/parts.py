"""Parts of a long measurement: each a process of its own, within a time limit, with what it prints kept as it comes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from clgraph.cli.output import say

_ROOT = Path(__file__).resolve().parents[2]
_LEAST_SECONDS = 20.0
"""What is left of a limit, and too little to begin a part in."""


@dataclass(frozen=True)
class Part:
    """A command, in the folder of the repository.

    Attributes:
        variables: What it wants in the environment.
        seconds: How long it may take by itself; none for no limit.
        resumes: Whether it goes on where it was cut off; else it is over then.
    """

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    resumes: bool = False


def run_parts(parts: Sequence[Part], folder: Path, key: str, seconds: float | None) -> tuple[list[str], list[str]]:
    """Run those of *parts* that an earlier call with this *key* has not ended; return which failed, and which are left.

    What a part prints is shown, and written to ``<key>-<part>.log`` in *folder*, line by line. A part that fails or
    takes too long stops no other. When all are over, the next call begins anew.

    Args:
        seconds: Of all parts together; none for no limit.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes, end = folder / f"{key}-parts.json", None if seconds is None else time.monotonic() + seconds
    over: dict[str, str] = json.loads(notes.read_text(encoding="utf-8")) if notes.is_file() else {}
    for part in parts:
        if part.name in over:
            say(f"{part.name}: {over[part.name]}, by an earlier call")
            continue
        rest = None if end is None else end - time.monotonic()
        if rest is not None and rest < min(_LEAST_SECONDS, (seconds or 0.0) / 2):
            break
        limit = min((s for s in (rest, part.seconds) if s is not None), default=None)
        start = time.monotonic()
        status = _run(part, folder / f"{key}-{part.name}.log", limit)
        took = f"{time.monotonic() - start:.0f} s"
        cut = limit is not None and time.monotonic() - start >= limit
        if cut and part.resumes:
            say(f"\n{part.name}: cut off after {took}; the same command goes on")
            continue
        over[part.name] = f"cut off after {took}" if cut else f"{'failed' if status else 'done'}, {took}"
        say(f"\n{part.name}: {over[part.name]}")
        notes.write_text(json.dumps(over, indent=1) + "\n", encoding="utf-8")
    left = [p.name for p in parts if p.name not in over]
    failed = [p.name for p in parts if not over.get(p.name, "done").startswith("done")]
    if not left:
        notes.unlink(missing_ok=True)
    return failed, left


def _run(part: Part, log: Path, limit: float | None) -> int:
    """Run the command of *part* and what it starts, at most *limit* seconds; return its status."""
    said = " ".join([*(f"{k}={v}" for k, v in part.variables.items()), *part.command[1:]])
    say(f"\n## {part.name}: {said}\n")
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            part.command,
            cwd=_ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **part.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        clock = Timer(limit, _end, [process]) if limit is not None else None
        if clock is not None:
            clock.start()
        try:
            for line in process.stdout:
                say(line.rstrip("\n"))
                file.write(line)
                file.flush()
            return process.wait()
        finally:
            if clock is not None:
                clock.cancel()
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End *process* and all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
