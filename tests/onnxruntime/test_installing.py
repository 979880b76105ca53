"""``install``: programs that import onnxruntime, and its modules, find clgraph; what was there comes back."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import os
import pickle
import subprocess
import sys
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType

import numpy as np
import onnxruntime
import pytest

import clgraph.onnxruntime as ours
from clgraph import as_onnxruntime
from clgraph.cli.peers import OnnxRuntime
from clgraph.errors import OptionError
from clgraph.onnxruntime import children
from tests.support.ort_models import identity

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import sys
import onnxruntime as ort
from onnxruntime import InferenceSession, SessionOptions
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from onnxruntime.capi import _pybind_state as C
import onnxruntime.capi._pybind_state as D
session = InferenceSession(sys.argv[1], SessionOptions(), providers=C.get_available_providers())
try:
    session.run(None, {"x": [[1]]})
except InvalidArgument:
    print(ort.__name__, C is D, __name__, session.run(None, {"x": [[1, 2, 3]]})[0].tolist())
"""


def test_what_imports_onnxruntime_finds_clgraph_until_it_is_taken_back() -> None:
    version = importlib.metadata.version("onnxruntime")
    ours.install()
    try:
        ours.install()
        found = importlib.import_module("onnxruntime")
        assert found is ours
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        assert state.InvalidArgument is ours.statuses.InvalidArgument
        assert importlib.util.find_spec("onnxruntime") is not None
        assert not logging.getLogger("clgraph.core.progress").isEnabledFor(logging.INFO)
        assert importlib.metadata.version("onnxruntime") == ours.__version__
        assert importlib.metadata.version("numpy") == np.__version__
        with pytest.raises(OptionError, match="replaces onnxruntime"):
            OnnxRuntime(Path("model.onnx"))
        for name in ("onnxruntime.datasets", "onnxruntime.capi.convert_npz_to_onnx_adapter"):
            assert importlib.import_module(name).__name__ == name
        with pytest.raises(state.NotImplemented, match="quantise the model without clgraph"):
            importlib.import_module("onnxruntime.quantization.matmul_bnb4_quantizer").quantize_matmul_bnb4()
    finally:
        ours.uninstall()
    assert importlib.import_module("onnxruntime") is onnxruntime
    assert importlib.metadata.version("onnxruntime") == version
    assert not ours.is_installed()


@pytest.mark.opencl
def test_an_unmodified_program_runs_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(identity())
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "clgraph.as_onnxruntime"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLGRAPH_DEVICE": "host"}
    for how in (["program.py"], ["-m", "program"], ["-c", PROGRAM]):
        done = subprocess.run(
            [*command, *how, "x.onnx"], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
        )
        assert done.stdout == "clgraph.onnxruntime True __main__ [[1.0, 2.0, 3.0]]\n", done.stderr


STARTING = """
import multiprocessing
import onnxruntime
def name(_):
    return onnxruntime.__name__
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(name, [0]))
"""


def test_processes_that_multiprocessing_starts_find_clgraph_too(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STARTING)
    command = [sys.executable, "-m", "clgraph.as_onnxruntime", "program.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "['clgraph.onnxruntime']\n", done.stderr


def test_a_fork_server_leaves_the_main_module_to_its_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "get_preparation_data", lambda name: {"init_main_from_path": "program.py", "name": name})
    assert children.ENTRY not in spawn.get_preparation_data("ignore")
    ours.install()
    try:
        assert spawn.get_preparation_data("ignore").keys() == {"name", children.ENTRY}
        assert spawn.get_preparation_data("a").keys() == {"init_main_from_path", "name", children.ENTRY}
    finally:
        ours.uninstall()
    assert spawn.get_preparation_data("a").keys() == {"init_main_from_path", "name"}


def test_a_program_that_is_not_there_ends_as_with_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(as_onnxruntime, "install", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    for arguments, status in ((["nowhere.py"], 2), (["-m", "nowhere"], 1), (["-m", "nowhere.inside", "x"], 1), ([], 2)):
        with pytest.raises(SystemExit) as caught:
            as_onnxruntime.main(arguments)
        assert caught.value.code == status
    assert capsys.readouterr().err.count("nowhere") == 3


def test_code_of_a_command_is_the_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_onnxruntime, "install", lambda: None)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    as_onnxruntime.main(["-c", "import sys\nclass A: pass\nassert sys.argv == ['-c', 'x']", "x"])
    kind = sys.modules["__main__"].A
    assert pickle.loads(pickle.dumps(kind)) is kind


def test_every_public_name_of_onnxruntime_that_programs_use_is_there() -> None:
    # Of model packages, compiled contexts and devices of plugins clgraph has nothing.
    left_out = {n for n in dir(onnxruntime) if n.startswith(("_", "Model", "OrtEp", "OrtHardware"))} - {"ModelMetadata"}
    left_out |= {"OrtCompileApiFlags", "OrtExternalInitializerInfo", "OrtSyncStream"}
    left_out |= {"OrtMemoryInfoDeviceType", "contextlib", "cuda_version", "import_capi_exception"}
    # Other tests may have imported packages inside of onnxruntime, which then are attributes of it.
    left_out |= {n for n, value in vars(onnxruntime).items() if isinstance(value, ModuleType) and n not in dir(ours)}
    assert set(dir(onnxruntime)) - left_out <= set(dir(ours))


def test_modules_of_the_extension_are_there_without_being_imported() -> None:
    code = "import clgraph.onnxruntime as ort; print(ort.capi.onnxruntime_pybind11_state.Fail.__name__)"
    code += "; print(ort.capi.onnxruntime_inference_collection.OrtValue is ort.OrtValue, hasattr(ort.capi, 'nothing'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Fail", "True", "False"]
