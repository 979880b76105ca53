"""Engines that are NVIDIA's, Intel's or AMD's to those who choose kernels: what has their instructions is emulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from clgraph.core.aligned import ALIGNMENT
from clgraph.runtime.device import find_device, with_class
from clgraph.runtime.memory import Memory
from tests.support.ptx import emulator
from tests.support.quick_engine import QuickEngine

FEATURES = frozenset({"nvidia_ptx", "sm70", "sm75", "sm80"})


def emulated(*features: str, **device: Any) -> EmulatedEngine:
    """Return an engine of another vendor's GPU, with a middling profile but for the fields of *device*."""
    fields = {"compute_units": 32, "local_bytes": 64 << 10, "flops": 2e13, "bytes_per_second": 5e11, **device}
    return EmulatedEngine(base=frozenset(features), **fields)


class EmulatedEngine(QuickEngine):
    """An engine whose kernels with a GPU's instructions run in the emulator, with the arguments that a network binds.

    Attributes:
        seed, late: As :func:`tests.support.ptx.emulator.run` takes them.
        ran: Every emulated launch so far: its entry, its grid, and the passes that it took to read matrices for each
            that is needed.
        change: What is done to a kernel's text first: how tests plant faults.
    """

    def __init__(self, *features: str, base: frozenset[str] = FEATURES, **device: Any) -> None:
        """Open PoCL as the device of an H200's profile, but for the fields of *device* and its features *base*."""
        gpu = with_class(find_device("pocl"), "gpu")
        h200 = {"compute_units": 132, "local_bytes": 48 << 10, "max_work_group": 1024, "flops": 6.05e13}
        fields = {**h200, "bytes_per_second": 4.2e12, "launch_seconds": 6e-6, "vendor": "NVIDIA Corporation", **device}
        super().__init__(replace(gpu, info=replace(gpu.info, features=base | set(features), **fields)))
        self.seed, self.late = 1, True
        self.ran: list[tuple[str, tuple[int, ...], float]] = []
        self.change: Callable[[str], str] = lambda text: text

    def build(self, text: str, what: str, *, library: bool = False) -> bool:
        """Build a program, but for what is emulated."""
        return not emulator.needs_emulation(text) and super().build(text, what, library=library)

    def kernel(self, text: str, entry: str, args: list[Any], *, library: bool = False, what: str = "") -> Any:
        """Return the kernel with its arguments bound, emulated or PoCL's own."""
        if not emulator.needs_emulation(text):
            return super().kernel(text, entry, args, library=library, what=what)
        return _Kernel(self, self.change(text), entry, args)


class _Kernel:
    """An emulated kernel: its tensors are copied out of OpenCL's memory and back."""

    def __init__(self, engine: EmulatedEngine, text: str, entry: str, args: list[Any]) -> None:
        self._engine, self._text, self._entry, self._args = engine, text, entry, args
        self.held = [a for a in args if isinstance(a, Memory)]

    def set(self, index: int, memory: Memory) -> None:
        """Bind argument *index* to *memory*."""
        self._args[index] = memory

    def on(self, stream: Any, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Callable[[], Any]:
        """Return the step that runs the kernel."""
        assert group is not None

        def step() -> None:
            engine = self._engine
            arrays = {id(m): _array(m.nbytes) for m in self._args if isinstance(m, Memory)}
            for memory in (m for m in self._args if isinstance(m, Memory)):
                stream.read(memory, 0, arrays[id(memory)])
            args = [arrays[id(a)] if isinstance(a, Memory) else a for a in self._args]
            passes = emulator.run(self._text, self._entry, args, grid, group, seed=engine.seed, late=engine.late)
            engine.ran.append((self._entry, grid, passes))
            for memory in (m for m in self._args if isinstance(m, Memory)):
                stream.write(memory, 0, arrays[id(memory)])
            stream.finish()

        return step


def _array(nbytes: int) -> Any:
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]
