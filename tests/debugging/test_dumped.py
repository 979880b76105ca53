"""The program after every pass can be read again, and computes the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.debugging.dumped import read_dump
from clgraph.errors import ClgraphError, ModelError
from clgraph.graph.program import Milestone
from clgraph.ops.concat import Concat
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.matmul import MatMul
from clgraph.passes.memory import split_batch
from clgraph.passes.memory.sharing import WouldShare
from clgraph.selector.choose import Choice
from tests.support.models import image, small_model
from tests.support.programs import RELU, Net
from tests.support.zoo_text import Encoder, encoder, tokens

pytestmark = pytest.mark.opencl


def _cases():
    yield "image", small_model(), {"x": image((1, 3, 10, 10))}
    sizes = Encoder(1, 32, 2, 64)
    yield "text", encoder(sizes, 1, 8), tokens(1, 8)


@pytest.fixture(scope="module", params=list(_cases()), ids=lambda case: case[0])
def dumped(request, tmp_path_factory):
    _, onnx, feeds = request.param
    folder = tmp_path_factory.mktemp("dump")
    config = {"dump_graphs": folder, "dump_data": True, "model_cache": 0}
    model = clgraph.compile(onnx, device="pocl:0", config=config)
    feeds = {s.name: feeds[s.name] if s.name in feeds else next(iter(feeds.values())) for s in model.inputs}
    return folder, model, feeds


def test_the_program_after_every_pass_is_loaded_and_computes_the_same(dumped) -> None:
    folder, model, feeds = dumped
    want = model.run(feeds)
    files = sorted(folder.glob("*.json"))
    assert len(files) == len(model.passes) + 1
    for file in files:
        again = clgraph.load_dump(file)
        assert [s.name for s in again.inputs] == [s.name for s in model.inputs]
        got = again.run(feeds)
        for name, array in want.items():
            np.testing.assert_array_equal(got[name], array, err_msg=file.name)
        assert str(again.program) == str(model.program), file.name


def test_a_dump_without_data_a_damaged_one_and_a_missing_constant_are_errors(dumped, tmp_path: Path) -> None:
    folder, model, _ = dumped
    config = {"dump_graphs": tmp_path / "plain", "model_cache": 0}
    clgraph.compile(model.topology, device="null", config=config)
    with pytest.raises(ModelError, match="--dump-data"):
        clgraph.load_dump(tmp_path / "plain" / "built.json")
    (tmp_path / "cut.json").write_text((folder / "built.json").read_text()[:200])
    with pytest.raises(ModelError, match="cannot be read as a dump"):
        clgraph.load_dump(tmp_path / "cut.json")
    (tmp_path / "moved.json").write_text((folder / "built.json").read_text())
    with pytest.raises(ModelError, match="constant of the dump is missing"):
        clgraph.load_dump(tmp_path / "moved.json")
    data = json.loads((folder / "built.json").read_text())
    data["state"]["nodes"] = [["too", "short"]]
    (tmp_path / "wrong.json").write_text(json.dumps(data))
    with pytest.raises(ModelError):
        clgraph.load_dump(tmp_path / "wrong.json")


def test_places_in_memory_that_passes_do_not_give_are_errors(dumped) -> None:
    folder, _, _ = dumped
    for name, places, field, message in (
        ("built.json", "values", -1, "behind the beginning of"),
        (max(p.name for p in folder.glob("[0-9]*.json")), "buffers", 2, "lies outside of"),
    ):
        data = json.loads((folder / name).read_text())
        data["state"][places][0][field] += 1
        (folder / "misplaced.json").write_text(json.dumps(data))
        try:
            with pytest.raises(ModelError, match=message):
                clgraph.load_dump(folder / "misplaced.json")
        finally:
            (folder / "misplaced.json").unlink()


def test_the_command_line_runs_a_dump(dumped) -> None:
    folder, _, _ = dumped
    file = next(folder.glob("*_reorder_inputs.json"))
    command = [sys.executable, "-m", "clgraph", "explain", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "implementation" in done.stdout


def test_a_batch_that_is_computed_in_parts_still_is(tmp_path: Path, monkeypatch) -> None:
    net = Net()
    net.output(net.add("relu", RELU, net.conv("conv", net.input("x", (6, 3, 9, 9)), 3, 20, 3)))
    feeds = {"x": image((6, 3, 9, 9))}
    config = {"dump_graphs": tmp_path, "dump_data": True}
    with monkeypatch.context() as patch:
        patch.setattr(split_batch, "best_slices", lambda *_: 3)
        want = clgraph.compile(net, device="pocl:0", config=config).run(feeds)
        assert clgraph.load_dump(tmp_path / "built.json").program.batch_slices == 3
    assert clgraph.load_dump(tmp_path / "built.json").program.batch_slices == 1
    for name in ("split_batch", "add_required_reorders"):
        (file,) = tmp_path.glob(f"*_{name}.json")
        again = clgraph.load_dump(file)
        assert (again.program.batch_slices, again.inputs[0].shape) == (3, (6, 3, 9, 9))
        np.testing.assert_array_equal(again.run(feeds)["relu"], want["relu"])


def test_a_constant_still_knows_the_integers_it_was_made_of(tmp_path: Path) -> None:
    net = Net()
    weights = (np.arange(4800) % 100).astype(np.int8).reshape(400, 12)
    net.add("w", Dequantize(1), net.constant("q", weights), net.number("s", 0.5), net.constant("z", np.int8(3)))
    net.output(net.add("y", MatMul(), net.input("x", (2, 400)), "w"))
    clgraph.compile(net, device="null", config={"dump_graphs": tmp_path, "dump_data": True})
    (file,) = tmp_path.glob("*_fold_constants.json")
    program = read_dump(file, "null").program
    integers = program["y"].inputs[1].integers
    assert integers is not None
    np.testing.assert_array_equal(integers.data, weights)
    assert (integers.scale.shape, integers.scale, integers.zero, integers.axis) == ((), 0.5, 3, 0)


def test_a_constant_whose_writing_was_broken_off_is_written_whole_the_next_time(tmp_path, monkeypatch):
    def broken_off(file, data, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    options = {"dump_graphs": tmp_path / "dumps", "dump_data": True}
    with monkeypatch.context() as patch:
        patch.setattr(np, "save", broken_off)
        with pytest.raises((ClgraphError, OSError), match="No space left"):
            clgraph.compile(small_model(), device="null", config=options)
    clgraph.compile(small_model(), device="null", config=options)
    with clgraph.load_dump(sorted((tmp_path / "dumps").glob("00_*.json"))[0]) as model:
        assert model.inputs


def test_a_choice_comes_back_as_it_was_made_with_its_reasons(dumped) -> None:
    folder, model, _ = dumped
    program = read_dump(next(folder.glob("*_compile_graph.json"))).program
    made = {node.name: node.choice for node in model.program}
    assert program.milestone is Milestone.SELECTED
    for node in program:
        assert type(node.choice) is Choice
        if node.name in made:
            want = made[node.name]
            assert (node.choice.implementation, node.choice.because) == (want.implementation, want.because)
            assert (node.choice.refusals, node.choice.slower) == (want.refusals, want.slower)


def test_a_node_that_may_come_to_run_nothing_does_so_after_reading_too(tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", (1, 16, 8, 8))
    parts = [net.conv(f"conv{i}", x, 16, 16, 1) for i in range(2)]
    net.output(net.conv("last", net.add("join", Concat(1), *parts), 32, 16, 1))
    clgraph.compile(net, device="pocl:0", config={"dump_graphs": tmp_path, "dump_data": True})
    program = read_dump(next(tmp_path.glob("*_reorder_inputs.json"))).program
    choice = next(node.choice for node in program if node.name == "join")
    assert isinstance(choice, Choice)
    assert choice.implementation is WouldShare


def test_a_dump_of_another_format_is_refused_in_a_sentence(dumped, tmp_path: Path) -> None:
    data = json.loads((dumped[0] / "built.json").read_text())
    del data["state"]["format"]
    (tmp_path / "old.json").write_text(json.dumps(data))
    with pytest.raises(ModelError, match=r"a program of format 1 cannot be read, this clgraph reads \d+: save or dump"):
        clgraph.load_dump(tmp_path / "old.json")
