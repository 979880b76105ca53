"""NVIDIA GPUs that there are, in place of the emulator: what it is asked of launches, they are asked, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from clgraph.errors import DeviceError
from clgraph.runtime.device import Device, find_device
from clgraph.runtime.engine import BoundKernel, Engine
from clgraph.runtime.stream import Stream
from clgraph.selector.query import SM80
from tests.support.ptx import emulator


def nvidia_gpu(names: Iterable[str]) -> Device | None:
    """Return the first device of those *names* that runs kernels with PTX of compute capability 8.0."""
    for name in names:
        try:
            device = find_device(name)
        except DeviceError:
            continue
        if device.info.features >= SM80:
            return device
    return None


class NvidiaEngine(Engine):
    """An engine of an NVIDIA GPU that tests take for the emulator's.

    Attributes:
        seed, late: Of the emulator; nothing here.
        ran: Every launch of a kernel with PTX so far: its entry, its grid, and 1.0, which nothing has counted.
    """

    seed, late = 1, True

    def __init__(self, device: Device, *features: str) -> None:
        """Open *device* with *features* more, such as the precisions that a user asks for."""
        super().__init__(replace(device, info=replace(device.info, features=device.info.features | set(features))))
        self.ran: list[tuple[str, tuple[int, ...], float]] = []

    def kernel(self, text: str, entry: str, args: list[Any], *, library: bool = False, what: str = "") -> Any:
        """Return the kernel with its arguments bound; its launches are noted where it has PTX."""
        made = super().kernel(text, entry, args, library=library, what=what)
        return _Noted(made, self.ran, entry) if emulator.needs_emulation(text) else made


class _Noted:
    """A kernel whose launches are noted."""

    def __init__(self, made: BoundKernel, ran: list[tuple[str, tuple[int, ...], float]], entry: str) -> None:
        self._made, self._ran, self._entry = made, ran, entry

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def on(self, stream: Stream, grid: tuple[int, ...], group: tuple[int, ...] | None) -> Callable[[], Any]:
        """Return the step that runs the kernel."""
        launch = self._made.on(stream, grid, group)

        def step() -> Any:
            self._ran.append((self._entry, grid, 1.0))
            return launch()

        return step
