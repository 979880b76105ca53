"""A loaded model is the one that was saved, or is compiled anew and says so."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation import compiler
from clgraph.errors import InputError, UnsupportedError
from clgraph.graph.primitive import PRIMITIVES
from clgraph.network.addresses import LEAST_BYTES
from clgraph.ops.activation import Activation
from clgraph.saved import circumstances, programs
from clgraph.saved.circumstances import differences
from clgraph.selector.query import DeviceInfo
from clgraph.settings import settings
from tests.support.models import image, light_model, small_model
from tests.support.saved import feeds_of
from tests.support.zoo_mobile import mobilenet_v3_small
from tests.support.zoo_text import Encoder, encoder, tokens

ROOT = Path(__file__).resolve().parents[2]
TINY = Encoder(layers=2, width=64, heads=4, inner=128, vocabulary=50, positions=32)


@pytest.mark.opencl
@pytest.mark.parametrize(
    "build",
    [
        small_model,
        lambda: light_model("squeezenet"),
        lambda: light_model("shufflenet"),
        lambda: mobilenet_v3_small(size=64),
    ],
    ids=["small", "squeezenet", "shufflenet", "mobilenet_v3"],
)
def test_a_loaded_model_gives_the_same_bits_without_a_pass(build, tmp_path, monkeypatch) -> None:
    model = clgraph.compile(build(), device="pocl")
    feeds = feeds_of(model)
    expected = model.run(feeds)
    model.save(tmp_path / "m.clg")
    monkeypatch.setattr(compiler.Compiler, "specialise", None)
    # Nor is a primitive made, whose operators would have to be imported.
    monkeypatch.setattr(programs, "decode_text", None)
    loaded = clgraph.load(tmp_path / "m.clg", device="pocl")
    found = loaded.run(feeds)
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert loaded.notes == ("as saved: no pass was run",)
    assert (loaded.inputs, loaded.outputs, loaded.metadata) == (model.inputs, model.outputs, model.metadata)


@pytest.mark.opencl
def test_a_loaded_program_says_the_same_about_itself(tmp_path: Path) -> None:
    model = clgraph.compile(light_model("squeezenet"), device="pocl")
    feeds = feeds_of(model)
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="pocl")
    assert str(loaded.explain()).replace("\nload: as saved: no pass was run", "") == str(model.explain())
    assert str(loaded.program) == str(model.program)
    for mine, theirs in zip(model.program, loaded.program, strict=True):
        assert theirs.primitive == mine.primitive
        assert theirs.fused == mine.fused
        assert theirs.choice.query == mine.choice.query
        assert theirs.choice.implementation is mine.choice.implementation
    assert [c.node for c in loaded.profile(feeds).commands] == [c.node for c in model.profile(feeds).commands]


@pytest.mark.opencl
def test_shapes_by_name_and_several_inputs_come_back(tmp_path: Path) -> None:
    model = clgraph.compile(encoder(TINY, "batch", "tokens"), device="pocl")
    runs = [tokens(1, 16, TINY.vocabulary), tokens(2, 8, TINY.vocabulary)]
    expected = [model.run(feeds) for feeds in runs]
    model.save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="pocl")
    for feeds, results in zip(runs, expected, strict=True):
        for name, array in loaded.run(feeds).items():
            np.testing.assert_array_equal(array, results[name])
    assert loaded.notes == ("as saved: no pass was run",) * 2
    other = tokens(3, 4, TINY.vocabulary)
    for name, array in loaded.run(other).items():
        np.testing.assert_array_equal(array, model.run(other)[name])
    assert loaded.notes == ("as saved: no pass was run",) * 3


@pytest.mark.opencl
def test_what_was_loaded_can_be_saved_again(tmp_path: Path) -> None:
    model = clgraph.compile(small_model(), device="pocl")
    model.save(tmp_path / "a.clg")
    clgraph.load(tmp_path / "a.clg", device="pocl").save(tmp_path / "b.clg")
    clgraph.load(tmp_path / "a.clg", device="pocl").save(tmp_path / "a.clg")
    feeds = feeds_of(model)
    for name in ("a.clg", "b.clg"):
        loaded = clgraph.load(tmp_path / name, device="pocl")
        np.testing.assert_array_equal(loaded.run(feeds)["y"], model.run(feeds)["y"])
        assert loaded.notes == ("as saved: no pass was run",)


@pytest.mark.opencl
@pytest.mark.parametrize("options", [{"device": "host"}, {"device": "pocl", "threads": 3}])
def test_another_device_or_thread_count_compiles_anew_and_says_so(options, tmp_path, caplog) -> None:
    model = clgraph.compile(small_model(), device="pocl", threads=2)
    model.save(tmp_path / "m.clg")
    with caplog.at_level(logging.WARNING, "clgraph"):
        loaded = clgraph.load(tmp_path / "m.clg", **options)
    feeds = feeds_of(model)
    np.testing.assert_allclose(loaded.run(feeds)["y"], model.run(feeds)["y"], rtol=1e-4, atol=1e-4)
    what = "device pocl:0, here host" if "threads" not in options else "workers 2, here 3"
    assert what in loaded.notes[0]
    assert what in loaded.explain().notes["load"]
    assert what in caplog.text


def test_a_dry_run_and_other_options_compile_anew(saved: Path) -> None:
    loaded = clgraph.load(saved, device="null")
    assert "device host, here null" in loaded.notes[0]
    with pytest.raises(InputError, match="dry run"):
        loaded.run(feeds_of(loaded))
    other = clgraph.load(saved, device="host", config={"disable_passes": ["prepare_primitive_fusing"]})
    assert "anew: options disable_passes=, here disable_passes=prepare_primitive_fusing" in other.notes[0]
    assert "prepare_primitive_fusing" not in [p.name for p in other.passes]


def test_what_only_libraries_depend_on_leaves_a_program_as_it_is() -> None:
    """Each machine compiles libraries for itself, whatever machine the program comes from."""
    told = [
        circumstances.circumstances({"a": DeviceInfo(features=frozenset(words))}, settings())["vectors"]
        for words in (("fma",), ("fma", "fetch_ahead"), ("fma", "vnni"))
    ]
    assert told == ["16 fma", "16 fma", "16 fma vnni"]


def test_a_warning_names_a_few_differences_and_all_are_told_below_it(
    saved: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    there = {"device": "a", "vectors": "16 " + " ".join(f"f{i}" for i in range(90)), "clgraph": "1"}
    here = {"device": "b", "vectors": "8 f7 f8", "clgraph": "1"}
    told = differences(there, here)
    assert told == "device a, here b; vectors 16 f0 f1 f2 and 85 more, here 8"
    assert differences(here, {**here, "vectors": "8 f7"}) == "vectors f8, here none of these"
    assert differences(there, here, whole=True) == f"device a, here b; vectors {there['vectors']}, here 8 f7 f8"
    words = " ".join(f"f{i}" for i in range(90))
    real = circumstances.circumstances
    monkeypatch.setattr("clgraph.compilation.load.circumstances", lambda *a: {**real(*a), "vectors": f"2 {words}"})
    with caplog.at_level(logging.INFO, "clgraph"):
        clgraph.load(saved, device="host")
    warned, more = [r for r in caplog.records if "vectors" in r.message]
    assert (warned.levelname, more.levelname) == ("WARNING", "INFO")
    assert "f89" not in warned.message
    assert "f89" in more.message


def test_other_sources_of_clgraph_compile_anew(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circumstances, "sources_digest", lambda _: "other")
    assert "other sources" in clgraph.load(saved, device="host").notes[0]


def test_a_model_without_a_program_is_compiled_when_shapes_are_known(tmp_path: Path) -> None:
    clgraph.compile(small_model(size="n"), device="host").save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    assert loaded.notes == ()
    assert loaded(image((1, 3, 8, 8))).shape == (1, 8, 4, 4)


def test_equal_data_is_written_once_and_large_weights_stay_mapped(tmp_path: Path) -> None:
    path = tmp_path / "m.clg"
    model = clgraph.compile(small_model(channels=128), device="host")
    model.save(path)
    raw = sum(a.nbytes for a in model.topology.constants.values())
    assert path.stat().st_size < 1.2 * raw + 40_000
    for value in clgraph.load(path, device="host").program.constants:
        assert value.constant is not None
        assert not value.constant.flags.writeable
        # Smaller ones are copied, so that runs need not look at the file.
        assert value.constant.flags.owndata == (value.constant.nbytes < LEAST_BYTES)
        assert value.constant.flags.owndata or value.constant.ctypes.data % 64 == 0


def test_loading_imports_neither_onnx_nor_the_compiler_and_few_operators(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "m.onnx")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(code: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment).stdout

    run("import clgraph; clgraph.compile('m.onnx', device='null').save('m.clg')")
    out = run("import sys, clgraph; print(*clgraph.load('m.clg', device='null').notes); print(*sys.modules)")
    note, modules = out.splitlines()
    found = set(modules.split())
    assert note == "as saved: no pass was run"
    assert "clgraph.compilation.load" in found
    assert found.isdisjoint(
        {"onnx", "clgraph.compilation.compiler", "clgraph.passes.pipeline", "clgraph.ops.convolution"}
    )
    few = {"clgraph.passes.base", "clgraph.passes.quantization.few_bits", "clgraph.runtime.dlpack", "numpy.typing"}
    assert found.isdisjoint({*few, "concurrent.futures"}), "a start takes 0.2 ms for each module, its end as much"


def test_saving_waits_for_a_compilation_and_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = clgraph.compile(small_model(size="n"), device="host")
    model.prepare({"x": (1, 3, 4, 4)})
    inside, go = threading.Event(), threading.Event()
    original = model._specialisations.specialise

    def slow(*arguments: object) -> object:
        inside.set()
        assert go.wait(20)
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(model._specialisations, "specialise", slow)
    with ThreadPoolExecutor(2) as pool:
        compiling = pool.submit(model.prepare, {"x": (1, 3, 6, 6)})
        assert inside.wait(20)
        saving = pool.submit(model.save, tmp_path / "m.clg")
        go.set()
        compiling.result(30)
        saving.result(30)
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    loaded.prepare({"x": (1, 3, 4, 4)})
    assert set(loaded.notes) == {"as saved: no pass was run"}


@dataclass(frozen=True)
class Foreign(Activation):
    """A plugin's operator."""

    kind: ClassVar[str] = "foreign"


def test_an_operator_of_an_absent_plugin_is_named(tmp_path: Path) -> None:
    topology = clgraph.Topology()
    topology.output("y", topology.add("y", Foreign("relu"), topology.input("x", (4,))))
    before = PRIMITIVES.snapshot()
    try:
        PRIMITIVES.register("foreign", Foreign)
        clgraph.compile(topology, device="host").save(tmp_path / "m.clg")
        loaded = clgraph.load(tmp_path / "m.clg", device="host")
        assert loaded(np.array([-1, 2, -3, 4], np.float32)).tolist() == [0, 2, 0, 4]
    finally:
        PRIMITIVES.restore(before)
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    with pytest.raises(UnsupportedError, match="'foreign'"):
        loaded(np.zeros(4, np.float32))
