"""Streams by measurement: what is measured, kept, and chosen by later compilations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import clgraph
from clgraph import Batching
from clgraph.compilation.stream_choices import choice_path
from clgraph.engines.opening import options_of
from clgraph.errors import ClosedError, InputError
from clgraph.throughput import load
from clgraph.throughput.load import Load, closed_loop, open_loop
from clgraph.tuner import streams
from tests.support.models import image, small_model

HERE: dict[str, Any] = {"device": "host", "config": {"tuning": "auto"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(small_model(), tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def measured(rates: dict[tuple[int, int], float]) -> Any:
    """Return what takes the place of a measurement: the load by streams and entries of a batch."""

    def closed(run: Any, feeds: Any, clients: int, seconds: float) -> Load:
        run(feeds[0])
        model = run.__self__
        return Load(rates[len(model.streams), model._work.batching.most], 0.002, 0.004, 0.001)

    return closed


def test_the_best_is_kept_and_chosen_later(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "default_streams", lambda *_: 3)
    rates = {(1, 1): 10.0, (2, 1): 30.0, (3, 1): 20.0, (1, 4): 5.0, (2, 4): 40.0, (3, 4): 6.0}
    rates |= {(n, 16): 7.0 + n for n in (1, 2, 3)}
    monkeypatch.setattr(streams, "closed_loop", measured(rates))
    feeds = [{"x": image((1, 3, 10, 10))}]
    report = clgraph.tune_streams(path, feeds, cache_dir=tmp_path, batching=Batching(wait_ms=0), seconds=0.01, **HERE)
    assert (report.best.streams, report.best.maximum, len(report.rows)) == (2, 4, 9)
    assert "40.0" in str(report)
    assert json.loads(Path(report.kept).read_text(encoding="utf-8"))["streams"] == 2
    with clgraph.compile(path, hint="throughput", cache_dir=tmp_path, batching=Batching(), **HERE) as model:
        assert len(model.streams) == 2
        assert "measured: 40.0 requests a second, 10.0 with one stream" in str(model.throughput)
        assert "at most 4 entries" in model.throughput.batching
    with clgraph.compile(path, hint="throughput", streams=1, cache_dir=tmp_path, **HERE) as model:
        assert "as asked for" in model.throughput.chosen
    with clgraph.compile(path, device="host", hint="throughput", cache_dir=tmp_path, config={"tuning": "off"}) as model:
        assert "nothing was measured" in model.throughput.chosen


def test_images_precision_and_weights_have_choices_of_their_own(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "default_streams", lambda *_: 2)
    images = clgraph.Preprocess(size=(10, 10))
    tensor, picture = {"x": image((1, 3, 10, 10))}, {"x": np.zeros((12, 14, 3), np.uint8)}
    ways: list[tuple[dict[str, Any], Any, int]] = [
        ({}, tensor, 2),
        ({"preprocess": images}, picture, 1),
        ({"precision": "bf16"}, tensor, 1),
        ({"weights": "int8"}, tensor, 1),
    ]
    for options, feed, best in ways:
        rates = {(n, 1): float(10 * n if best == 2 else 10 / n) for n in (1, 2)}
        monkeypatch.setattr(streams, "closed_loop", measured(rates))
        report = clgraph.tune_streams(path, [feed], cache_dir=tmp_path, seconds=0.01, **HERE, **options)
        assert report.best.streams == best
    ways.append(({"preprocess": {"x": images}, "precision": "bf16"}, picture, 0))
    for options, _, best in ways:
        with clgraph.compile(path, hint="throughput", cache_dir=tmp_path, **HERE, **options) as model:
            assert ("requests a second" in model.throughput.chosen) == (best > 0), options
            assert len(model.streams) == best or not best
    # The command line gives the precision in the configuration, a server as an argument.
    kept = choice_path(path, options_of("host", None, tmp_path, {"tuning": "auto", "precision": "bf16"}))
    assert kept is not None
    assert kept.exists()


def test_another_model_and_a_damaged_file_are_not_answered(path: Path, tmp_path: Path) -> None:
    options = options_of("host", None, tmp_path, {"tuning": "auto"})
    other = choice_path(small_model(channels=4).SerializeToString(), options)
    kept = choice_path(path, options)
    assert kept is not None
    assert kept != other
    assert choice_path(path.read_bytes(), options) == kept
    assert choice_path(small_model(), options) is None
    for text in ("", "{}", '{"streams": 0, "maximum": 1, "rate": 1, "beside": 1}', "[]"):
        kept.parent.mkdir(exist_ok=True, mode=0o700)
        kept.write_text(text, encoding="utf-8")
        with clgraph.compile(path, hint="throughput", cache_dir=tmp_path, **HERE) as model:
            assert "nothing was measured" in model.throughput.chosen


def test_requests_are_needed(path: Path) -> None:
    with pytest.raises(InputError, match="feeds"):
        clgraph.tune_streams(path, [], **HERE)


def test_a_closed_loop_counts_and_an_open_one_counts_from_when_a_request_was_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feeds = [{"x": np.zeros(1)}]
    found = closed_loop(lambda _: load.time.sleep(0.002), feeds, 2, 0.05)
    assert 0.002 <= found.p50 <= found.p99
    assert 0 < found.requests_per_second <= 2 / 0.002
    # One client that needs 10 ms for each of about 20 requests that come within 20 ms.
    late = open_loop(lambda _: load.time.sleep(0.01), feeds, 1000, 0.02, most=1)
    assert late.p99 > 0.05


def test_what_a_client_raises_is_raised() -> None:
    def closed(_: Any) -> None:
        raise ClosedError("over")

    with pytest.raises(ClosedError, match="over"):
        closed_loop(closed, [{}], 2, 0.01)
