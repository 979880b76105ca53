from __future__ import annotations

import json
from pathlib import Path

import pytest

import clgraph
from clgraph.runtime.device import find_device
from clgraph.tuner import tune

pytestmark = pytest.mark.opencl


@pytest.fixture
def quick(monkeypatch):
    """Let every candidate take as long."""
    original = tune.Bench

    def clock(network, feeds):
        return {n.name: 1e-4 for n in network.program}

    monkeypatch.setattr(tune, "Bench", lambda context, network: original(context, network, clock))


def test_tune_measures_a_model_and_later_commands_use_it(
    clgraph_command, model: Path, tmp_path: Path, quick, monkeypatch
):
    file = tmp_path / "tuning.json"
    status, out, err = clgraph_command("tune", model, "--device", "pocl", "--file", file, "--report")
    assert (status, err) == (0, "")
    assert "estimates fitted: a factor of" in out
    assert f"kept in {file}" in out
    assert "0 wrong or failed" in out
    kept = json.loads(file.read_text())
    assert kept["class"] == kept["costs"]["name"] == find_device("pocl").info.costs.name
    monkeypatch.setenv("CLGRAPH_TUNING", str(file))
    status, out, _ = clgraph_command("explain", model, "--device", "pocl")
    assert status == 0
    assert "tuned" in out
    assert "(fitted)" in out


def test_tune_without_time_measures_nothing_and_writes_nothing(clgraph_command, model: Path, tmp_path: Path):
    file = tmp_path / "tuning.json"
    status, out, _ = clgraph_command("tune", model, "--device", "pocl", "--file", file, "--seconds", "0")
    assert (status, out) == (0, "nothing was measured\n")
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_one_error(clgraph_command, model: Path, tmp_path: Path, quick):
    (tmp_path / "file").write_text("")
    status, _, err = clgraph_command("tune", model, "--device", "pocl", "--file", tmp_path / "file" / "t.json")
    assert status == 1
    assert err.startswith("error: the tuning cannot be written")


def test_explain_shows_the_measurement_beside_the_estimate(clgraph_command, model: Path):
    status, out, _ = clgraph_command("explain", model, "--device", "pocl", "--measure")
    header = out.splitlines()[0].split()
    assert status == 0
    assert header[-3:] == ["estimate", "measured", "because"]
    status, out, _ = clgraph_command("explain", model, "--device", "pocl", "--measure", "--json")
    nodes = json.loads(out)["nodes"]
    assert all(n["measured"] > 0 for n in nodes if n["implementation"] != "in_place")
    compiled = clgraph.compile(model, "pocl")
    assert compiled.explain().nodes[0].measured is None
    assert compiled.explain().notes["costs"].startswith("estimated by ")
