"""Tile steps that follow each other as one launch, on devices that can run them so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from clgraph.errors import DeviceError
from clgraph.network.steps import Command, Segment
from clgraph.network.tiles import TileExecutor
from clgraph.runtime import executor as executors

_log = logging.getLogger(__name__)


def join(found: Sequence[Command], joins: Callable[[TileExecutor], bool]) -> list[Command]:
    """Return the commands of *found* with tile steps of one table that follow each other as one.

    Args:
        joins: Whether the steps of a table may be joined.
    """
    groups: list[list[Command]] = []
    number_of: list[int] = []
    table: TileExecutor | None = None
    for command in found:
        executor = command.work.executor if isinstance(command.work, Segment) else None
        if executor is not None and executor is table:
            groups[-1].append(command)
        else:
            groups.append([command])
            table = executor if executor is not None and joins(executor) else None
        number_of.append(len(groups) - 1)
    made = []
    for number, (first, *others) in enumerate(groups):
        needs = {number_of[n] for command in (first, *others) for n in command.after}
        after, work = tuple(sorted(needs - {number})), first.work
        if others and isinstance(work, Segment) and isinstance(others[-1].work, Segment):
            work = replace(work, last=others[-1].work.last)
        made.append(replace(first, work=work, after=after, joined=(first, *others) if others else ()))
    return made


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
