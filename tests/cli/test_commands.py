from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx import helper

from clgraph.cli import cli
from clgraph.passes.pipeline import default_pipeline
from tests.support.models import image, small_model

Command = Callable[..., tuple[int, str, str]]

COMMANDS = cli.list_commands(click.Context(cli))


def test_help_lists_every_command_and_each_has_examples(clgraph_command: Command) -> None:
    status, out, _ = clgraph_command("--help")
    assert status == 0
    assert all(name in out for name in COMMANDS)
    assert len(COMMANDS) > 10
    for name in COMMANDS:
        status, out, _ = clgraph_command(name, "--help")
        assert status == 0
        assert out.partition("Examples:\n")[2].startswith(f"    clgraph {name}")


def test_passes_are_listed_with_their_numbers_and_a_sentence(clgraph_command: Command) -> None:
    _, out, _ = clgraph_command("passes")
    lines = out.splitlines()[1:]
    assert [line.split()[:2] for line in lines] == [[f"{i:02}", p.name] for i, p in enumerate(default_pipeline())]
    assert all(line.endswith(".") for line in lines)


def test_devices_lists_the_host_where_there_is_nothing_else(clgraph_command: Command) -> None:
    status, out, _ = clgraph_command("devices")
    assert status == 0
    assert out.splitlines()[1].split()[:3] == ["0", "host", "host"]
    assert "no OpenCL driver was found" in out


@pytest.mark.opencl
def test_devices_lists_the_host_behind_devices_of_opencl(clgraph_command: Command) -> None:
    status, out, _ = clgraph_command("devices")
    assert status == 0
    names = [line.lstrip("* ").split()[1] for line in out.splitlines()[1:] if line.lstrip("* ")[:1].isdigit()]
    assert names.index("host") == len(names) - 1 > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "nothing.onnx"], "there is no file nothing.onnx"),
        (["compile", "."], "is a folder"),
        (["compile", "{model}", "--device", "atari", "--shape", "x=1,3,10,10"], "no device is called 'atari'"),
        (["compile", "{model}", "--device", "host", "--shape", "z=1,2"], "no input is called 'z'"),
        (["compile", "{model}", "--device", "host", "--shape", "x=1,2"], "does not fit"),
        (["compile", "{model}", "--device", "host", "--stop-after", "nap"], "no pass is called 'nap'"),
        (["compile", "{model}", "--device", "host", "--disable-pass", "init"], "required"),
        (["run", "{model}", "--device", "host"], "input 'x' is missing"),
        (["run", "{model}", "--device", "host", "--input", "x=gone.npy"], "there is no file gone.npy"),
        (["run", "{model}", "--device", "host", "--input", "x={model}"], "is not a picture"),
        (["run", "{model}", "--device", "host", "--input", "z=gone.npy"], "no input is called 'z'"),
        (["run", "{open}", "--device", "host", "--random-inputs"], "--shape x=1,3,SIZE,SIZE"),
        (["compile", "{open}", "--device", "host"], "--shape x=1,3,SIZE,SIZE"),
        (["explain", "{model}", "nobody", "--device", "host"], "no node is called 'nobody'"),
        (["run", "{model}", "--device", "null", "--random-inputs"], "dry run"),
        (["demo", "ocr", "--text", "a", "--image", "b"], "not both"),
        (["demo", "ocr", "--text", " "], "no text to draw"),
        (["demo", "ocr", "--image", "gone.png"], "there is no file gone.png"),
        (["demo", "ocr", "--image", "{model}"], "is not a picture"),
        (["demo", "ocr", "--text", "a", "--font", "{model}"], "is not a font file"),
    ],
    ids=str,
)
def test_an_error_is_a_message_and_a_status_and_no_traceback(
    arguments: list[str], message: str, clgraph_command: Command, model: Path, open_model: Path
) -> None:
    filled = [a.replace("{model}", str(model)).replace("{open}", str(open_model)) for a in arguments]
    status, _, err = clgraph_command(*filled)
    assert status == 1
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err


def test_unknown_operators_are_all_named(clgraph_command: Command, tmp_path: Path) -> None:
    model = small_model()
    model.graph.node[1].op_type = "Frobnicate"
    model.graph.node[3].CopyFrom(helper.make_node("Blur", ["p0"], ["c1"]))
    path = tmp_path / "odd.onnx"
    onnx.save(model, path)
    status, _, err = clgraph_command("run", path, "--random-inputs", "--device", "host")
    assert status == 1
    assert "Blur (1)" in err
    assert "Frobnicate (1)" in err


def test_compile_shows_passes_and_dumps_a_file_for_each(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    status, out, err = clgraph_command("compile", model, "--device", "host", "--dump-graphs", folder)
    assert (status, err) == (0, "")
    for i, p in enumerate(default_pipeline()):
        assert p.name in out
        text = (folder / f"{i:02}_{p.name}.txt").read_text()
        assert text.startswith("program ")
        assert (folder / f"{i:02}_{p.name}.dot").is_file()
        json.loads((folder / f"{i:02}_{p.name}.json").read_text())


def test_compile_leaves_out_what_it_is_told_to(clgraph_command: Command, model: Path) -> None:
    name = "remove_layering_annotations"
    _, out, _ = clgraph_command("compile", model, "--device", "host")
    assert name in out
    _, out, _ = clgraph_command("compile", model, "--device", "host", "--disable-pass", name)
    assert name not in out
    _, out, _ = clgraph_command("compile", model, "--device", "host", "--stop-after", "init")
    assert name not in out


def test_run_reads_and_writes_arrays(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    x = image((1, 3, 10, 10))
    np.save(tmp_path / "x.npy", x)
    status, out, _ = clgraph_command(
        "run", model, "--device", "host", "--input", "x=x.npy", "--output-dir", tmp_path / "out"
    )
    assert status == 0
    y = np.load(tmp_path / "out" / "y.npy")
    assert y.shape == (1, 8, 5, 5)
    assert "float32" in out
    assert "1x8x5x5" in out
    assert f"{y.max():.6g}" in out


def test_random_inputs_depend_on_the_seed_alone(clgraph_command: Command, open_model: Path, tmp_path: Path) -> None:
    results = []
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        arguments = ["--random-inputs", "--seed", seed, "--shape", "x=1,3,8,6", "--output-dir", tmp_path / folder]
        assert clgraph_command("run", open_model, "--device", "host", *arguments)[0] == 0
        results.append(np.load(tmp_path / folder / "y.npy"))
    assert np.array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_explain_shows_all_nodes_or_everything_about_one(clgraph_command: Command, model: Path) -> None:
    _, out, _ = clgraph_command("explain", model, "--device", "host")
    assert "host.reference" in out
    assert out.splitlines()[0].split()[:2] == ["node", "primitive"]
    _, out, _ = clgraph_command("explain", model, "first", "--device", "host")
    assert "chosen" in out
    assert "from        first" in out


def test_explain_as_json_holds_every_node(clgraph_command: Command, model: Path) -> None:
    _, out, _ = clgraph_command("explain", model, "--device", "host", "--json")
    report = json.loads(out)
    origins = {name for node in report["nodes"] for name in node["origin"]}
    assert origins == {"first", "relu", "pool", "second", "residual", "last"}


def test_profile_times_every_node(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    status, out, _ = clgraph_command("profile", model, "--device", "host", "--trace", trace)
    assert status == 0
    assert "first" in out
    assert len(json.loads(trace.read_text())["traceEvents"]) > 3


def test_profile_draws_a_picture_or_a_page(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    for name, begin in (("p.svg", "<svg "), ("p.html", "<!DOCTYPE html>")):
        status, out, _ = clgraph_command("profile", model, "--device", "host", "--picture", name)
        assert (status, out.splitlines()[-1]) == (0, f"picture {name}")
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begin)
    status, _, err = clgraph_command("profile", model, "--device", "host", "--picture", "p.png")
    assert (status, "FILE.html or FILE.svg" in err) == (2, True)
    status, _, err = clgraph_command("profile", model, "--device", "host", "--picture", "none/p.svg")
    assert (status, err.count("\n"), "cannot be written" in err) == (1, 1, True)


def test_the_key_of_random_numbers_is_no_input_that_is_asked_for(clgraph_command: Command, tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 22]> g (float[1, 4] x) => (float[1, 4] y) { y = RandomUniformLike(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "random.onnx")
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    at = (tmp_path / "random.onnx", "--device", "host")
    for command in (("run", *at, "--input", tmp_path / "x.npy"), ("bench", *at, "--batch", 1, "--iterations", 2)):
        status, _, err = clgraph_command(*command)
        assert status == 0, err


def test_an_unknown_command_pass_or_kernel_is_answered_with_those_like_it(
    clgraph_command: Command, model: Path
) -> None:
    for words, near in (
        (("comple",), "'compile'"),
        (("compile", model, "--device", "null", "--disable-pass", "prepare_fusing"), "'prepare_primitive_fusing'"),
        (("compile", model, "--device", "null", "--deny-kernel", "convolution.fsv"), "'convolution.fsv16'"),
        (("passes", "--check", "convolutio"), "'convolution'"),
    ):
        status, _, err = clgraph_command(*words)
        assert status in (1, 2)
        assert near in err.partition("did you mean")[2]


@pytest.mark.opencl
def test_every_command_with_figures_prints_them_as_json(clgraph_command: Command, model: Path, device: str) -> None:
    at = ("--device", device)
    keys = {
        ("devices",): {"label", "auto", "info"},
        ("passes",): {"passes", "targets"},
        ("passes", "--check", "convolution"): {"kind", "passes"},
        ("check", model, *at): {"runs", "problems"},
        ("compile", model, *at): {"nodes", "passes", "kernels", "arenas"},
        ("compile", model, *at, "--report", "memory"): {"arenas", "constants"},
        ("run", model, *at, "--random-inputs"): {"outputs", "seconds"},
        ("explain", model, *at): {"nodes", "fusions"},
        ("profile", model, *at): {"profile", "seconds"},
        ("compare", model, *at): {"agrees", "comparison"},
        ("tune", model, *at, "--seconds", "0.01", "--file", "tuned.json"): {"rows", "finished"},
        ("cache", "show"): {"areas", "folder"},
    }
    for words, wanted in keys.items():
        status, out, err = clgraph_command(*words, "--json")
        assert status == 0, err
        found = json.loads(out)
        assert wanted <= (found[0] if isinstance(found, list) else found).keys(), words


def test_help_lists_a_commands_own_options_before_those_it_shares(clgraph_command: Command) -> None:
    status, out, _ = clgraph_command("profile", "--help")
    assert status == 0
    listed = out[out.index("Options:") :]
    order = (
        "Options:",
        "--trace",
        "Compiling:",
        "--keep-f32",
        "Where to run:",
        "--device-class",
        "Messages:",
        "--help ",
    )
    places = [listed.index(text) for text in order]
    assert places == sorted(places)


@pytest.mark.parametrize("arguments", [("-vv", "passes"), ("-q", "check", "no.onnx")])
def test_a_command_leaves_the_loggers_of_its_process_as_they_were(clgraph_command: Command, arguments) -> None:
    """Programs and notebooks that run commands log on behind them, and the error stream may be another then."""
    before = logging.root.level, list(logging.root.handlers)
    clgraph_command(*arguments)
    assert (logging.root.level, logging.root.handlers) == before
