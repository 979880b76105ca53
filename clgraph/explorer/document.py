"""The data behind the explorer's page: histories, decisions, memory, times and kernel texts, as plain values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.version import __version__
from clgraph.explorer.history import History, changed
from clgraph.model.explanation import Explanation
from clgraph.model.reports import NodeReport
from clgraph.network.profile import Profile
from clgraph.selector.query import DeviceInfo


@frozen
class ModelView:
    """What is shown of one model.

    Attributes:
        sources: Kernel text by the name of a step.
    """

    name: str
    device: DeviceInfo
    histories: tuple[History, ...]
    explanation: Explanation | None
    profile: Profile | None
    sources: Mapping[str, str]


def document(views: Sequence[ModelView], opens: str = "pass") -> dict[str, Any]:
    """Return the page's data: one *graph* a history of each view, what nodes were like written once.

    Args:
        opens: The panel that is seen first: ``pass``, ``node``, ``memory``, ``time`` or ``roofline``.
    """
    graphs = [_graph(view, history) for view in views for history in view.histories]
    title = " and ".join(view.name for view in views)
    return {"clgraph": __version__, "title": title, "opens": opens, "graphs": graphs}


def _graph(view: ModelView, history: History) -> dict[str, Any]:
    names = history.names
    states: dict[str, int] = {}
    before: list[int | None] = [None] * len(names)
    steps = []
    for step in history.steps:
        found = {n["name"]: states.setdefault(json.dumps(_state(n)), len(states)) for n in step.outline["nodes"]}
        now = [found.get(name) for name in names]
        steps.append(
            {
                "number": step.number,
                "name": step.name,
                "seconds": step.seconds,
                "count": step.changes,
                "notes": step.notes,
                "changes": changed(before, now),
            }
        )
        before = now
    last = history.steps[-1].outline
    known = set(names)
    reports = [] if view.explanation is None else [n for n in view.explanation.nodes if n.name in known]
    refusals = list(dict.fromkeys(json.dumps(dict(n.refusals)) for n in reports))
    return {
        "model": view.name,
        "label": history.label,
        "device": _device(view.device),
        "names": names,
        "states": [json.loads(text) for text in states],
        "steps": steps,
        "inputs": [_value(v) for v in last["inputs"]],
        "constants": {v["name"]: _layout(v) for step in history.steps for v in step.outline["constants"]},
        "outputs": [(o["name"], o["value"]) for o in last["outputs"]],
        "reports": {n.name: _report(n) | {"refusals": refusals.index(json.dumps(dict(n.refusals)))} for n in reports},
        "refusals": [json.loads(text) for text in refusals],
        "memory": _memory(last),
        "profile": None if view.profile is None else _times(view.profile, known, view.device),
        "sources": view.sources,
    }


def _state(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a node is like after a pass, without what is empty."""
    found = {
        "kind": node["kind"],
        "primitive": node["primitive"],
        "inputs": node["inputs"],
        "outputs": [_value(v) for v in node["outputs"]],
        "fused": node["fused"],
        "origin": node["origin"],
        "annotation": node["annotation"],
        "placement": node["placement"],
        "kernel": node["implementation"],
    }
    return {key: value for key, value in found.items() if value}


def _value(value: Mapping[str, Any]) -> list[Any]:
    """Return name, layout, bytes, and where memory is planned, the place in the arena."""
    return [value["name"], _layout(value), value["nbytes"], value.get("arena_offset")]


def _layout(value: Mapping[str, Any]) -> str:
    halo = ",".join(f"{before}.{after}" for before, after in value["halo"]) if any(map(any, value["halo"])) else ""
    text = f"{value['dtype']}:{value['format']}:{'x'.join(map(str, value['shape']))}"
    return f"{text}+{halo}" if halo else text


def _memory(outline: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arenas of a program with their buffers, each of the kind of operator that makes its first value."""
    if not outline["arenas"]:
        return None
    makers = {v["name"]: node["kind"] for node in outline["nodes"] for v in node["outputs"]}

    def kind(values: Sequence[str]) -> str:
        return makers.get(values[0], "input") if values else "scratch"

    return {
        "constants": sum(v["nbytes"] for v in outline["constants"]),
        "nodes": [node["name"] for node in outline["nodes"]],
        "arenas": [
            arena | {"placement": name, "buffers": [b | {"kind": kind(b["values"])} for b in arena["buffers"]]}
            for name, arena in outline["arenas"].items()
        ],
    }


def _report(report: NodeReport) -> dict[str, Any]:
    """Return why a node runs as it does, without what is not known."""
    found = {
        "because": report.because,
        "estimate": _finite(report.estimate),
        "slower": {name: seconds for name, seconds in report.slower.items() if math.isfinite(seconds)},
        "steps": report.steps,
    }
    return {key: value for key, value in found.items() if value}


def _finite(seconds: float | None) -> float | None:
    """Return *seconds*, or nothing for what no estimate is made of: JSON has no infinity."""
    return seconds if seconds is not None and math.isfinite(seconds) else None


def _times(profile: Profile, known: set[str], device: DeviceInfo) -> dict[str, Any]:
    commands = [
        {
            "node": c.node,
            "kind": c.kind,
            "kernel": c.what,
            "device": c.placement,
            "start": c.start,
            "seconds": c.seconds,
            "nbytes": c.nbytes,
            "flops": c.flops,
            "tickets": c.tickets,
            "idle": c.idle,
            "roofline": c.roofline(device) if c.placement == device.name else 0.0,
        }
        for c in profile.commands
        if c.node in known
    ]
    return {"total": profile.total, "commands": commands}


def _device(device: DeviceInfo) -> dict[str, Any]:
    return {
        "name": device.name,
        "kind": device.kind,
        "workers": device.workers,
        "flops": device.flops,
        "bytes_per_second": device.bytes_per_second,
    }
