"""PyInstaller's hooks: what a frozen program contains of clgraph, and that it starts modules in place of itself."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tomllib
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from clgraph.errors import DeviceError
from clgraph.extensions.frozen_programs import HOOKS, hook_directories
from clgraph.runtime import child

ROOT = Path(__file__).parents[2]
(RUNTIME_HOOK,) = json.loads((HOOKS / "rthooks.dat").read_text(encoding="utf-8"))["clgraph"]


def test_pyinstaller_finds_the_hooks_by_the_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, function = project["entry-points"]["pyinstaller40"]["hook-dirs"].partition(":")
    assert getattr(sys.modules[module], function) is hook_directories
    (folder,) = hook_directories()
    assert Path(folder, "hook-clgraph.py").is_file()
    assert Path(folder, "rthooks", RUNTIME_HOOK).is_file()


def test_a_frozen_program_contains_modules_as_files_and_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a package that is not installed it contains nothing."""
    for package in ("pyopencl", "pocl_binary_distribution"):
        (tmp_path / package / ".libs" / "share").mkdir(parents=True)
        (tmp_path / package / ".libs" / "share" / "kernel.bc").touch()

    def paths(package: str) -> tuple[str, str]:
        if package == "pocl_binary_distribution":
            raise ValueError(package)
        return str(tmp_path), str(tmp_path / package)

    def submodules(package: str, filter: Callable[[str], bool]) -> list[str]:
        return [name for name in (f"{package}.ops", f"{package}.serving", f"{package}.ray.cluster") if filter(name)]

    tools = types.ModuleType("PyInstaller.utils.hooks")
    tools.get_package_paths, tools.collect_submodules = paths, submodules  # type: ignore[attr-defined]
    tools.collect_data_files = lambda package: [("a.cl", package)]  # type: ignore[attr-defined]
    for name in ("PyInstaller", "PyInstaller.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, tools.__name__, tools)
    found = runpy.run_path(str(HOOKS / "hook-clgraph.py"))
    assert found["module_collection_mode"] == {"clgraph": "py"}
    assert found["hiddenimports"] == ["clgraph.ops", "pyopencl", "pyopencl._cl"]
    kernel = str(tmp_path / "pyopencl" / ".libs" / "share" / "kernel.bc")
    assert found["datas"] == [("a.cl", "clgraph"), (kernel, str(Path("pyopencl", ".libs", "share")))]


def started(*arguments: str) -> list[str]:
    """Return what a frozen program prints that is started with *arguments*: its hook, then its own code."""
    hook = (HOOKS / "rthooks" / RUNTIME_HOOK).read_text(encoding="utf-8")
    code = f"import sys\nsys.argv[0] = 'program'\n{hook}\nprint('program', sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_frozen_program_runs_a_module_of_clgraph_in_place_of_itself() -> None:
    assert started("-m", "clgraph.core.version") == []
    for others in (["-m", "json.tool"], ["-m", "clgraphs.core"], ["-m"], ["-x", "clgraph.core.version"], []):
        assert started(*others) == [f"program {others}"]


def test_children_are_started_by_frozen_programs_with_hooks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them, the program would start itself again, and so on."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(DeviceError, match=r"kernels are compiled in a separate Python process.*finds clgraph's hooks"):
        child.run("clgraph.core.version", {}, 10, "/tmp")
    monkeypatch.setattr(sys, "starts_clgraph_modules", True, raising=False)
    assert child.run("clgraph.core.version", {}, 10, "/tmp").why == "it ended with status 0 and no result"
    with pytest.raises(DeviceError, match="sessions of a forked process run in a separate Python process"):
        child.check_interpreter("sessions of a forked process run")
