from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clgraph.cli import bench_report, measuring
from clgraph.cli.bench_figures import largest_difference
from clgraph.cli.measuring import Budget, Latencies, at_once, interleaved
from clgraph.cli.output import json_value
from clgraph.errors import DeviceError
from tests.support.models import image

Command = Callable[..., tuple[int, str, str]]


def _silent(done: float) -> None:
    pass


def test_percentiles_are_of_all_runs_or_of_those_with_one_set_of_inputs() -> None:
    latencies = Latencies((1.0, 10.0, 2.0, 20.0, 3.0, 30.0), (0, 1, 0, 1, 0, 1))
    assert latencies.percentile(50, 0) == 2
    assert latencies.percentile(100, 1) == 30
    assert latencies.percentile(50) == 6.5
    assert latencies.mean == 11


def test_runs_of_microseconds_are_shown_with_their_digits(capsys: pytest.CaptureFixture[str]) -> None:
    row = dict.fromkeys(("min_seconds", "p50_seconds", "p90_seconds", "p99_seconds"), 2.824e-6)
    bench_report._latency_table("latency", [("clgraph", row | {"max_seconds": 0.03127, "runs": 27897})])
    assert capsys.readouterr().out.splitlines()[-1].split() == ["clgraph", "27897", *["0.0028"] * 4, "31.27"]


@pytest.mark.parametrize("iterations", [1, 7, 10, 25])
def test_every_runtime_has_its_runs_in_turn_and_cycles_through_the_inputs(
    iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    pauses: list[float] = []
    monkeypatch.setattr(measuring.time, "sleep", pauses.append)
    runs = [lambda i: calls.append(("a", i)), lambda i: calls.append(("b", i))]
    (a, b), blocks = interleaved(runs, 3, Budget(0, iterations), _silent)
    assert len(a.seconds) == len(b.seconds) == iterations
    assert a.inputs == tuple(i % 3 for i in range(iterations))
    assert len(blocks[0]) == len(blocks[1]) == min(10, iterations)
    assert max(blocks[0]) <= max(a.seconds)
    order = "".join(name for name, _ in calls)
    # Each block has a run before it that does not count; every second round begins with the other runtime.
    assert order.startswith("aabb" + "bbaa" if 10 >= iterations > 1 else "aa")
    assert order.count("a") == iterations + len(blocks[0])
    assert pauses == [0.05] * len([*blocks[0], *blocks[1]])


def test_seconds_bound_the_measurement_but_one_run_a_block_there_is() -> None:
    ((latencies,), _) = interleaved([lambda i: None], 1, Budget(0.02), _silent)
    assert sum(latencies.seconds) >= 0.02
    ((latencies,), blocks) = interleaved([lambda i: None], 1, Budget(1e-9), _silent)
    assert len(latencies.seconds) == len(blocks[0]) == 10


def test_streams_share_the_runs_and_a_failure_comes_out() -> None:
    counts = [0, 0, 0]

    def runner(which: int) -> Callable[[int], object]:
        def run(i: int) -> None:
            counts[which] += 1

        return run

    latencies, rate = at_once([runner(k) for k in range(3)], 2, Budget(0, 12), _silent)
    assert counts == [4, 4, 4]
    assert len(latencies.seconds) == 12
    assert rate > 0

    def fail(i: int) -> None:
        raise DeviceError("lost")

    with pytest.raises(DeviceError, match="lost"):
        at_once([runner(0), fail], 1, Budget(0.01), _silent)


def test_bench_shows_start_latency_throughput_and_memory(clgraph_command: Command, model: Path) -> None:
    status, out, err = clgraph_command("bench", model, "--device", "host", "--iterations", 12)
    assert (status, err) == (0, "")
    row = next(line for line in out.splitlines() if line.startswith("clgraph "))
    assert row.split()[1] == "12"
    least, *percentiles, most = map(float, row.split()[2:])
    assert 0 <= least <= percentiles[0] <= percentiles[1] <= percentiles[2] <= most
    for word in ("start", "throughput", "memory"):
        assert f"\n{word} " in out


def test_figures_as_json_hold_every_set_of_shapes(clgraph_command: Command, open_model: Path, tmp_path: Path) -> None:
    shapes = ("--shape", "x=1x3x8x8", "--shape", "x=1,3,6,6")
    arguments = ("bench", open_model, "--device", "host", *shapes, "--iterations", 5)
    status, out, err = clgraph_command(*arguments, "--json", "-")
    assert (status, err) == (0, "")
    figures = json.loads(out)
    assert [i["shapes"] for i in figures["inputs"]] == [{"x": [1, 3, 8, 8]}, {"x": [1, 3, 6, 6]}]
    assert [i["latency"]["runs"] for i in figures["inputs"]] == [3, 2]
    assert figures["latency"]["runs"] == 5
    assert figures["start"]["read_seconds"] > 0
    assert figures["inputs"][0]["first_seconds"] > 0
    assert figures["throughput"]["runs_per_second"] == pytest.approx(1 / figures["latency"]["mean_seconds"])
    assert set(figures["memory"]) == {
        "resident_at_start_bytes",
        "resident_bytes",
        "peak_resident_bytes",
        "arena_bytes",
        "constant_bytes",
    }
    status, out, _ = clgraph_command(*arguments, "--json", "figures.json")
    assert "x=1x3x6x6" in out
    assert json.loads((tmp_path / "figures.json").read_text()).keys() == figures.keys()


def test_a_batch_is_the_first_size_of_the_input(clgraph_command: Command, open_model: Path) -> None:
    arguments = ("--device", "host", "--iterations", 2, "--json", "-")
    status, _, err = clgraph_command("bench", open_model, "--shape", "x=1,3,8,8", "--batch", 4, *arguments)
    assert status == 1
    assert "does not fit" in err
    status, out, _ = clgraph_command("bench", open_model, "--shape", "x=1,3,8,8", "--batch", 1, *arguments)
    assert status == 0
    throughput = json.loads(out)["throughput"]
    assert throughput["items_per_second"] == throughput["runs_per_second"]


@pytest.mark.opencl
def test_bench_runs_streams_and_compares(clgraph_command: Command, model: Path, device: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    np.save(tmp_path / "x.npy", image((1, 3, 10, 10)))
    arguments = ["--iterations", 12, "--streams", 2, "--compare", "onnxruntime", "--input", "x.npy", "--device", device]
    status, out, _ = clgraph_command("bench", model, *arguments, "--json", "-")
    assert status == 0
    figures = json.loads(out)
    assert figures["device"] == device
    assert figures["throughput"]["streams"] == 2
    assert figures["throughput"]["latency"]["runs"] == 12
    theirs = figures["onnxruntime"]
    assert theirs["least_ratio"] <= theirs["ratio"] <= theirs["largest_ratio"]
    assert theirs["latency"]["runs"] == 12
    # Two 3x3 convolutions of 3 and 8 channels: sums of 27 and 72 products, each with some float32 ulps.
    assert theirs["largest_difference"] < 100 * 6e-8
    assert figures["memory"]["arena_bytes"][device] > 0


def test_results_that_are_no_numbers_are_no_equal_ones() -> None:
    numbers, none = np.float32([1, 2]), np.float32([1, np.nan])
    assert largest_difference({"a": numbers, "y": none}, {"a": numbers, "y": numbers}) == np.inf
    assert largest_difference({"y": none}, {"y": none}) == 0
    assert largest_difference({"y": np.float32([1, 3])}, {"y": numbers}) == 0.5
    assert largest_difference({"y": np.array(["a"])}, {"y": np.array(["b"])}) == 0
    assert json_value({"far": [np.inf, 0.5]}) == {"far": [None, 0.5]}


def test_bench_takes_a_saved_model_but_not_to_compare(clgraph_command: Command, model: Path) -> None:
    clgraph_command("compile", model, "--device", "host", "-o", "small.clg")
    status, out, _ = clgraph_command("bench", "small.clg", "--device", "host", "--iterations", 2)
    assert status == 0
    assert "throughput" in out
    status, _, err = clgraph_command("bench", "small.clg", "--device", "host", "--compare", "onnxruntime")
    assert (status, err) == (1, "error: onnxruntime does not read small.clg: give the ONNX file it was made of\n")
