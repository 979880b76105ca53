"""What the commands that look inside show and write."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.model.memory_report import ArenaReport, BufferReport, memory_report
from clgraph.network.profile import NodeTime, Profile
from tests.support.models import image, small_model

Command = Callable[..., tuple[int, str, str]]

NULL = ("--device", "null")
ROOT = Path(__file__).resolve().parents[2]


def test_the_report_of_memory_has_every_arena_and_draws_every_buffer(
    clgraph_command: Command, model: Path, tmp_path: Path
) -> None:
    picture = tmp_path / "deep" / "arena.svg"
    status, out, _ = clgraph_command("compile", model, *NULL, "--report", "memory", "--picture", picture)
    assert status == 0
    assert out.splitlines()[0].split()[:2] == ["arena", "bytes"]
    assert "largest buffers" in out
    compiled = clgraph.compile(small_model(), "null")
    report = memory_report(compiled.program)
    titles = [
        t.text or "" for t in ElementTree.fromstring(picture.read_text()).iter("{http://www.w3.org/2000/svg}title")
    ]
    (arena,) = report.arenas
    assert sorted(t.partition(" (")[0] for t in titles) == sorted(b.name for b in arena.buffers)
    assert {"x", "y"} <= {name for b in arena.buffers for name in b.values}


def test_the_peak_is_where_the_most_bytes_are_alive() -> None:
    (arena,) = memory_report(clgraph.compile(small_model(33, 12), "null").program).arenas

    def alive(position: int) -> int:
        return sum(-(-b.nbytes // 64) * 64 for b in arena.buffers if b.first <= position <= b.last)

    assert alive(arena.peak) == arena.lower_bound
    assert arena.nbytes == max(b.offset + -(-b.nbytes // 64) * 64 for b in arena.buffers)
    assert arena.overhead == arena.nbytes / arena.lower_bound


def test_what_begins_and_what_ends_at_a_step_is_alive_there() -> None:
    lives = [("a", 100, 0, 2), ("b", 64, 1, 1), ("c", 500, 2, 3), ("d", 540, 3, 3)]
    buffers = tuple(BufferReport(n, "relu", size, 0, first, last, (n,)) for n, size, first, last in lives)
    assert ArenaReport("null", 1024, 1024, 1204, buffers).peak == 3
    assert ArenaReport("null", 1024, 1024, 664, buffers[:3]).peak == 2


def test_sources_are_complete_and_each_text_is_written_once(
    clgraph_command: Command, model: Path, tmp_path: Path
) -> None:
    status, out, _ = clgraph_command("compile", model, *NULL, "--dump-sources", tmp_path / "s", "--stop-after", "init")
    assert status == 0
    files = sorted((tmp_path / "s").glob("*.cl"))
    assert f"sources     {len(files)} files" in out
    assert len({f.read_text() for f in files}) == len(files) > 1
    for file in files:
        assert "__kernel" in file.read_text()
        assert "#include" not in file.read_text()


def test_what_cannot_be_written_is_one_message(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for option in (
        ("--dump-sources", tmp_path / "file"),
        ("--report", "memory", "--picture", tmp_path / "file" / "p.svg"),
    ):
        status, _, err = clgraph_command("compile", model, *NULL, *option)
        assert status == 1
        assert "cannot be written" in err
        assert "Traceback" not in err


@pytest.mark.opencl
def test_tensors_of_nodes_are_written_as_their_references_make_them(
    clgraph_command: Command, model: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", image((1, 3, 10, 10)))
    arguments = ["--device", "pocl", "--input", "x=x.npy", "--output-dir", "t", "--dump-tensors", "first,pool"]
    status, out, _ = clgraph_command("run", model, *arguments)
    assert status == 0
    assert "first:r0" in out
    relu, pooled = (np.load(tmp_path / "t" / name) for name in ("first_r0.npy", "pool_p0.npy"))
    windows = relu.reshape(1, 8, 5, 2, 5, 2)
    assert relu.min() == 0
    assert np.array_equal(pooled, windows.max((3, 5)))
    assert {f.name for f in (tmp_path / "t").iterdir()} == {"first_r0.npy", "pool_p0.npy", "y.npy"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dump-tensors", "first"], "needs a folder"),
        (["--dump-tensors", "nobody", "--output-dir", "t"], "no node is called 'nobody'"),
    ],
)
def test_wrong_wishes_for_tensors_are_messages(
    arguments: list[str], message: str, clgraph_command: Command, model: Path
) -> None:
    status, _, err = clgraph_command("run", model, "--device", "host", "--random-inputs", *arguments)
    assert status == 1
    assert message in err


def test_explain_tells_what_was_fused_what_was_not_and_where_results_lie(clgraph_command: Command, model: Path) -> None:
    _, out, _ = clgraph_command("explain", model, *NULL)
    assert "why not" in out
    _, out, _ = clgraph_command("explain", model, *NULL, "--json")
    report = json.loads(out)
    fusions = {(f["node"], f["outcome"], f["into"], f["done"]) for f in report["fusions"]}
    assert ("relu", "behind", "first", True) in fusions
    first = next(n for n in report["nodes"] if n["name"] == "first")
    for key in (
        "name",
        "origin",
        "annotation",
        "placement",
        "implementation",
        "estimate",
        "refusals",
        "inputs",
        "outputs",
    ):
        assert key in first
    assert first["fused"] == ["activation(function=relu)"]
    (buffer,) = (b for b in first["buffers"] if b["value"] == "r0")
    assert buffer["offset"] % 64 == 0
    assert buffer["nbytes"] >= 8 * 10 * 10 * 4
    assert buffer["placement"] == "null"


def test_explain_gives_the_reason_for_what_stays_alone(tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[4].input[1] = "c1"
    model.graph.node[5].input[0] = "c1"
    model.graph.node[5].output[0] = "other"
    model.graph.output[0].name = "s0"
    model.graph.output.add().CopyFrom(model.graph.output[0])
    model.graph.output[1].name = "other"
    report = clgraph.compile(model, "null").explain()
    refused = [f for f in report.fusions if not f.done]
    assert refused
    assert all(f.reason and f.outcome in ("not behind", "not in front of") for f in refused)
    assert any("is also read by" in f.reason or "read" in f.reason for f in refused)


@pytest.mark.opencl
def test_profile_sums_by_kind_and_against_the_roofline(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    status, out, _ = clgraph_command("profile", model, "--device", "pocl", "--trace", trace)
    assert status == 0
    kinds = [line.split()[0] for line in out.splitlines() if line.strip()]
    assert {"convolution", "pooling"} <= set(kinds)
    assert "% of roofline" in out
    estimates = {n.name: n.estimate for n in clgraph.compile(model, "pocl").explain().nodes}
    assert all(f"{estimates[name] * 1e6:.1f}" in out for name in ("first", "second"))
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {e["name"] for e in events} >= {"first", "pool", "second"}
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in events)
    profile = clgraph.compile(small_model(), "pocl").profile({"x": image((1, 3, 10, 10))})
    totals = profile.by_kind()
    assert sum(t.seconds for t in totals) == pytest.approx(profile.seconds)
    assert [t.seconds for t in totals] == sorted((t.seconds for t in totals), reverse=True)
    assert sum(t.count for t in totals) == len(profile.commands)


@pytest.mark.parametrize(
    ("micro", "estimate", "far"), [(400, 30, True), (3, 60, True), (19, 1, False), (250, 30, False), (9, 1e-3, False)]
)
def test_nodes_that_take_ten_times_what_was_estimated_are_marked(
    micro: float, estimate: float, far: bool, tmp_path: Path
) -> None:
    half = {"what": "copy_rows", "placement": "pocl:0", "nbytes": 0, "flops": 0.0, "estimate": estimate * 1e-6}
    commands = [NodeTime("n", ("n",), "slice", "slice.tiles", start=0.0, seconds=micro / 2e6, **half) for _ in "ab"]
    profile = Profile(tuple(commands), micro * 1e-6)
    assert profile.far_off() == ({"n": pytest.approx(micro / estimate)} if far else {})
    profile.save_trace(tmp_path / "trace.json")
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert [e["args"]["far_off"] for e in events] == [far, far]


@pytest.mark.opencl
def test_profile_says_what_its_mark_means(clgraph_command: Command, model: Path, monkeypatch) -> None:
    monkeypatch.setattr("clgraph.network.profile.is_far_off", lambda seconds, estimate: True)
    _, out, _ = clgraph_command("profile", model, "--device", "pocl")
    assert re.search(r"^first .* ! [\d.]+ ", out, re.MULTILINE)
    assert re.search(r"^! the estimate is 10 or more times off, .*first \([\d.e+-]+ times\)", out, re.MULTILINE)


@pytest.mark.opencl
def test_estimates_are_those_of_the_threads_that_are_asked_for() -> None:
    source = small_model(channels=64, size=96)
    every = clgraph.compile(source, "pocl")
    if every.device.workers == 1:
        pytest.skip("the machine has one core")
    one, all_ = (m.explain()["first"] for m in (clgraph.compile(source, "pocl", threads=1), every))
    assert one.implementation == all_.implementation
    assert one.estimate is not None
    assert all_.estimate is not None
    assert one.estimate > 1.3 * all_.estimate
    assert one.chosen_by == all_.chosen_by == all_.estimate
    assert one.slower == all_.slower
    assert re.search(r"chosen .* estimate [\d.]+ us, with all workers [\d.]+ us\)", str(one))


@pytest.mark.opencl
def test_profile_shows_what_goes_from_one_device_to_another(clgraph_command: Command, model: Path) -> None:
    status, out, _ = clgraph_command("profile", model, "--device", "pocl:0", "--placement", "pool=host")
    assert status == 0
    # 8 channels of 10 x 10 floats go to the host, of 5 x 5 come back.
    assert re.search(r"^pool/transfer +pocl:0 to host +3\.1 KiB +[\d.]+$", out, re.MULTILINE)
    assert re.search(r"^second/transfer +host to pocl:0 +800 B +[\d.]+$", out, re.MULTILINE)
    assert re.search(r"^pool/transfer +transfer +pocl:0 to host ", out, re.MULTILINE)
    assert re.search(r"^x +copied$", out, re.MULTILINE)


@pytest.mark.opencl
@pytest.mark.parametrize("command", ["profile", "explain"])
def test_what_is_submitted_as_one_has_a_column_where_a_model_is_on_several_devices(
    command: str, clgraph_command: Command, model: Path
) -> None:
    status, out, _ = clgraph_command(command, model, "--device", "pocl:0", "--placement", "pool=host")
    assert status == 0
    assert "subgraph" in out.splitlines()[0].split()
    assert re.search(r"^pool\b.* 1@host ", out, re.MULTILINE)
    assert "2@pocl:0" in out
    _, out, _ = clgraph_command(command, model, "--device", "pocl:0")
    assert "subgraph" not in out.splitlines()[0].split()


def test_v_shows_the_passes_and_vv_the_choices(clgraph_command: Command, model: Path) -> None:
    shown = {}
    for flags in (("-vv",), ("-v",), ()):
        status, _, shown[flags] = clgraph_command(*flags, "compile", model, *NULL)
        assert status == 0
    assert shown[()] == ""
    assert re.search(r"pass \d\d of \d\d prepare_primitive_fusing: ", shown["-v",])
    assert "first on null" not in shown["-v",]
    assert "first on null: convolution." in shown["-vv",]


@pytest.mark.parametrize("command", ["compile", "explain"])
def test_a_dry_run_needs_no_device(command: str, clgraph_command: Command, model: Path) -> None:
    assert clgraph_command(command, model, *NULL)[0] == 0


@pytest.mark.parametrize("command", ["run", "profile", "compare"])
def test_what_must_run_says_that_a_dry_run_does_not(command: str, clgraph_command: Command, model: Path) -> None:
    status, _, err = clgraph_command(command, model, *NULL, "--random-inputs" if command == "run" else "--seed=1")
    assert status == 1
    assert "runs nothing" in err
