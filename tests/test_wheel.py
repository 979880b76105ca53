"""The built wheel, in an environment of its own, runs a model with the kernels that it carries."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from clgraph.selector.costs import CLASSES
from tests.support.models import image, small_model

ROOT = Path(__file__).resolve().parents[1]

SCRIPT = """
import pathlib, sys, numpy, clgraph
from clgraph.selector import sources
home = pathlib.Path(clgraph.__file__).parent
assert home.is_relative_to(sys.prefix), home
assert all(folder.is_relative_to(home) for folder, _ in sources.kernel_files())
model = clgraph.compile("model.onnx")
numpy.save("y.npy", model(numpy.load("x.npy")))
print(*sorted({n.implementation for n in model.explain().nodes}))
"""


def _wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_carries_every_kernel_and_module(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {f"clgraph/cl_kernels/{p.relative_to(ROOT / 'cl_kernels').as_posix()}" for p in _kernels()}
    modules = {p.relative_to(ROOT).as_posix() for p in (ROOT / "clgraph").rglob("*.py")}
    costs = {f"clgraph/data/costs/{name}.json" for name in CLASSES}
    assert len(kernels) > 3
    assert kernels | modules | costs <= names


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the wheel."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    options = ["--quiet", "--no-deps", "--no-compile"]
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, str(wheel)]
    subprocess.run(install, capture_output=True, text=True, check=True)
    _share_dependencies(python)
    return python


@pytest.mark.opencl
def test_the_installed_wheel_runs_a_model_from_another_folder(installed: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    work = tmp_path / "work"
    work.mkdir()
    model, x = small_model(), image((1, 3, 10, 10))
    onnx.save(model, work / "model.onnx")
    np.save(work / "x.npy", x)
    done = subprocess.run([installed, "-c", SCRIPT], cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    # Sums of 27 and 8 products of values around 1: far below 1e-5 of the largest.
    assert np.abs(np.load(work / "y.npy") - expected).max() <= 1e-5 * np.abs(expected).max()


USERS_SCRIPT = """
import numpy as np
import clgraph

x = np.zeros((1, 3), np.float32)
model = clgraph.compile("m.onnx", device="cpu", shapes={"x": (1, "n")})
reveal_type(model)
reveal_type(model.run({"x": x}))
reveal_type(model.run({"x": x}, tensors=True))
reveal_type(model.run_async({"x": x}, ["y"]).result())
reveal_type(model.inputs[0].shape)
reveal_type(clgraph.load("m.clg"))
reveal_type(clgraph.devices())
reveal_type(clgraph.tune("m.onnx"))
reveal_type(clgraph.Tensor(x))
clgraph.compile("m.onnx", devise="cpu")
clgraph.complie("m.onnx")
model.run(x, tensors="yes")
model.runs
"""
SEEN = """
7: note: Revealed type is "clgraph.model.model.Model"
8: note: Revealed type is "dict[str, ndarray[tuple[Any, ...], dtype[Any]]]"
9: note: Revealed type is "dict[str, Any]"
10: note: Revealed type is "dict[str, Any]"
11: note: Revealed type is "tuple[int | str | None, ...] | None"
12: note: Revealed type is "clgraph.model.model.Model"
13: note: Revealed type is "clgraph.runtime.device.Devices"
14: note: Revealed type is "clgraph.tuner.tune.TuningReport"
15: note: Revealed type is "clgraph.model.tensor.Tensor"
16: error: No overload variant of "compile_model" matches argument types
17: error: Module has no attribute "complie"
18: error: No overload variant of "run" of
19: error: "Model" has no attribute "runs"
"""


PACKAGES = (
    *("debugging", "engines", "explorer", "extensions", "families", "frontend", "generate", "implementations"),
    *("network", "ops", "passes", "saved", "selector"),
)
OF_NUMPY = (
    *("char", "ctypeslib", "f2py", "fft", "lib", "linalg", "ma", "matrixlib", "polynomial", "random", "rec"),
    *("strings", "testing"),
)
OTHERS = ("onnx", "tokenizers", "ml_dtypes", *(f"clgraph.{r}" for r in PACKAGES), *(f"numpy.{p}" for p in OF_NUMPY))
SKIPPED = ",".join(f"{package}.*" for package in OTHERS)
"""What no type of a user's comes from, most of the checker's time: what did would be Any below."""


def test_a_checker_of_types_sees_those_of_the_installed_wheel(installed: Path, tmp_path: Path) -> None:
    """``py.typed`` is in it; without that, whatever a user does with clgraph is of type Any."""
    (tmp_path / "script.py").write_text(USERS_SCRIPT, encoding="utf-8")
    skipping = "follow_imports = skip\nfollow_imports_for_stubs = True\n"
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{SKIPPED}]\n{skipping}", encoding="utf-8")
    options = ["--strict", "--cache-dir", os.devnull, "--python-executable", str(installed)]
    command = [sys.executable, "-m", "mypy", *options, "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    said = [line.removeprefix("script.py:").replace("numpy.", "") for line in done.stdout.splitlines()]
    for wanted in SEEN.strip().splitlines():
        assert any(line.startswith(wanted) for line in said), f"{wanted}\n{done.stdout}{done.stderr}"
    # Of a call with overloads the checker says more than one thing.
    assert {line.split(":")[0] for line in said if ": error:" in line} == {"16", "17", "18", "19"}, done.stdout


def _kernels() -> list[Path]:
    return [p for p in (ROOT / "cl_kernels").rglob("*") if p.suffix in (".cl", ".clh")]


def _share_dependencies(python: Path) -> None:
    """Let the environment see this one's packages, behind its own."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (Path(site) / "shared.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
