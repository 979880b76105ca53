"""The program after every pass can be read again, and computes the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.errors import ModelError
from clgraph.graph.text import print_program
from tests.support.models import image, small_model
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
        assert print_program(again.program) == print_program(model.program), file.name


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


def test_the_command_line_runs_a_dump(dumped) -> None:
    folder, _, _ = dumped
    file = next(folder.glob("*_reorder_inputs.json"))
    command = [sys.executable, "-m", "clgraph", "explain", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "implementation" in done.stdout
