"""What ``tools/bench --set throughput`` makes of its measurements."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from tests.support.zoo import TINY, ZOO
from tests.support.zoo_text import tokens
from tools.benchmark import throughput
from tools.benchmark.found import Found
from tools.benchmark.measuring import Schedule
from tools.benchmark.peers import Options
from tools.benchmark.throughput import SETTINGS, ThroughputFigures, measure_throughput, throughput_markdown


def row(rate: float) -> dict[str, float]:
    return {"requests_per_second": rate, "p50": 0.01, "p99": 0.02, "cpu_seconds": 0.005}


def figures(mine: float) -> ThroughputFigures:
    closed = {"clgraph": {"2 streams": row(mine), "1 stream": row(1.0)}, "onnxruntime": {"1 thread": row(100.0)}}
    return ThroughputFigures("model", 2, 8, closed, {"clgraph": ("2 streams", row(70.0))}, 70.0)


def test_the_best_settings_are_compared_and_a_missed_goal_is_bold() -> None:
    assert figures(140.0).best("clgraph") == "2 streams"
    assert figures(140.0).ratio("onnxruntime") == pytest.approx(1.4)
    assert "| 140.0 | 10.0 | 20.0 | 5.00 | 1.40 |" in throughput_markdown([figures(140.0)])
    assert "**1.20** (≥ 1.3)" in throughput_markdown([figures(120.0)])


def test_figures_survive_a_file() -> None:
    found = Found(throughput=[figures(140.0)])
    again = Found.from_data(json.loads(json.dumps(found.to_data())))
    assert throughput_markdown(again.throughput) == throughput_markdown(found.throughput)
    assert "## Throughput" in again.sections()[0]


def test_every_setting_is_measured_on_the_same_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ZOO["small_encoder_open"].make()[0]
    feeds = [tokens(1, n, TINY.vocabulary) for n in (3, 7)]
    monkeypatch.setattr(throughput, "THROUGHPUT", {"tiny": lambda: (model, feeds)})
    monkeypatch.setattr(throughput, "SHARE", 0.01)  # the host takes a hundred times as long
    ours, theirs = SETTINGS["clgraph"], SETTINGS["onnxruntime"]
    first = {"clgraph": lambda *a: [next(iter(ours(*a)))], "onnxruntime": lambda *a: list(theirs(*a))}
    monkeypatch.setattr(throughput, "SETTINGS", first)
    found = measure_throughput("tiny", ["onnxruntime"], Options("host", 1), Schedule(rounds=1, seconds=0.01))
    assert len(found.closed["onnxruntime"]) == 3
    assert found.open.keys() == {"clgraph", "onnxruntime"}
    assert all(load["p50"] <= load["p99"] for settings in found.closed.values() for load in settings.values())
    with ExitStack() as stack:
        told = [setting for setting, _ in ours(model, feeds, Options("host", 1), stack)]
    assert len(told) == 3
