"""Tile steps that follow each other as one launch, on devices that can run them so."""

from __future__ import annotations

from clgraph.core.log import Log
from clgraph.errors import DeviceError
from clgraph.network.tiles import TileExecutor
from clgraph.runtime import executor as executors

_log = Log(__name__)


class Joining:
    """Decides for each placement and library whether tile steps are joined, and keeps why not.

    Attributes:
        reasons: Why the steps of a placement are not joined, as far as that was asked about.
    """

    def __init__(self, executor: str) -> None:
        """Go by the option *executor*: ``stream``, ``persistent`` or ``auto``."""
        self.reasons: dict[str, str] = {}
        self._executor = executor
        self._answers: dict[tuple[str, str], str | None] = {}

    def allows(self, placement: str, tiles: TileExecutor) -> bool:
        """Whether consecutive steps of *tiles*, on *placement*, are run as one launch.

        Raises:
            DeviceError: They are not, and the persistent executor was asked for.
        """
        if self._executor == "stream":
            return False
        engine, library = tiles.engine, tiles.table.library
        if (placement, library.name) in self._answers:
            return self._answers[placement, library.name] is None
        why = "its queue runs out of order" if engine.stream.out_of_order else executors.refusal(engine, library)
        self._answers[placement, library.name] = why
        if why is not None and placement not in self.reasons:
            self.reasons[placement] = why
            if self._executor == "persistent":
                raise DeviceError(f"{placement} cannot run the persistent executor: {why}; use executor=stream")
            if engine.info.kind == "cpu" and not engine.stream.out_of_order:
                _log.warning("%s: tile functions are run one by one: %s", placement, why)
        return why is None
