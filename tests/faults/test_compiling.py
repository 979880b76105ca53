"""Kernels that do not build and compilers that crash or hang: one KernelBuildError, and the engine works on."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.errors import DeviceError, KernelBuildError
from clgraph.runtime import child
from clgraph.runtime.engine import Engine
from clgraph.runtime.instruction_sets import of_host
from clgraph.runtime.programs import Programs
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl

COMPILERS = {
    "crashes": ("kill -SEGV $$", r"library x cannot be compiled for pocl:0 .*it crashed \(SIGSEGV\)", True),
    "aborts": ("echo LLVM ERROR: no >&2; kill -ABRT $$", r"it crashed \(SIGABRT\).*:\nLLVM ERROR: no$", True),
    "warns": ("echo '326 warnings generated.' >&2; kill -ILL $$", r"it crashed \(SIGILL\)[^\n]*$", True),
    "takes too long": ("kill -XCPU $$", "it took more than 1200 s of CPU time", True),
    "is killed": ("kill -KILL $$", r"it crashed \(SIGKILL\)", False),
    "waits for ever": ("exec sleep 60", "it waited 0 s for nothing", True),
    "fails in silence": ("exit 3", "it ended with status 3 and no result", True),
    "prints bytes": (r"printf '\377\376'; exit 1", "no result[^\n]*:\n\ufffd\ufffd$", True),
    "finds errors": ('echo \'{"why": "kernel x does not compile"}\'', "^kernel x does not compile$", False),
    "leaves nothing": ('echo \'{"why": ""}\'', "does not compile|does not take back", False),
}
"""What the process that compiles a library does, what is said then, and whether that is remembered."""


def compiler(folder: Path, script: str) -> str:
    """Return a program that takes the place of Python, and counts its runs in the file ``runs``."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\ncat >{folder}/work\necho >>{folder}/runs\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("what", COMPILERS)
def test_a_compiler_that_dies_or_hangs_is_one_error_and_is_not_started_again(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if not engine.info.name.startswith("pocl"):
        pytest.skip("the messages name PoCL")
    script, said, remembered = COMPILERS[what]
    text = f"__kernel void executor_tiles(__global int* x) {{ x[0] = 1 }} // {tmp_path}"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", compiler(tmp_path, script))
        patch.setattr(child, "_IDLE_SECONDS", 0.2)
        patch.setattr(child, "_POLL_SECONDS", 0.2)
        with pytest.raises(KernelBuildError, match=re.compile(said, re.DOTALL)) as first:
            engine.build(text, "library x", library=True)
        with pytest.raises(KernelBuildError) as second:
            engine.build(text, "library x", library=True)
    assert str(second.value).startswith(str(first.value)) or not remembered
    assert ("remove that to do so" in str(second.value)) == remembered
    assert len((tmp_path / "runs").read_text().splitlines()) == (1 if remembered else 2)
    assert engine.build(text.replace("= 1 }", "= 1; }"), "x")


def test_the_error_of_a_compiler_that_died_names_cpu_instruction_set_and_setting(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine.device.record.simd < 8:
        pytest.skip("there is no narrower instruction set to name")
    monkeypatch.setattr(sys, "executable", compiler(tmp_path, "kill -SEGV $$"))
    with pytest.raises(KernelBuildError) as caught:
        engine.build(f"// {tmp_path}", "library x", library=True)
    record = engine.device.record
    narrower = next(r.name for r in of_host() if r.simd < record.simd)
    for named in (engine.device.label, record.name, record.cpu, f"CLGRAPH_POCL_ISA={narrower} "):
        assert named in str(caught.value)


def test_without_an_interpreter_no_library_is_compiled_in_the_users_process(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(DeviceError, match=r"sys\.executable does not name"):
        engine.build(f"// {tmp_path}", "library x", library=True)


def test_a_compiler_that_cannot_be_started_is_one_error(engine: Engine, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(KernelBuildError, match="cannot be compiled"):
        engine.build(f"// {tmp_path}", "library x", library=True)


def test_whichever_kernel_of_a_model_does_not_build_the_next_try_is_right(device: str, monkeypatch) -> None:
    model = clgraph.compile(small_model(size="n"), device=device)
    x = image((1, 3, 10, 10))
    want = clgraph.compile(small_model(size="n"), device=device)(x)
    build = Programs.build
    for number in range(1, 50):
        calls = 0

        def failing(self: Programs, text: str, what: str, *, library: bool = False, at: int = number) -> bool:
            nonlocal calls
            calls += 1
            if calls == at:
                raise KernelBuildError(f"kernel {what} does not compile")
            return build(self, text, what, library=library)

        with monkeypatch.context() as patch:
            patch.setattr(Programs, "build", failing)
            try:
                model.prepare({"x": x.shape})
            except KernelBuildError:
                assert not model._specialisations.kept
            else:
                break
    assert number > 1
    np.testing.assert_array_equal(model(x), want)
