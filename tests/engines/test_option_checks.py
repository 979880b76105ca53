"""Options that do nothing where they are say so: every option of the settings, and every flag of the commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import parser

import clgraph
from clgraph import cli
from clgraph.engines import opening
from clgraph.engines.contradictions import CONTRADICTS, in_use_of
from clgraph.engines.option_checks import ALWAYS, IDLE, check_options
from clgraph.errors import DeviceError, OptionError, UnsupportedError
from clgraph.selector.query import DeviceInfo
from clgraph.settings import Settings, settings
from tests.support.models import image, small_model

POCL = pytest.param("pocl:0", marks=pytest.mark.opencl)


class Row(NamedTuple):
    """An option in a situation, and what is said: an error, a note, or with ``""`` nothing."""

    option: str
    value: Any
    device: str
    error: str = ""
    note: str = ""
    further: Mapping[str, Any] = {}


GPU = {"device_class": "gpu"}

ROWS = [
    Row("cache_dir", "", "null"),
    Row("command_buffers", True, "host", note="OpenCL devices record launches; in use is host"),
    Row(
        "command_buffers", True, "pocl:0", note="with poison each step is launched by itself", further={"poison": True}
    ),
    Row("deny_kernels", ["nothing.ref"], "null", error="no implementation is called 'nothing.ref'"),
    Row("deny_kernels", ["softmax.ref"], "null", note="deny_kernels=softmax.ref does nothing: no node is a softmax"),
    Row("deny_kernels", ["convolution.ref"], "null"),
    Row("device", "atari", "atari", error="no device is called 'atari'"),
    Row("device_class", "gpu", "host", note="no kernels are chosen for host"),
    Row("device_class", "pocl:0=gpu", "null", note="the device null takes one class"),
    Row("device_class", "gpu", "null"),
    Row("disable_passes", ["nap"], "null", error="no pass is called 'nap'"),
    Row("disable_passes", ["init"], "null", error="'init' is required"),
    Row("dump_data", True, "host", error="dump_data=1 does nothing: .* give dump_graphs"),
    Row("dump_graphs", "graphs", "null"),
    Row(
        "executor",
        "stream",
        "host",
        note="executor=stream does nothing: tile functions run on devices of the class cpu",
    ),
    Row("executor", "stream", "pocl:0", error=r"in use is pocl:0 \(class gpu\)", further=GPU),
    Row("executor", "persistent", "pocl:0", note="each step is launched by itself", further={"poison": True}),
    Row("executor", "stream", "pocl:0"),
    Row("force_kernels", {"nobody": "convolution.ref"}, "null", error="no node .* is called 'nobody'"),
    Row("force_kernels", {"first": "nothing.ref"}, "null", error="'nothing.ref' is not an implementation"),
    Row("keep_f32", ["first"], "null", note="keep_f32=first does nothing: with precision=f32 all nodes stay float32"),
    Row("keep_f32", ["nobody"], "null", error="'nobody'", further={"precision": "f16"}),
    Row("keep_f32", ["first"], "null", further={"precision": "f16"}),
    Row(
        "log_level",
        "debug",
        "null",
        error=r"it is the command line's; in Python, logging\.basicConfig\(level='DEBUG'\)",
    ),
    Row("memory_limit", "1 GiB", "null"),
    Row("model_cache", 0, "null"),
    Row("shape_cache", 0, "null"),
    Row("modules", ["no_such_module"], "null", error="cannot be imported"),
    Row("out_of_order", True, "host", note="OpenCL devices have queues; in use is host"),
    Row("placement", {"nothing*": "host"}, "host", error="'nothing.' fits no annotation"),
    Row(
        "placement",
        {"*": "pocl:0", "first": "host"},
        "pocl:0",
        note="placement=first=host does nothing: patterns before",
    ),
    Row("placement_budget", {"pocl:0": "1 GiB"}, "pocl:0"),
    Row("placement_budget", {"pocl:0": "1 GiB"}, "host", error="nothing is placed on pocl:0; the model's devices are"),
    Row("placement_fallback", ["host"], "pocl:0"),
    Row("plugins", "nobody", "null", error="no plugin is called 'nobody'"),
    Row("pocl_isa", "sse2", "host", note="it is about the PoCL that pip installs; in use is host"),
    Row("poison", True, "host", note="it is about the memory of OpenCL devices"),
    Row("precision", "tf32x3", "host", note="it is about NVIDIA's matrix units"),
    Row("precision", "tf32x3", "pocl:0", error=r"precision=tf32x3 does nothing: it is about NVIDIA's matrix units"),
    Row("precision", "f16x3", "pocl:0", error="precision=f16x3 does nothing", further=GPU),
    Row("precision", "f16", "null", note="no node stores f16", further={"keep_f32": ["*"]}),
    Row("precision", "f16", "null", further=GPU),
    Row("precision", "bf16", "null", note="no node stores bf16", further=GPU),
    Row("quantised_products", "exact", "null"),
    Row("split_batch", False, "null"),
    Row("stop_after", "nap", "null", error="no pass is called 'nap'"),
    Row("deterministic", True, "pocl:0"),
    Row("strict", True, "host", error="strict=1 does nothing: the host is asked for by name"),
    Row("strict", True, "pocl:0", error="the host is asked for by name", further={"placement": {"first": "host"}}),
    Row("strict", True, "pocl:0"),
    Row("threads", 2, "host", note="threads=2 does nothing: workers are those of devices of the class cpu"),
    Row("threads", 2, "null", note="in use is null"),
    Row("threads", 2, "pocl:0", error=r"in use is pocl:0 \(class gpu\)", further=GPU),
    Row("tuning", "/nowhere.json", "pocl:0", note="tuning=/nowhere.json does nothing: there is no such file"),
    Row("tuning", "/nowhere.json", "null", note="kernels are tuned; in use is null"),
    Row("verify_passes", True, "null"),
    Row("weight_group", 64, "null", error="weight_group=64 does nothing: floats have no scale: give weights"),
    Row("weights", "int8", "null", note="no product or embedding has 65536 float weights"),
    Row("winograd", False, "null"),
]


def _named(row: Row) -> Any:
    marks = [pytest.mark.opencl] if row.device == "pocl:0" or row.option == "placement_budget" else []
    said = "error" if row.error else "note" if row.note else "nothing"
    more = "-".join(row.further)
    return pytest.param(row, marks=marks, id=f"{row.option}={row.value}-{row.device}-{more}-{said}")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Options at their defaults, in an empty folder."""
    monkeypatch.delenv("CLGRAPH_TUNING", raising=False)
    monkeypatch.delenv("CLGRAPH_MODEL_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)


def compiled(device: str, **options: Any) -> clgraph.Model:
    return clgraph.compile(small_model(), device=device, config=options)


@pytest.mark.parametrize("row", [_named(row) for row in ROWS])
def test_an_option_that_does_nothing_is_an_error_or_a_note(row: Row) -> None:
    options = {**row.further, **({} if row.option == "device" else {row.option: row.value})}
    if row.error:
        with pytest.raises((OptionError, DeviceError, clgraph.errors.RegistrationError), match=row.error):
            compiled(row.device, **options)
        return
    said = [note for note in compiled(row.device, **options).notes if note.startswith(f"{row.option}=")]
    if row.note:
        assert len(said) == 1
        assert row.note in said[0]
    else:
        assert said == []


def test_the_cache_folder_is_not_asked_for_to_see_which_options_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find it takes longer than all comparisons, and every compilation makes them."""
    options = settings()
    monkeypatch.setattr("platformdirs.user_cache_dir", None)
    check_options(options, in_use_of(options, [DeviceInfo()]))


def test_every_option_has_its_entry_and_its_rows() -> None:
    names = {f.name for f in fields(Settings)}
    assert {*CONTRADICTS, *IDLE, *ALWAYS} == names
    assert not {*CONTRADICTS, *IDLE} & {*ALWAYS}
    assert {row.option for row in ROWS} == names
    for table in (CONTRADICTS, IDLE):
        assert {row.option for row in ROWS if row.error or row.note} >= set(table)


@pytest.mark.opencl
def test_what_the_environment_asks_for_is_a_note_where_a_call_would_be_refused(monkeypatch) -> None:
    monkeypatch.setenv("CLGRAPH_PRECISION", "tf32x3")
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    notes = " ".join(compiled("pocl:0").notes)
    assert "precision=tf32x3 does nothing" in notes
    assert "strict" not in notes
    assert "strict=1 does nothing" in " ".join(compiled("host").notes)


def test_a_log_level_of_the_environment_that_nobody_follows_is_a_note(monkeypatch, caplog) -> None:
    monkeypatch.setenv("CLGRAPH_LOG_LEVEL", "debug")
    caplog.set_level("WARNING", logger="clgraph")
    assert any(note.startswith("CLGRAPH_LOG_LEVEL=debug does nothing") for note in compiled("null").notes)
    caplog.set_level("DEBUG", logger="clgraph")
    assert not any("LOG_LEVEL" in note for note in compiled("null").notes)


def test_notes_of_options_are_those_of_all_programs_of_a_model() -> None:
    model = clgraph.compile(small_model(size="n"), device="null", config={"deny_kernels": ["softmax.ref"]})
    assert model.notes == ()
    for size in (8, 10):
        model.prepare({"x": (1, 3, size, size)})
    assert model.notes == ("deny_kernels=softmax.ref does nothing: no node is a softmax",)
    assert model.unused == model.notes


STAGES = """<ir_version: 8, opset_import: ["": 18]>
g (float[8] x) => (float[n] y) { [root] r = Sqrt(x) [at] i = NonZero(r) [back] t = Transpose(i)
  [some] s = GatherND(r, t) [last] y = Exp(s) }"""


@pytest.mark.opencl
def test_in_a_model_in_stages_what_fits_one_of_them_is_no_note() -> None:
    forced = {"root": "activation.ref", "nobody": "activation.ref"}
    model = clgraph.compile(parser.parse_model(STAGES), device="pocl:0", config={"force_kernels": forced})
    model.run({"x": np.ones(8, np.float32)})
    found = [note for note in model.notes if "does nothing" in note]
    assert found == ["force_kernels=nobody=activation.ref does nothing: no node is called 'nobody'"]


def annotated(**names: str) -> onnx.ModelProto:
    """Return the small model with annotations of nodes by their names."""
    model = small_model()
    for node in model.graph.node:
        if node.name in names:
            node.metadata_props.add(key="layer_ann", value=names[node.name])
    return model


UNPLACED = "annotation 'encoder' does nothing: it names no device, and no pattern of placement fits it"


def _warnings(caplog) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelname == "WARNING" and "annotation" in r.getMessage()]
    caplog.clear()
    return found


@pytest.mark.opencl
def test_an_annotation_that_places_nothing_is_said_when_compiling_once_a_model_and_a_note(caplog, tmp_path) -> None:
    model = annotated(first="encoder", second="pocl:0")
    compiled = clgraph.compile(model, device="pocl:0", config={"model_cache": 0})
    assert compiled.notes == (UNPLACED,)
    compiled.run({"x": np.ones((1, 3, 10, 10), np.float32)})
    assert _warnings(caplog) == [UNPLACED]
    assert clgraph.compile(model, device="pocl:0", placement={"enc*": "pocl:0"}, config={"model_cache": 0}).notes == ()
    assert _warnings(caplog) == []
    compiled.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", "pocl:0")
    assert UNPLACED in loaded.notes
    assert _warnings(caplog) == [UNPLACED]


@pytest.mark.opencl
@pytest.mark.parametrize("command", ["compile", "run"])
def test_commands_say_once_which_annotations_place_nothing_and_not_when_they_are_to_be_quiet(command, tmp_path) -> None:
    onnx.save(annotated(first="encoder"), tmp_path / "m.onnx")
    given = [
        command,
        str(tmp_path / "m.onnx"),
        "--device",
        "pocl:0",
        *(["--random-inputs"] if command == "run" else []),
    ]
    done = CliRunner().invoke(cli.cli, given)
    assert done.exit_code == 0, done.output
    assert done.stderr.count(UNPLACED) == 1
    assert UNPLACED not in CliRunner().invoke(cli.cli, ["-q", *given]).stderr


@pytest.mark.opencl
def test_a_saved_model_says_so_again_and_of_the_options_that_it_is_loaded_with(tmp_path: Path) -> None:
    compiled("pocl:0", keep_f32=["first"]).save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", "pocl:0", config={"keep_f32": ["first"], "tuning": "/nowhere.json"})
    assert "as saved" in loaded.notes[-1]
    assert sorted(note.partition("=")[0] for note in loaded.unused) == ["keep_f32", "tuning"]


TWO_KERNELS = """<ir_version: 8, opset_import: ["": 18]>
g (float[1,1,2,2] x, int64[1,1,2,2] i) => (float[] y) {
  h = Relu(x) [only] y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (h, i) }"""


@pytest.mark.opencl
@pytest.mark.parametrize("by", ["call", "environment"])
def test_strict_refuses_what_only_the_host_computes(by: str, monkeypatch) -> None:
    model, denied = parser.parse_model(TWO_KERNELS), {"deny_kernels": ["max_unpool.elements", "max_unpool.ref"]}
    assert clgraph.compile(model, device="pocl:0").explain()["only"].placement == "pocl:0"
    assert clgraph.compile(model, device="pocl:0", config=denied).explain()["only"].placement == "host"
    config = {**denied, "strict": True} if by == "call" else denied
    if by == "environment":
        monkeypatch.setenv("CLGRAPH_STRICT", "1")
    with pytest.raises(UnsupportedError, match=r"'only'.*pocl:0"):
        clgraph.compile(model, device="pocl:0", config=config)


@pytest.mark.opencl
@pytest.mark.parametrize(("strict", "there"), [(False, ["pocl:0", "host"]), (True, ["pocl:0"])])
def test_the_host_is_there_unless_strict(strict: bool, there: list[str]) -> None:
    assert list(opening.open_engines(settings().with_(device="pocl:0", strict=strict))) == there


OPTION_OF = {
    "disable_pass": "disable_passes",
    "force_kernel": "force_kernels",
    "deny_kernel": "deny_kernels",
    "module": "modules",
}
"""Flags that have another name than their option."""

OWN = {
    "model, shapes, prepare, inputs": "what is compiled, and what it is given; what fits nothing is an error",
    "layout, channels, mean, scale": "an error where no input is a picture",
    "random_inputs, seed, batch, streams, seconds, iterations, tolerance, top, labels, runs, longest": "of the command",
    "output, outputs, output_dir, json_file, as_json, trace, dump_tensors, report, file": "what is written and shown",
    "dump_sources, notes, picture": "an error where --report leaves nothing to show",
    "node, measure, find, against, compare, image, text, font, check, name, attributes, areas, shell": "of the command",
    "no_run, onnx": "of view",
    "verbose, quiet": "how much is said",
    "folder, prompts, system, chat, max_tokens, stop, ignore_end": "of generate",
    "host, http_port, grpc_port, no_http, no_grpc, max_request, timeout, queue, connections": "of serve",
    "poll, grace, follow_links": "of serve",
    "temperature, top_k, top_p, repetition_penalty": "of generate",
    "hint, join, clients": "of bench, which refuses the last two without --hint throughput",
    "without_weights, weights_from": "of saved models; an error where nothing is saved, or the model has weights",
    "preprocess": "images as inputs, in front of what options decide (clgraph.compile has it as an argument)",
}
"""Flags that are no options of the settings."""


def commands() -> list[click.Command]:
    context, found = click.Context(cli.cli), []
    for name in cli.cli.list_commands(context):
        command = cli.cli.get_command(context, name)
        assert command is not None
        found += list(command.commands.values()) if isinstance(command, click.Group) else [command]
    return found


def test_every_flag_is_an_option_or_in_the_list_of_the_commands_own() -> None:
    own = {name for names in OWN for name in names.split(", ")}
    options = {f.name for f in fields(Settings)}
    flags = {str(p.name) for command in commands() for p in command.params}
    assert {OPTION_OF.get(flag, flag) for flag in flags - own} <= options
    assert own <= flags


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the command line; return status and error stream."""
    onnx.save(small_model(), "m.onnx")
    np.save("x.npy", image((1, 3, 10, 10)))

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["clgraph", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return int(stopped.value.code or 0), capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", ["check", "compile", "run", "bench", "explain", "compare", "profile"])
def test_commands_show_what_did_nothing_and_with_q_do_not(command: Callable[..., tuple[int, str]], name: str) -> None:
    further = {"run": ["--random-inputs"], "bench": ["--iterations", "1"]}.get(name, [])
    line = "note: keep_f32=first does nothing: with precision=f32 all nodes stay float32 here\n"
    assert command(name, "m.onnx", "--device", "host", "--keep-f32", "first", *further) == (0, line)
    assert command("-q", name, "m.onnx", "--device", "host", "--keep-f32", "first", *further) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compile", "m.onnx", "--picture", "a.svg"], "--picture does nothing without --report memory"),
        (["compile", "m.onnx", "--report", "memory", "--notes"], "--notes does nothing with --report"),
        (
            ["compile", "m.onnx", "--report", "memory", "--dump-sources", "d"],
            "--dump-sources does nothing with --report",
        ),
        (["run", "m.onnx", "--input", "x.npy", "--seed", "1"], "--seed does nothing without --random-inputs"),
        (["run", "m.onnx", "--input", "x.npy", "--mean", "1"], "--mean does nothing where no --input is a picture"),
        (["bench", "m.onnx", "--channels", "bgr"], "--channels does nothing where no --input is a picture"),
        (["bench", "m.onnx", "--time", "1", "--iterations", "2"], "--time does nothing with --iterations"),
        (["demo", "ocr", "--font", "f.ttf"], "--font does nothing without --text"),
    ],
)
def test_flags_that_another_one_leaves_nothing_to_do_are_wrong_usage(
    command: Callable[..., tuple[int, str]], arguments: list[str], said: str
) -> None:
    status, err = command(*arguments, "--device", "host")
    assert status == 2
    assert said in err
