"""The cache of compiled kernels: full, read-only, somebody else's, or filled by two processes at once."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from clgraph.core import cache_folder
from clgraph.runtime import pocl_cache, process
from clgraph.runtime.binaries import ProgramCache
from clgraph.runtime.engine import Engine
from clgraph.runtime.wheel import pocl_folder
from clgraph.settings import settings
from tests.support.known_devices import new_cache
from tests.support.models import small_model
from tests.support.progress import without_progress

ROOT = Path(__file__).resolve().parents[2]

REFUSALS = [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO]


def failing(code: int) -> Callable[..., None]:
    """Return what ends with *code*, as the first or the last step of writing a file does where that is refused."""

    def fail(path: object, *_: object) -> None:
        raise OSError(code, os.strerror(code), str(path))

    return fail


@pytest.mark.parametrize("code", REFUSALS)
@pytest.mark.parametrize("step", ["open", "replace"])
def test_a_full_or_read_only_folder_is_a_warning_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, step: str
) -> None:
    cache = ProgramCache(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, failing(code))
        with pytest.warns(UserWarning, match="not kept"):
            cache.write("k", b"binary")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cache.write("k", b"binary")
    assert list(tmp_path.iterdir()) == []
    assert cache.read("k") is None
    cache.write("k", b"binary")
    assert cache.read("k") == b"binary"


def test_a_folder_in_the_place_of_an_entry_is_absent(tmp_path: Path) -> None:
    (tmp_path / "k.bin").mkdir()
    cache = ProgramCache(tmp_path)
    assert cache.read("k") is None
    with pytest.warns(UserWarning, match="not kept"):
        cache.write("k", b"binary")


@pytest.mark.parametrize("code", REFUSALS)
def test_seals_that_cannot_be_written_are_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    program = tmp_path / "ab" / "program"
    program.mkdir(parents=True)
    (program / "program.bc").write_bytes(b"BC\xc0\xde1234")
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", failing(code))
        pocl_cache.seal(tmp_path)
        assert pocl_cache.sweep(tmp_path) == 0
    assert [p.name for p in program.iterdir()] == ["program.bc"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.opencl
def test_a_full_file_system_gets_no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL ends the process when it cannot write; what is there is used."""
    options = settings({"CLGRAPH_CACHE_DIR": str(new_cache(tmp_path / "cache"))})
    monkeypatch.setattr(process, "CHOSEN", [options])
    cache_folder.write(pocl_folder.__wrapped__() / "programs" / "k.bin", b"binary")
    monkeypatch.setattr(cache_folder, "free_bytes", lambda _: 0)
    with pytest.warns(UserWarning, match="no cache in .* its file system is full"):
        folder = pocl_folder.__wrapped__()
    assert not folder.is_relative_to(tmp_path)
    assert [path.read_bytes() for path in folder.rglob("*.bin")] == [b"binary"]
    shutil.rmtree(folder)


RUN = """
import sys
import numpy as np
import clgraph
model = clgraph.compile(sys.argv[1], device=sys.argv[2], config={"device_class": sys.argv[4]})
x = np.random.default_rng(0).standard_normal((1, 3, 10, 10)).astype(np.float32)
np.save(sys.argv[3], model(x))
"""


def relu_model() -> onnx.ModelProto:
    shape = [1, 3, 10, 10]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "relu", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def at_once(device: str, tmp_path: Path, cache: Path, kernels: str, model: onnx.ModelProto) -> None:
    """Run a model in two processes that start with the same cache without kernels; both must give the same."""
    onnx.save(model, tmp_path / "m.onnx")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CLGRAPH_CACHE_DIR": str(cache)}
    results = [tmp_path / f"{i}.npy" for i in range(2)]
    started = [
        subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path / "m.onnx"), device, str(result), kernels],
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        for result in results
    ]
    for running in started:
        said = running.communicate(timeout=300)[1]
        assert running.returncode == 0, said
        assert "Traceback" not in said
    first, second = map(np.load, results)
    np.testing.assert_array_equal(first, second)
    again = tmp_path / "again.npy"
    command = [sys.executable, "-c", RUN, str(tmp_path / "m.onnx"), device, str(again), kernels]
    subprocess.run(command, env=variables, check=True, timeout=300)
    np.testing.assert_array_equal(np.load(again), first)


@pytest.mark.opencl
def test_two_processes_may_fill_the_same_cache(device: str, tmp_path: Path) -> None:
    """Here with an ordinary kernel, which builds in a twentieth of the time."""
    at_once(device, tmp_path, new_cache(tmp_path / "cache"), "gpu", relu_model())


@pytest.mark.slow
@pytest.mark.opencl
def test_two_processes_may_build_the_library_at_once(device: str, tmp_path: Path) -> None:
    at_once(device, tmp_path, tmp_path / "cache", "cpu", small_model())


REMOVED = """
import shutil, sys
from pathlib import Path
import numpy as np
from clgraph.runtime import driver
from clgraph.runtime.device import find_device
from clgraph.runtime.engine import Engine

engine = Engine(find_device(sys.argv[1]))
memory = engine.upload(np.zeros(16, np.float32), "x")

def compute(number):
    text = "__kernel void f(__global float* x) { x[get_global_id(0)] = exp2(%d.0f); }" % number
    engine.kernel(text, "f", [memory]).on(engine.stream, (16,), None)()
    found = np.empty(16, np.float32)
    engine.stream.read(memory, 0, found)
    assert (found == 2.0**number).all(), found

compute(1)
cache = Path(sys.argv[2])
shutil.rmtree(cache)
compute(2)
headers = next(cache.rglob("pocl_types.h"))
headers.unlink()
compute(3)
shutil.rmtree(next(cache.rglob("pocl.icd")).parent)
compute(4)

restore = driver.restore
def restored_in_vain(handle):
    driver.restore = restore
    restore(handle)
    shutil.rmtree(cache)
driver.restore = restored_in_vain
print("PoCL says what it misses", file=sys.stderr, flush=True)
compute(5)
"""


@pytest.mark.opencl
def test_a_process_goes_on_compiling_when_its_cache_folder_is_removed(engine: Engine, tmp_path: Path) -> None:
    if not engine.info.name.startswith("pocl"):
        pytest.skip("PoCL alone compiles with what is in the cache folder")
    cache = new_cache(tmp_path / "cache")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "CLGRAPH_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", REMOVED, engine.info.name, str(cache)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, without_progress(done.stderr).partition("PoCL says")[0]) == (0, ""), done.stderr
