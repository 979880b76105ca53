"""Kernels that do not build and compilers that crash or hang: one KernelBuildError, and the engine works on."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.errors import KernelBuildError
from clgraph.runtime import binaries
from clgraph.runtime.engine import Engine
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl

COMPILERS = {
    "crashes": ("kill -SEGV $$", "crashed on library x .SIGSEGV"),
    "aborts": ("echo LLVM ERROR: out of memory >&2; kill -ABRT $$", "crashed on library x .SIGABRT.:\nLLVM ERROR"),
    "is killed": ("kill -KILL $$", "crashed on library x .SIGKILL"),
    "hangs": ("exec sleep 60", "timed out"),
    "fails in silence": ("exit 3", "library x: its compiler ended with status 3 and said nothing"),
    "prints bytes": (r"printf '\377\376'; exit 1", "^\ufffd\ufffd$"),
}
"""What the process that compiles a library does, and what is said then."""


def compiler(folder: Path, script: str) -> str:
    """Return a program that takes the place of Python."""
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize("what", COMPILERS)
def test_a_compiler_that_dies_or_hangs_is_one_error(engine: Engine, tmp_path: Path, monkeypatch, what: str) -> None:
    script, said = COMPILERS[what]
    text = f"__kernel void executor_tiles(__global int* x) {{ x[0] = 1; }} // {tmp_path}"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", compiler(tmp_path, script))
        patch.setattr(binaries, "_CHILD_SECONDS", 0.3)
        for _ in range(2):
            with pytest.raises(KernelBuildError, match=said):
                engine.build(text, "library x", library=True)
    assert engine.build(text, "x")


def test_a_compiler_that_cannot_be_started_is_one_error(engine: Engine, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(KernelBuildError, match="cannot be compiled"):
        engine.build(f"// {tmp_path}", "library x", library=True)


def test_whichever_kernel_of_a_model_does_not_build_the_next_try_is_right(device: str, monkeypatch) -> None:
    model = clgraph.compile(small_model(size="n"), device=device)
    x = image((1, 3, 10, 10))
    want = clgraph.compile(small_model(size="n"), device=device)(x)
    build = Engine.build
    for number in range(1, 50):
        calls = 0

        def failing(self: Engine, text: str, what: str, *, library: bool = False, at: int = number) -> bool:
            nonlocal calls
            calls += 1
            if calls == at:
                raise KernelBuildError(f"kernel {what} does not compile")
            return build(self, text, what, library=library)

        with monkeypatch.context() as patch:
            patch.setattr(Engine, "build", failing)
            try:
                model.prepare({"x": x.shape})
            except KernelBuildError:
                assert not model._specialisations.kept
            else:
                break
    assert number > 1
    np.testing.assert_array_equal(model(x), want)
