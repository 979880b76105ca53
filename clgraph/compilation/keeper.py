"""Deferred writing of compiled models to the model cache: in the background, and only if programs were added."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace

from clgraph.model.keys import Key
from clgraph.model.specialisation import Specialisation
from clgraph.model.specialisations import MEMBERS

Made = Mapping[Key, Specialisation]

MOST_WHOLE = 8
"""How many programs that are bound to no family an entry has; those used last."""
_DELAY_SECONDS = 2.0
"""When a model is written that nothing was asked of meanwhile; at the end of the process in any case."""
_LONGER = 2.0
"""How many times as long a model waits that has been written before."""


class Keeper:
    """Listener of a model's specialisations that writes them to the cache when programs or size schemas were added."""

    def __init__(self, write: Callable[[Made], None]) -> None:
        """Call *write* with what is to be kept, without networks."""
        self._write = write
        self._programs: Callable[[], Made] = dict
        self._kept: set[Hashable] = set()
        self._waiting: dict[Key, Specialisation] = {}
        self._seconds = _DELAY_SECONDS
        self._later: Later | None = None
        self._lock = threading.Lock()

    def has(self, kept: Collection[Key], programs: Callable[[], Made]) -> None:
        """Mark the programs of these keys as written; *programs* returns them, to be written again with new ones."""
        self._kept, self._programs = set(kept), programs

    def forget(self) -> None:
        """Mark nothing as written, because the entry is damaged."""
        with self._lock:
            self._kept, self._programs = set(), dict

    def __call__(self, made: Made) -> None:
        """Take what is *made* now, what was asked for last at the end."""
        with self._lock:
            found = _contents(made)
            if found <= self._kept and self._later is None:
                return
            self._kept |= found
            self._waiting = _last(self._waiting, made)
            if self._later is not None:
                return
            self._later = later = Later(self._finish, self._seconds)
        later.start()

    def finish(self) -> None:
        """Write pending programs now, because they keep constants alive."""
        with self._lock:
            later = self._later
        if later is not None:
            later.finish()

    def _finish(self) -> None:
        with self._lock:
            made, self._waiting, self._later = self._waiting, {}, None
            self._seconds *= _LONGER
        self._write(_last(self._programs(), made))


def _last(before: Made, now: Made) -> dict[Key, Specialisation]:
    """Return what an entry has of both: the members asked for last, and the other programs, without networks."""
    made = {**{key: s for key, s in before.items() if key not in now}, **now}
    members = [key for key, s in made.items() if s.bound][:-MEMBERS]
    whole = [key for key, s in made.items() if not s.bound][:-MOST_WHOLE]
    dropped = {*members, *whole}
    return {key: replace(s, network=None) for key, s in made.items() if key not in dropped}


def _contents(made: Made) -> set[Hashable]:
    """Return what an entry of *made* has: the keys of programs that are no members, and how many schemas are new."""
    found: set[Hashable] = {key for key, s in made.items() if not s.bound}
    tried = max((s.families.made for s in made.values() if s.families is not None), default=0)
    return found | ({tried} if tried else set())


class Later:
    """Deferred work: done once, after a delay or at the end of the process."""

    def __init__(self, work: Callable[[], None], seconds: float) -> None:
        """Take *work* for in so many *seconds*."""
        self._work: Callable[[], None] | None = work
        self._seconds, self._process = seconds, os.getpid()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the delay."""
        atexit.register(self.finish)
        timer = threading.Timer(self._seconds, self.finish)
        timer.daemon, timer.name = True, "clgraph-keep"
        timer.start()

    def finish(self) -> None:
        """Do the work if it is not done, or wait for the thread that is at it; a forked child has no such thread."""
        if self._process != os.getpid():
            return
        with self._lock:
            work, self._work = self._work, None
            if work is not None:
                work()
        atexit.unregister(self.finish)
