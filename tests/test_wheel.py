"""The built wheel, in an environment of its own, runs a model with the kernels that it carries."""

from __future__ import annotations

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


@pytest.mark.opencl
def test_the_installed_wheel_runs_a_model_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    home, work = tmp_path / "venv", tmp_path / "work"
    work.mkdir()
    venv.create(home, with_pip=False)
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", str(wheel)]
    subprocess.run(install, capture_output=True, text=True, check=True)
    _share_dependencies(python)
    model, x = small_model(), image((1, 3, 10, 10))
    onnx.save(model, work / "model.onnx")
    np.save(work / "x.npy", x)
    done = subprocess.run([python, "-c", SCRIPT], cwd=work, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    # Sums of 27 and 8 products of values around 1: far below 1e-5 of the largest.
    assert np.abs(np.load(work / "y.npy") - expected).max() <= 1e-5 * np.abs(expected).max()


def _kernels() -> list[Path]:
    return [p for p in (ROOT / "cl_kernels").rglob("*") if p.suffix in (".cl", ".clh")]


def _share_dependencies(python: Path) -> None:
    """Let the environment see this one's packages, behind its own."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    (Path(site) / "shared.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
