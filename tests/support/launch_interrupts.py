"""Interrupts behind a launch, before the calling thread does its own part of it."""

from __future__ import annotations

from typing import Any

import pytest

from clgraph.network.tile_kernels import TileKernels
from clgraph.runtime.stream import Stream


class LaunchInterrupts:
    """Raises ``KeyboardInterrupt`` behind the next launch, once it is armed.

    Attributes:
        tiles: The tables of networks that were bound since.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed = False
        self.tiles: list[TileKernels] = []
        launch, init = Stream.launch, TileKernels.__init__

        def interrupted(stream: Stream, *given: Any) -> Any:
            step = launch(stream, *given)

            def then() -> None:
                step()
                if self.armed:
                    self.armed = False
                    raise KeyboardInterrupt

            return then

        def kept(tiles: TileKernels, *given: Any) -> None:
            self.tiles.append(tiles)
            init(tiles, *given)

        monkeypatch.setattr(Stream, "launch", interrupted)
        monkeypatch.setattr(TileKernels, "__init__", kept)

    @property
    def leaves_counters(self) -> bool:
        """Whether a worker would find what others have left, and set it back while these are at work."""
        arrays = [tiles._counters.array for tiles in self.tiles]
        return any(array.any() for array in arrays if array is not None)
