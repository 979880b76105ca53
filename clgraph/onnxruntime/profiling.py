"""The trace that ``SessionOptions.enable_profiling`` asks for: a file of Chrome's trace events."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clgraph.core.warn import warn
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.onnxruntime.described import OrtEpAssignedSubgraph
from clgraph.onnxruntime.statuses import statuses


class Trace:
    """What a session has done, with times in microseconds from its begin."""

    def __init__(self, prefix: str) -> None:
        """Begin; the file's name is *prefix* and the time, in milliseconds."""
        seconds, rest = divmod(time.time_ns(), 10**9)
        begun = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(seconds))
        self._path = Path(f"{prefix}_{begun}_{rest // 10**6:03d}.json")
        self._begin = time.monotonic_ns()
        self._events: list[dict[str, Any]] = []

    def note(self, name: str, category: str, start: int) -> None:
        """Add what has been done since *start*, in nanoseconds of ``time.monotonic_ns``."""
        self._add(name, category, (start - self._begin) / 1e3, (time.monotonic_ns() - start) / 1e3)

    def profile(self, model: Model, feeds: Mapping[str, Any], graph: OrtEpAssignedSubgraph) -> None:
        """Run once more, with the clock on each step, and add their times.

        A step that computes several nodes of *graph* is listed as the first of them; those without a name are called as
        the front end does, by operator and number.
        """
        start = (time.monotonic_ns() - self._begin) / 1e3
        with statuses():
            commands = model.profile(feeds).commands
        numbered = list(enumerate(graph.nodes))
        known = {f"{node.op_type}_{number}": (number, node.op_type) for number, node in numbered if not node.name}
        known |= {node.name: (number, node.op_type) for number, node in numbered if node.name}
        for step in commands:
            number, operator = next((known[name] for name in step.origin if name in known), (-1, step.kind))
            details = {
                "op_name": operator,
                "provider": graph.ep_name,
                "node_index": str(number),
                "nodes": list(step.origin),
                "kernel": step.implementation,
                "device": step.placement,
            }
            self._add(f"{step.node}_kernel_time", "Node", start + step.start * 1e6, step.seconds * 1e6, details)

    def _add(self, name: str, category: str, start: float, length: float, details: Any = None) -> None:
        times = {"ts": round(start), "dur": round(length)}
        where = {"pid": os.getpid(), "tid": 0, "ph": "X"}
        self._events.append({"cat": category, **where, "name": name, **times, "args": details or {}})

    def write(self) -> str:
        """Write the file, an event a line, and return its name; warn where it cannot be written, as sessions end so."""
        events = ",\n".join(map(json.dumps, self._events))
        try:
            self._path.write_text(f"[\n{events}\n]\n", encoding="utf-8")
        except OSError as error:
            pass_on(error)
            warn(f"the profile cannot be written to {self._path}: {error}")
        return str(self._path)
