"""Sessions of processes that were forked after OpenCL was used: their models run in another process, started afresh.

The threads of OpenCL's drivers do not survive a fork. The sessions of a forked process share one such process, which
ends with the last of them; it is told what their models are compiled of, and the feeds of every run.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any, Protocol, cast

from clgraph.errors import ClgraphError, DeviceError
from clgraph.model.model import Model
from clgraph.network.cancelling import Cancellation
from clgraph.onnxruntime.loading import Compilation
from clgraph.onnxruntime.notes import log
from clgraph.onnxruntime.statuses import StatusError
from clgraph.runtime.child import check_interpreter
from clgraph.runtime.process import is_left

HOST = "host"
"""The device that every process can use."""


class Forking(Protocol):
    """What is told that its process was forked after OpenCL was used."""

    def leave(self) -> None:
        """Let another process run the model."""


FORKING: weakref.WeakSet[Forking] = weakref.WeakSet()
"""What there is to be told."""


def _leave() -> None:
    if is_left():
        for session in list(FORKING):
            session.leave()


os.register_at_fork(after_in_child=_leave)


def made(compilation: Compilation) -> Model:
    """Return the model of a session, compiled here where that can be; raises as :meth:`Compilation.made`."""
    if not is_left() or compilation.provided.device == HOST:
        return compilation.made()
    told = replace(compilation, provided=replace(compilation.provided, device=HOST, config={})).made()
    return elsewhere(told, lambda: compilation)


def elsewhere(model: Model, compilation: Callable[[], Compilation]) -> Model:
    """Return *model*, whose runs are another process's, which compiles it of *compilation*."""
    return cast("Model", _Elsewhere(model, compilation))


class _Elsewhere:
    """A model whose runs are executed by another process, because OpenCL's threads do not survive a fork."""

    _numbers = itertools.count()

    def __init__(self, model: Model, compilation: Callable[[], Compilation]) -> None:
        self._model, self._compilation, self._number = model, compilation, next(self._numbers)
        self._process: _Process | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def run_quickly(self, feeds: Mapping[str, Any]) -> None:
        """Return ``None``: no run is made here."""

    def run(
        self, feeds: Mapping[str, Any], outputs: Any = None, cancellation: Cancellation | None = None
    ) -> dict[str, Any]:
        """Return the results by name; a run that has begun is not ended by *cancellation*.

        Raises:
            DeviceError: The other process has ended.
        """
        if cancellation is not None:
            cancellation.check()
        found = self._shared().run(self, self._number, self._compilation, feeds, outputs)
        for name, place in outputs.items() if isinstance(outputs, Mapping) else ():
            if place is not None:
                place[...], found[name] = found[name], place
        return found

    def _shared(self) -> _Process:
        """Return the process, that of another model where there is one."""
        if self._process is None or not self._process.answers:
            found = PROCESSES.get(os.getpid())
            self._process = found if found is not None and found.answers else _Process()
        return self._process


class _Process:
    """The other process. Calls from several threads are answered one after the other."""

    def __init__(self) -> None:
        check_interpreter("sessions of a forked process run")
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._known: set[int] = set()
        self._gone: list[int] = []
        self._asked, theirs = multiprocessing.Pipe()
        path = [p for p in sys.path if isinstance(p, str)]
        code = f"import sys\nsys.path[:] = {path!r}\nfrom clgraph.onnxruntime.forked import answer\n"
        command = [sys.executable, "-c", f"{code}answer({theirs.fileno()})"]
        log.warning(
            "OpenCL was used before process %s was forked: its sessions run in another process, which costs copies of "
            "feeds and results; start processes with the 'spawn' method, or create sessions in them only",
            self._owner,
        )
        self._started = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
        theirs.close()
        self._ending = weakref.finalize(self, _end, self._owner, self._asked, self._started)
        PROCESSES[self._owner] = self

    @property
    def answers(self) -> bool:
        """Whether it has not been ended and is this process's own: a forked one has its parent's, too."""
        return self._ending.alive and self._owner == os.getpid()

    def run(
        self,
        model: _Elsewhere,
        number: int,
        compilation: Callable[[], Compilation],
        feeds: Mapping[str, Any],
        outputs: Any,
    ) -> dict[str, Any]:
        with self._lock:
            new = None if number in self._known else compilation()
            try:
                self._asked.send((self._gone, number, new, dict(feeds), outputs))
                self._gone.clear()
                known, error, found = self._asked.recv()
            except BaseException as ended:
                # The answer to a call that was interrupted would be taken for the next one's.
                self._ending()
                if isinstance(ended, EOFError | OSError):
                    raise DeviceError("the process that ran the sessions of this forked one has ended") from ended
                raise
            if known and new is not None:
                self._known.add(number)
                weakref.finalize(model, self._gone.append, number)
        if error is not None:
            raise error(found)
        return cast("dict[str, Any]", found)


PROCESSES: weakref.WeakValueDictionary[int, _Process] = weakref.WeakValueDictionary()
"""Those that models have, by the process that started them."""


def _end(owner: int, asked: Connection, started: subprocess.Popen[bytes]) -> None:
    """End a process, where this one has started it; the next run starts another."""
    asked.close()
    if owner == os.getpid():
        started.kill()
        started.wait()


def answer(descriptor: int) -> None:
    """Compile and run models for the process at the other end of a pipe, until it ends."""
    asked, models = Connection(descriptor), dict[int, Model]()
    while True:
        try:
            gone, number, compilation, feeds, outputs = asked.recv()
        except EOFError:
            return
        for other in gone:
            models.pop(other, None)
        error: type[ClgraphError] | None = None
        found: Any
        try:
            if compilation is not None:
                models[number] = compilation.made()
            found = models[number].run(feeds, outputs=outputs)
        except ClgraphError as raised:
            error, found = type(raised), raised.message if isinstance(raised, StatusError) else str(raised)
        asked.send((number in models, error, found))
