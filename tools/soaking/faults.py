"""Faults below clgraph: what the driver refuses, fails and forgets, and files that go or change."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clgraph.errors import ClgraphError, DeviceError, DeviceMemoryError, KernelBuildError
from clgraph.network import result_memory, tensors
from clgraph.runtime import driver, kernels, memory
from clgraph.runtime.opencl import OpenCL
from clgraph.runtime.programs import Programs
from clgraph.runtime.stream import Stream

EXPECTED: dict[str, tuple[type[ClgraphError], ...]] = {
    "memory": (DeviceMemoryError,),
    "launch": (DeviceError,),
    "finish": (DeviceError,),
    "build": (KernelBuildError,),
    "cache": (),
}
"""What may come of each fault. Whatever becomes of the cache, nothing does."""

OUT_OF_RESOURCES = -5


class Faults:
    """Lets calls of the driver fail, one in a few, while a fault of their kind goes on.

    Attributes:
        caused: Calls that failed, and files that were damaged, by kind.
    """

    def __init__(self, seed: int, cache: Path, every: int = 6) -> None:
        """Take the places of the driver's functions, for good; *cache* is the folder that is damaged."""
        self._random, self._cache, self._every = random.Random(seed), cache, every
        self._lock = threading.Lock()
        self._now = ""
        self._ended: list[tuple[float, str]] = []
        self.caused: Counter[str] = Counter()
        self._install()

    def begin(self, kind: str) -> None:
        """Let calls of *kind* fail from now on."""
        with self._lock:
            self._now = kind

    def end(self) -> None:
        """Let no calls fail any more."""
        with self._lock:
            if self._now:
                self._ended = [*self._ended[-20:], (time.monotonic(), self._now)]
            self._now = ""

    def expected(self, since: float) -> tuple[type[ClgraphError], ...]:
        """Return the errors that may come of what went on at any time *since* then."""
        with self._lock:
            kinds = {kind for at, kind in self._ended if at >= since} | {self._now} - {""}
        return tuple(error for kind in sorted(kinds) for error in EXPECTED[kind])

    def damage_cache(self) -> None:
        """Cut, overwrite or remove something in the cache folder.

        What PoCL keeps is removed only: PoCL loads it unseen, and it is looked at once a process, when that begins.
        """
        files = [p for p in self._cache.rglob("*") if p.is_file() and not p.is_symlink()]
        if not files:
            return
        victim = self._random.choice(files)
        way = self._random.randrange(2 if self._cache / "pocl" in victim.parents else 4)
        self.caused["cache"] += 1
        try:
            if way == 0:
                victim.unlink()
            elif way == 1:
                shutil.rmtree(victim.parent if victim.parent != self._cache else victim, ignore_errors=True)
            else:
                content = victim.read_bytes()
                damaged = content[: len(content) // 2] if way == 2 else bytes(b ^ 0x5A for b in content[:4096])
                beside = victim.with_name(f"{victim.name}.damaged")
                beside.write_bytes(damaged)
                beside.chmod(victim.stat().st_mode)
                beside.replace(victim)
        except OSError:  # who is at work there was faster
            return

    def _fails(self, kind: str) -> bool:
        if self._now != kind:
            return False
        with self._lock:
            if self._now != kind or self._random.randrange(self._every):
                return False
            self.caused[kind] += 1
            return True

    def _install(self) -> None:
        cl: Any = driver.load()
        cl.Buffer = self._failing_memory(cl.Buffer, lambda: _error(cl, cl.MemoryError, -4, "clCreateBuffer"))
        for module in (memory, tensors, result_memory):
            module.aligned = self._failing_memory(module.aligned, MemoryError)  # type: ignore[attr-defined]
        calls = kernels._functions(cl)
        enqueue = calls["clEnqueueNDRangeKernel"]
        calls["clEnqueueNDRangeKernel"] = lambda *args: OUT_OF_RESOURCES if self._fails("launch") else enqueue(*args)
        finish: Callable[[Stream], None] = Stream.finish

        def failing_finish(stream: Stream) -> None:
            finish(stream)
            if self._fails("finish"):
                raise DeviceError("the device failed: clFinish failed: OUT_OF_RESOURCES")

        Stream.finish = failing_finish  # type: ignore[method-assign]
        self._install_builds(cl)

    def _install_builds(self, cl: Any) -> None:
        """Let kernels that were built before be built again, and not: few are new while models come and go."""
        build_kernel, build, here = Programs.build, OpenCL.build, threading.local()

        def forgetful(programs: Programs, text: str, what: str, *, library: bool = False) -> bool:
            here.fails = not library and self._fails("build")
            if here.fails:
                programs._built.pop((text, library), None)
            try:
                return build_kernel(programs, text, what, library=library)
            finally:
                here.fails = False

        def failing(opencl: OpenCL, *args: Any) -> Any:
            if getattr(here, "fails", False):
                raise _error(cl, cl.RuntimeError, -11, "clBuildProgram")
            return build(opencl, *args)

        Programs.build = forgetful  # type: ignore[method-assign]
        OpenCL.build = failing  # type: ignore[method-assign]

    def _failing_memory(self, work: Callable[..., Any], error: Callable[[], Exception]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self._fails("memory"):
                raise error()
            return work(*args, **options)

        return call


def _error(cl: Any, kind: Any, code: int, routine: str) -> Exception:
    made: Exception = kind(cl._cl._ErrorRecord(routine, code, "a fault that was put in"))
    return made
