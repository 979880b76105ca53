from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation import compiler
from clgraph.errors import ClgraphError, InputError, ModelError, UnsupportedError
from clgraph.graph.primitive import PRIMITIVES
from clgraph.ops.activation import Activation
from clgraph.saved import circumstances
from clgraph.saved.container import MAGIC, VERSION, Blobs, Contents
from tests.support.models import image, light_model, small_model
from tests.support.zoo_mobile import mobilenet_v3_small
from tests.support.zoo_text import Encoder, encoder, tokens
from tools.fuzzing.files import changed

ROOT = Path(__file__).resolve().parents[2]
HEAD = 64
TINY = Encoder(layers=2, width=64, heads=4, inner=128, vocabulary=50, positions=32)


def feeds_of(model: clgraph.Model) -> dict[str, np.ndarray]:
    return {s.name: image(tuple(d for d in s.shape or () if isinstance(d, int))) for s in model.inputs}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A small model compiled for the host."""
    path = tmp_path / "small.clg"
    clgraph.compile(small_model(), device="host").save(path)
    return path


def rewritten(path: Path, change: object = None, version: int = VERSION) -> Path:
    """Write *path* anew with another header, or as another version, checksums right."""
    data = path.read_bytes()
    nbytes = struct.unpack_from("<Q", data, 16)[0]
    header, start = json.loads(data[HEAD : HEAD + nbytes]), HEAD + nbytes + -nbytes % 64
    if callable(change):
        change(header)
    text = json.dumps(header).encode()
    body = text + bytes(-len(text) % 64) + data[start:]
    head = struct.pack("<8sIIQQ32s", MAGIC, version, 0, len(text), HEAD + len(body), hashlib.sha256(text).digest())
    path.write_bytes(head + body)
    return path


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
    assert "no program for the shapes" in loaded.notes[-1]


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
    assert "options" in other.notes[0]
    assert "prepare_primitive_fusing" not in [p.name for p in other.passes]


def test_other_sources_of_clgraph_compile_anew(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circumstances, "sources_digest", lambda: "other")
    assert "other sources" in clgraph.load(saved, device="host").notes[0]


def test_a_model_without_a_program_is_compiled_when_shapes_are_known(tmp_path: Path) -> None:
    clgraph.compile(small_model(size="n"), device="host").save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device="host")
    assert loaded.notes == ()
    assert loaded(image((1, 3, 8, 8))).shape == (1, 8, 4, 4)


def test_equal_data_is_written_once_and_the_weights_stay_mapped(tmp_path: Path) -> None:
    path = tmp_path / "m.clg"
    model = clgraph.compile(small_model(channels=128), device="host")
    model.save(path)
    raw = sum(a.nbytes for a in model.topology.constants.values())
    assert path.stat().st_size < 1.2 * raw + 40_000
    for value in clgraph.load(path, device="host").program.constants:
        assert value.constant is not None
        assert not value.constant.flags.writeable
        assert not value.constant.flags.owndata
        assert value.constant.ctypes.data % 64 == 0


def test_equal_bytes_are_one_blob_whoever_holds_them(tmp_path: Path) -> None:
    blobs = Blobs()
    first, second = np.arange(64, dtype=np.int64), np.arange(64, dtype=np.int64).reshape(8, 8)
    assert blobs.add(first) == [0, "I64", [64]]
    assert blobs.add(second) == [0, "I64", [8, 8]]
    assert blobs.add(second[:, 1]) == [1, "I64", [8]]
    assert blobs.add(np.arange(17, dtype=np.int8)) == [2, "I8", [17]]
    blobs.write(tmp_path / "b", {})
    contents = Contents(tmp_path / "b")
    assert contents.array([2, "I8", [17]]).tolist() == list(range(17))
    for number, nbytes in enumerate((512, 64, 17)):
        array = contents.array([number, "I8", [nbytes]])
        assert array.ctypes.data % 64 == 0
        assert array.base is not None
        assert contents.header["blobs"][number][1] == nbytes
    starts = [offset for offset, _, _ in contents.header["blobs"]]
    assert all(start % 64 == 0 for start in starts)
    assert starts == [0, 512 + 64, 512 + 64 + 64 + 64]
    assert (tmp_path / "b").stat().st_size % 64 == 0
    np.testing.assert_array_equal(contents.array([0, "I64", [8, 8]]), second)
    np.testing.assert_array_equal(contents.array([1, "I64", [8]]), second[:, 1])


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


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def test_a_damaged_byte_is_a_model_error_or_does_no_harm(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    broken = tmp_path / "broken.clg"
    header_end = HEAD + struct.unpack_from("<Q", data, 16)[0]
    errors = 0
    for at in sorted({*range(HEAD), *range(HEAD, len(data), 1000)}):
        broken.write_bytes(damaged(data, at))
        try:
            loaded = clgraph.load(broken, device="host")
            loaded.run(feeds_of(loaded))
            assert 12 <= at < 16 or at >= header_end, f"byte {at} of the header was not missed"
        except ModelError:
            errors += 1
    assert errors > 40


@pytest.mark.parametrize("keep", [0, 1, 7, 63, 64, 1000, -1, -64, -1000])
def test_a_file_that_is_cut_is_a_model_error(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ModelError):
        clgraph.load(saved, device="host")


def test_a_damaged_table_of_integers_is_found(tmp_path: Path) -> None:
    topology = clgraph.Topology()
    x = topology.input("x", (4,))
    topology.output("y", topology.add("y", Activation("relu"), x))
    numbers = topology.constant("numbers", np.arange(100_000))
    topology.output("numbers", numbers)
    path = tmp_path / "m.clg"
    clgraph.compile(topology, device="host").save(path)
    path.write_bytes(damaged(path.read_bytes(), path.stat().st_size - 5000))
    with pytest.raises(ModelError, match="checksum"):
        clgraph.load(path, device="host").run({"x": np.zeros(4, np.float32)})


def test_a_newer_version_says_so(saved: Path) -> None:
    with pytest.raises(ModelError, match=f"format {VERSION + 1}"):
        clgraph.load(rewritten(saved, version=VERSION + 1), device="host")


def _set(*path: object, to: object) -> object:
    """Return what changes the value at *path* in a header, also inside of what is text in it."""

    def changed(held: Any, way: tuple[object, ...]) -> Any:
        if not way:
            return to
        if isinstance(held, str):
            return json.dumps(changed(json.loads(held), way))
        held[way[0]] = changed(held[way[0]], way[1:])
        return held

    return lambda header: changed(header, path)


@pytest.mark.parametrize(
    "change",
    [
        _set("programs", to=None),
        _set("programs", 0, "program", "nodes", 0, 2, to=[99]),
        _set("programs", 0, "program", "values", 0, to=[1]),
        _set("programs", 0, "program", "values", 0, 1, to="layout"),
        _set("programs", 0, "program", to={}),
        _set("programs", 0, "passes", to=[[]]),
        _set("topology", to=[]),
        _set("topology", "inputs", to=[["x"]]),
        _set("blobs", to=[]),
        _set("blobs", 0, to=[1 << 60, 4, 0]),
        _set("blobs", 0, to=[0, -4, 0]),
        _set("libraries", to=3),
    ],
)
def test_a_foreign_header_is_a_model_error(saved: Path, change: object) -> None:
    with pytest.raises(ModelError):
        clgraph.load(rewritten(saved, change), device="host")


def test_other_files_are_model_errors(tmp_path: Path) -> None:
    onnx.save(small_model(), tmp_path / "m.onnx")
    for path in (tmp_path / "m.onnx", tmp_path / "absent.clg", tmp_path):
        with pytest.raises(ModelError):
            clgraph.load(path)


@pytest.mark.parametrize("where", ["absent/m.clg", "file/m.clg", "folder"])
def test_a_place_that_cannot_be_written_is_a_model_error_and_leaves_nothing(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError, match="cannot be saved"):
        clgraph.compile(small_model(), device="host").save(tmp_path / where)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    old = saved.read_bytes()
    model = clgraph.load(saved, device="host")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ModelError, match="No space left"):
        model.save(saved)
    assert saved.read_bytes() == old
    assert list(saved.parent.iterdir()) == [saved]


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


def test_every_error_is_one_of_clgraph_s(saved: Path) -> None:
    with pytest.raises(ClgraphError):
        clgraph.load(saved, device="no such device")
    with pytest.raises(ClgraphError):
        clgraph.load(saved, device="host", config={"wings": 2})


def _forged(path: Path, seed: int, part: str) -> Path:
    """Change a value or two of the topology, or of the planned program, and make the checksum fit."""

    def change(header: Any) -> None:
        random = np.random.default_rng(seed)
        if part == "program":
            entry = header["programs"][0]
            entry["program"] = json.dumps(changed(json.loads(entry["program"]), random))
        else:
            header["topology"] = changed(header["topology"], random)

    return rewritten(path, change)


@pytest.mark.parametrize("part", ["topology", "program"])
def test_whatever_a_file_with_a_fitting_checksum_says_is_read_or_one_error(saved: Path, part: str) -> None:
    content = saved.read_bytes()
    for seed in range(300):
        saved.unlink()
        saved.write_bytes(content)
        forged = _forged(saved, seed, part)
        with contextlib.suppress(ClgraphError), clgraph.load(forged, device="host") as model:
            assert model.topology.layers
            str(model.explain())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t["layers"][0].__setitem__(1, 5), "5 is no primitive"),
        (lambda t: t["layers"][0].__setitem__(4, [[]]), "layers are not of the form"),
        (lambda t: t["layers"][0].__setitem__(5, True), "layers are not of the form"),
        (lambda t: t["constants"][0].__setitem__(0, {}), "constants are not of the form"),
        (lambda t: t["metadata"].__setitem__("a", 1), "metadata are not of the form"),
        (lambda t: t["op_types"].__setitem__("a", []), "op_types are not of the form"),
        (lambda t: t["inputs"][0].__setitem__(2, [1, -3]), r"has the shape \[1, -3\]"),
        (lambda t: t["layers"][0][1].__setitem__(2, ["strides", ["t", "x", 1]]), "Convolution.strides is"),
    ],
)
def test_a_topology_with_a_fitting_checksum_and_a_wrong_type_is_a_model_error(saved: Path, change, said: str) -> None:
    def forge(header: Any) -> None:
        change(header["topology"])

    def read() -> None:
        clgraph.load(forged, device="null").reshape({"x": (1, 3, 12, 12)})

    forged = rewritten(saved, forge)
    with pytest.raises(ModelError, match=said):
        read()
