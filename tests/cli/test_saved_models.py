from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.support.models import small_model

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def saved(clgraph_command: Command, model: Path, tmp_path: Path) -> Path:
    status, out, _ = clgraph_command("compile", model, "--device", "host", "-o", "small.clg")
    assert status == 0
    assert "saved       small.clg, " in out
    return tmp_path / "small.clg"


def test_commands_take_a_saved_model(clgraph_command: Command, saved: Path) -> None:
    status, out, err = clgraph_command("run", saved, "--device", "host", "--random-inputs")
    assert (status, err) == (0, "")
    assert "ms on host" in out
    status, out, _ = clgraph_command("explain", saved, "--device", "host")
    assert status == 0
    assert "load: as saved: no pass was run" in out
    status, out, _ = clgraph_command("compile", saved, "--device", "host")
    assert status == 0
    assert "note        load: as saved" in out
    assert clgraph_command("profile", saved, "--device", "host")[0] == 0
    assert clgraph_command("compare", saved, "--device", "host")[0] == 0


def test_a_saved_model_on_another_device_says_that_it_is_compiled(clgraph_command: Command, saved: Path) -> None:
    _, out, _ = clgraph_command("explain", saved, "--device", "null")
    assert "load: compiled anew: device host, here null" in out


def test_other_shapes_of_a_saved_model_are_compiled(clgraph_command: Command, tmp_path: Path) -> None:
    onnx.save(small_model(size="n"), tmp_path / "open.onnx")
    clgraph_command("compile", "open.onnx", "--device", "host", "--shape", "x=1,3,8,8", "-o", "open.clg")
    status, out, _ = clgraph_command("explain", "open.clg", "--device", "host")
    assert status == 0
    assert "load: as saved" in out
    _, out, _ = clgraph_command("explain", "open.clg", "--device", "host", "--shape", "x=1,3,6,6")
    assert "load: compiled anew: the file holds no program for the shapes [1, 3, 6, 6]" in out


def test_commands_take_weights_from_the_onnx_file(clgraph_command: Command, model: Path, saved: Path) -> None:
    host = ("--device", "host")
    status, out, _ = clgraph_command("compile", model, *host, "-o", "apart.clg", "--without-weights")
    assert (status, "saved       apart.clg, " in out) == (0, True)
    for command in ("run", "explain", "compare", "estimate", "bench", "check"):
        further = ("--iterations", 1) if command == "bench" else ("--random-inputs",) if command == "run" else ()
        status, _, err = clgraph_command(command, "apart.clg", *host, "--weights-from", model, *further)
        assert (status, err) == (0, ""), command
        if command != "check":
            status, _, err = clgraph_command(command, "apart.clg", *host, *further)
            assert (status, err.count("\n"), "--weights-from model.onnx" in err) == (1, 1, True), command
    for given, why in (
        (("run", model, "--weights-from", model), "is not a saved model"),
        (("run", saved, "--weights-from", model), "contains its weights"),
        (("compile", model, "--without-weights"), "--without-weights does nothing without --output"),
        (("bench", "apart.clg", "--weights-from", model, "--hint", "throughput"), "--weights-from does nothing"),
    ):
        status, _, err = clgraph_command(*given, *host)
        assert (status > 0, why in err) == (True, True), err


@pytest.mark.parametrize("command", ["run", "compile", "explain", "compare"])
def test_a_damaged_file_is_one_line(clgraph_command: Command, saved: Path, command: str) -> None:
    saved.write_bytes(saved.read_bytes()[:-100])
    status, _, err = clgraph_command(command, saved, "--device", "host")
    assert status == 1
    assert err.startswith("error: ")
    assert "cut off" in err
    assert err.count("\n") == 1


def test_a_place_that_cannot_be_written_is_one_line(clgraph_command: Command, model: Path) -> None:
    status, _, err = clgraph_command("compile", model, "--device", "host", "-o", "absent/small.clg")
    assert status == 1
    assert err.startswith("error: the model cannot be saved to absent/small.clg: ")
