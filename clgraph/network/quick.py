"""A run with nothing left to decide: feeds that are just what the program reads, and results in new arrays.

An operator on a small tensor computes for a microsecond or two. All else that a run does is prepared here once: what
feeds have to be, where they are copied, the launches, and where results are copied from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.graph.faults import faults
from clgraph.network.ending import give_up
from clgraph.runtime.memory import Memory

if TYPE_CHECKING:
    from clgraph.core.mapped import MappedFile
    from clgraph.graph.primitive import Array
    from clgraph.network.bound_subgraph import BoundSubgraph
    from clgraph.network.feed import Feed
    from clgraph.network.image_parts import ImagedFeed, ImagedLaunches, ImagedResult
    from clgraph.network.result import Result
    from clgraph.network.workspace import Workspace
    from clgraph.runtime.engine import Engine


def _nothing() -> None:
    """Do what there is to do where nothing is."""


class QuickRun:
    """Runs a network on arrays that are just what it reads, in a thread that is no daemon or behind the drivers' gate.

    Attributes:
        runs: How many are over.
    """

    __slots__ = (
        "_bound",
        "_failures",
        "_feeds",
        "_files",
        "_finish",
        "_forget",
        "_large",
        "_lock",
        "_near",
        "_passing",
        "_results",
        "_steps",
        "_words",
        "runs",
    )

    def __init__(
        self,
        engine: Engine | None,
        bound: Sequence[BoundSubgraph | ImagedLaunches],
        feeds: Sequence[Feed | ImagedFeed],
        results: Sequence[Result | ImagedResult],
        workspace: Workspace,
        files: Sequence[MappedFile],
        forget: Callable[[], None] = _nothing,
    ) -> None:
        """Take the only subgraph of a network, or none, what goes in and out, and the *files* that constants lie in.

        Args:
            engine: The device's, ``None`` where the host computes all.
            forget: Called when a run is over.
        """
        self._bound, self._lock, self.runs, self._forget = tuple(bound), workspace.lock, 0, forget
        self._failures = () if engine is None else engine.failures
        self._files, self._near = tuple(files), workspace.constants.near
        self._steps = tuple(step for each in bound for step in each.steps)
        self._finish = _nothing if engine is None else engine.stream.finish
        self._words = tuple(executor.word for each in bound for executor in each.joined)
        self._feeds = tuple(
            (feed, feed.name, feed.dtype, feed.shape, None if feed.passes else feed.view, feed.kept is not None)
            for feed in feeds
        )
        self._passing = tuple(feed for feed in feeds if feed.passes)
        self._results = tuple((result, result.name, result.small_view) for result in results)
        self._large = tuple(result for result in results if result.small_view is None)

    @property
    def results(self) -> tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]:
        """Name, element type and shape of each result."""
        return tuple((name, result.dtype, result.shape) for result, name, _ in self._results)

    def __call__(self, feeds: Mapping[str, Any]) -> dict[str, Array] | None:
        """Return new arrays of all results; ``None``, and nothing is done, where *feeds* are anything else.

        Of an input that nodes update it is the device's memory that is fed.

        Raises as :meth:`clgraph.network.network.Network.run`.
        """
        if len(feeds) != len(self._feeds):
            return None
        held: list[tuple[Feed | ImagedFeed, Array | None, Any]] = []
        for feed, name, dtype, shape, view, kept in self._feeds:
            given = feeds.get(name)
            if kept:
                if not isinstance(given, Memory) or given.start:
                    return None
                held.append((feed, None, given))
                continue
            if type(given) is not np.ndarray or given.shape != shape:
                return None
            if given.dtype is not dtype and given.dtype != dtype:  # equal ones of arrays that were pickled
                return None
            if view is None and not given.flags.c_contiguous:
                return None
            held.append((feed, view, given))
        with self._lock:
            if self._files:
                for file in self._files:
                    file.check()
                self._near.begin()
            found: dict[str, Any] = {}
            try:
                for result in self._large:
                    result.begin(None, ())
                for feed, view, given in held:
                    if view is None:
                        feed.write(given, passing=True)
                    else:
                        feed.how = "copied"
                        view[...] = given
                for step in self._steps:
                    step()
                self._finish()
                for word in self._words:
                    if word[0]:
                        self._check()
                self.runs += 1
                for result, name, view in self._results:
                    if view is None:
                        found[name] = result.end()
                    else:
                        result.how = "copied"
                        found[name] = view.copy()
            except BaseException as error:  # an interrupt, too, must leave nothing in flight
                with faults("a run of the model"):
                    give_up(error, self._failures, self._finish, self._check)
                    raise
            finally:
                self._forget()
                for feed in self._passing:
                    feed.given = None
                for result in self._large:
                    result.release()
            return found

    def _check(self) -> None:
        for bound in self._bound:
            bound.check()


def quick_run(
    engines: Mapping[str, Engine],
    subgraphs: Sequence[BoundSubgraph],
    feeds: Sequence[Feed],
    results: Sequence[Result],
    workspace: Workspace,
    files: Sequence[MappedFile],
    forget: Callable[[], None],
) -> QuickRun | None:
    """Return what runs a network quickly, ``None`` where a caller's queue or several placements have a part.

    Args:
        forget: Drops what the host holds of a run.
    """
    if not engines and len(subgraphs) <= 1 and all(feed.is_on_host for feed in feeds):
        return QuickRun(None, subgraphs, feeds, results, workspace, files, forget)
    if len(engines) != 1 or len(subgraphs) > 1:
        return None
    (placement,) = (s.subgraph.placement for s in subgraphs) if subgraphs else engines
    engine = engines.get(placement)
    if engine is None or engine.on_callers_queue or "host_memory" not in engine.info.features:
        return None
    plain = all(feed.is_plain or feed.kept is not None for feed in feeds) and all(r.is_plain for r in results)
    return QuickRun(engine, subgraphs, feeds, results, workspace, files) if plain else None
