from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
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


HOST = ("--device", "host")


@pytest.fixture
def open_file(tmp_path: Path) -> Path:
    onnx.save(small_model(size="n"), tmp_path / "open.onnx")
    return tmp_path / "open.onnx"


def test_a_model_with_open_dimensions_is_saved_with_these(clgraph_command: Command, open_file: Path) -> None:
    status, out, err = clgraph_command("compile", open_file, *HOST, "-o", "open.clg")
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == "inputs      x f32 [1, 3, n, n]"
    assert "saved       open.clg, " in out
    for size in (8, 10):
        shape = f"x=1,3,{size},{size}"
        assert clgraph_command("compare", "open.clg", *HOST, "--shape", shape)[0] == 0
    status, out, _ = clgraph_command("compile", open_file, *HOST, "-o", "open.clg", "--json")
    assert (status, json.loads(out)["saved"]) == (0, "open.clg")
    assert clgraph_command("compile", open_file, *HOST, "-o", "light.clg", "--without-weights")[0] == 0
    further = ("--weights-from", open_file, "--shape", "x=1,3,8,8")
    assert clgraph_command("compare", "light.clg", *HOST, *further)[0] == 0


@pytest.mark.parametrize(("sizes", "size"), [("1,3,8-32,8-32", 9), ("1,3,8,8", 8)])
def test_a_model_is_saved_with_what_is_compiled_for_sizes_and_stays_open(
    clgraph_command: Command, open_file: Path, sizes: str, size: int
) -> None:
    status, out, err = clgraph_command("compile", open_file, *HOST, "--prepare", f"x={sizes}", "-o", "open.clg")
    assert (status, err) == (0, "")
    assert "saved       open.clg, " in out
    model = clgraph.load("open.clg", device="host")
    assert not model.is_static
    model.run({"x": np.zeros((1, 3, size, size), np.float32)})
    assert "compiled anew" not in str(model.notes)
    assert "family" in model.program.notes


def test_what_cannot_be_prepared_is_one_error(clgraph_command: Command, open_file: Path) -> None:
    for given, why in (
        (("--prepare", "x=1,3,y"), "is not NAME=SIZE,SIZE with ranges"),
        (("--prepare", "x=1,3,8,8", "--prepare", "x=1,3,9,9"), "--prepare names 'x' twice"),
        (("--prepare", "y=1,3,8,8"), "no input is called 'y'"),
        (("--prepare", "x=1,3,8-6,8"), "a range is its smallest and largest size"),
        (("--prepare", "x=1,3,8,8", "--shape", "x=1,3,8,8"), "give one of them"),
        (("-o", "open.clg", "--report", "memory"), "--report does nothing where dimensions stay open"),
        (("-o", "open.clg", "--dump-sources", "d"), "--dump-sources does nothing where dimensions stay open"),
        ((), "give their sizes: --shape"),
    ):
        status, _, err = clgraph_command("compile", open_file, *HOST, *given)
        assert (status > 0, why in err, err.count("\n")) == (True, True, 1), err
    assert not Path("open.clg").exists()


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
