"""Whatever a user gives: one line that begins with ``error:``, a status that is not 0, no traceback."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Command = Callable[..., tuple[int, str, str]]

MODEL_COMMANDS = ["check", "compile", "run", "bench", "explain", "compare", "profile"]
RUNNING = ["run", "bench", "compare", "profile"]


@pytest.fixture
def files(tmp_path: Path, model: Path) -> Path:
    """A folder of things that are not what a command wants."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "noise.onnx").write_bytes(np.random.default_rng(0).bytes(3000))
    (tmp_path / "text.onnx").write_text("hello world\n" * 100)
    (tmp_path / "cut.onnx").write_bytes(model.read_bytes()[: model.stat().st_size // 2])
    (tmp_path / "locked.onnx").write_bytes(model.read_bytes())
    (tmp_path / "locked.onnx").chmod(0)
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 10, 10), np.float32))
    np.save(tmp_path / "flat.npy", np.zeros((2, 2), np.float32))
    np.save(tmp_path / "whole.npy", np.zeros((1, 3, 10, 10), np.int32))
    np.savez(tmp_path / "two.npz", x=np.zeros((1, 3, 10, 10), np.float32), q=np.zeros(3))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:200])
    (tmp_path / "text.npy").write_text("hello world\n")
    Image.new("RGB", (20, 30), "red").save(tmp_path / "picture.png")
    return tmp_path


def _is_one_error(status: int, err: str, expected: int) -> bool:
    lines = err.splitlines()
    raw = "Traceback" in err or "[Errno" in err
    return status == expected and len(lines) == 1 and lines[0].startswith("error: ") and not raw


@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_a_model_that_is_none_is_one_line(command: str, clgraph_command: Command, files: Path) -> None:
    for name in ("gone.onnx", "folder", "empty.onnx", "noise.onnx", "text.onnx", "cut.onnx", "gone/x.onnx"):
        status, _, err = clgraph_command(command, files / name, "--device", "host")
        assert _is_one_error(status, err, 1), (name, err)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="may read everything")
@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_a_model_that_may_not_be_read_is_one_line(command: str, clgraph_command: Command, files: Path) -> None:
    status, _, err = clgraph_command(command, files / "locked.onnx", "--device", "host")
    assert _is_one_error(status, err, 1), err


@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_options_that_mean_nothing_here_are_one_line(command: str, clgraph_command: Command, model: Path) -> None:
    for options in (
        ("--device", "atari"),
        ("--device", "host", "--shape", "x=1,2"),
        ("--device", "host", "--shape", "z=1,2"),
        ("--device", "host", "--shape", "x=1,3,999999999999,999999999999"),
        ("--device", "host", "--stop-after", "nap"),
        ("--device", "host", "--disable-pass", "init"),
        ("--device", "host", "--force-kernel", "first=convolution.nothing"),
        ("--device", "host", "--deny-kernel", "nothing"),
        ("--device", "host", "--dump-graphs", "/dev/null/x"),
    ):
        inputs = ("--random-inputs",) if command == "run" else ()
        status, _, err = clgraph_command(command, model, *inputs, *options)
        if command == "check" and not err:
            assert status == 1, options
            continue
        assert _is_one_error(status, err, 1), (options, err)


@pytest.mark.parametrize("command", MODEL_COMMANDS)
def test_wrong_usage_is_one_line_and_status_2(command: str, clgraph_command: Command, model: Path) -> None:
    assert _is_one_error(*_without_out(clgraph_command(command)), 2)
    for options in (
        ("--threads", "0"),
        ("--threads", "two"),
        ("--executor", "none"),
        ("--shape", "x=a"),
        ("--shape", "1,2"),
        ("--shape", "x=-1,3"),
        ("--force-kernel", "first"),
        ("--nonsense",),
        ("more", "arguments", "than", "it takes"),
    ):
        status, err = _without_out(clgraph_command(command, model, *options))
        assert _is_one_error(status, err, 2), (options, err)
        assert f"see clgraph {command} --help" in err
    if command != "bench":
        status, err = _without_out(clgraph_command(command, model, "--shape", "x=1", "--shape", "x=2"))
        assert _is_one_error(status, err, 2)


@pytest.mark.parametrize("command", RUNNING)
def test_inputs_that_do_not_fit_are_one_line(command: str, clgraph_command: Command, model: Path, files: Path) -> None:
    for text in (
        "x",
        "x=",
        "=x.npy",
        "x=gone.npy",
        "x=flat.npy",
        "x=whole.npy",
        "x=cut.npy",
        "x=text.npy",
        "two.npz",
        "x=two.npz",
        "x=folder",
        "x=text.onnx",
        "z=x.npy",
    ):
        status, err = _without_out(clgraph_command(command, model, "--device", "host", "--input", text))
        assert _is_one_error(status, err, 1), (text, err)
        assert "allow_pickle" not in err, "a way to run what a file says"
    twice = ("--input", "x=x.npy", "--input", "x=x.npy")
    assert _is_one_error(*_without_out(clgraph_command(command, model, "--device", "host", *twice)), 1)


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["--mean", "red"], 2, "--mean 'red' is not a number, or one a channel"),
        (["--mean", "1,2"], 2, "is not a number, or one a channel"),
        (["--scale", "0"], 2, "it cannot be 0"),
        (["--scale", "nan"], 2, "is not a number"),
        (["--layout", "whc"], 2, "--layout"),
        (["--layout", "hw"], 1, "does not have the shape of a picture"),
        (["--output", "y.txt"], 1, "y.txt is not one of .npy, .npz"),
        (["--output", "z=y.npy"], 1, "no output is called 'z'; the outputs are 'y'"),
        (["--output", "gone/y.npy"], 1, "cannot be written to gone/y.npy"),
        (["--output", "y.png"], 1, "of shape 1x8x5x5 is not a picture"),
        (["--output-dir", "x.npy"], 1, "cannot be written to x.npy"),
        (["--labels", "gone.txt"], 1, "gone.txt cannot be read"),
        (["--labels", "x.npy"], 1, "x.npy is not"),
        (["--top", "3"], 1, "no output has classes"),
        (["--top", "0"], 2, "--top"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("files")
def test_wishes_for_pictures_and_outputs_that_cannot_be_met_are_one_line(
    options: list[str], status: int, message: str, clgraph_command: Command, model: Path
) -> None:
    found, err = _without_out(clgraph_command("run", model, "--device", "host", "--input", "picture.png", *options))
    assert _is_one_error(found, err, status), err
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["bench", "{open}", "--device", "host"], 1),
        (["bench", "{open}", "--device", "host", "--shape", "x=1,3", "--shape", "y=1", "--shape", "y=2"], 1),
        (["bench", "{model}", "--device", "host", "--iterations", "2", "--json", "gone/x"], 1),
        (["bench", "{model}", "--device", "null"], 1),
        (["bench", "{model}", "--streams", "0"], 2),
        (["bench", "{model}", "--time", "-1"], 2),
        (["bench", "{model}", "--compare", "tensorrt"], 2),
        (["compile", "{model}", "--device", "host", "-o", "gone/x.clg"], 1),
        (["explain", "{model}", "nobody", "--device", "host"], 1),
        (["profile", "{model}", "--device", "host", "--trace", "gone/x.json"], 1),
        (["demo", "ocr", "--image", "folder"], 1),
        (["demo", "ocr", "--longest", "3"], 2),
        (["demo", "nothing"], 2),
        (["cache", "clear", "nothing"], 2),
        (["completion", "tcsh"], 2),
        (["completion"], 2),
        (["passes", "x"], 2),
        (["nothing"], 2),
        (["--log-level", "loud", "passes"], 2),
    ],
    ids=str,
)
@pytest.mark.usefixtures("files")
def test_what_single_commands_refuse_is_one_line(
    arguments: list[str], status: int, clgraph_command: Command, model: Path, open_model: Path
) -> None:
    filled = [a.replace("{model}", str(model)).replace("{open}", str(open_model)) for a in arguments]
    found, err = _without_out(clgraph_command(*filled))
    assert _is_one_error(found, err, status), err


def test_an_environment_that_means_nothing_is_one_line(
    clgraph_command: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLGRAPH_THREDS", "2")
    for arguments in (("devices",), ("compile", model), ("passes",)):
        status, err = _without_out(clgraph_command(*arguments))
        assert _is_one_error(status, err, 1), err
        assert "CLGRAPH_THREDS is not an option" in err


def _without_out(outcome: tuple[int, str, str]) -> tuple[int, str]:
    return outcome[0], outcome[2]
