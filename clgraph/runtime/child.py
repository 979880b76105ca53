"""Child processes with limits for compiler work, so that a crash of a driver does not end the main process."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.errors import DeviceError, RunCancelledError
from clgraph.handlers import pass_on

_POLL_SECONDS = 5.0
_IDLE_SECONDS = 60.0
"""A child that has used no CPU for so long waits for something that does not come."""
_PR_SET_PDEATHSIG = 1
_BYTES = 4 << 30
_BYTES_A_CORE = 32 << 20
"""Of a child's data: drivers start a thread with its stack for each core."""


_running: dict[int, Callable[[], None]] = {}
"""What kills the child that a thread waits for, by the thread's number; taken out by whoever is first."""


@frozen
class Outcome:
    """The outcome of a child process.

    Attributes:
        result: What it printed last, read as JSON; ``None`` where it printed none or did not end by itself.
        why: Why there is no result: one line, without a name for the child. Empty where there is one.
        log: What it wrote to standard error.
        died: Whether its own work ended it, by a signal or at a limit: it would so again.
        hung: Whether it was ended because it waited; on a machine that is short of something it may not do so again.
    """

    result: Any = None
    why: str = ""
    log: str = ""
    died: bool = False
    hung: bool = False


def run(
    module: str, work: dict[str, Any], cpu_seconds: int, folder: str, environment: dict[str, str] | None = None
) -> Outcome:
    """Run ``python -m`` *module* with *work* as JSON on its standard input, and wait for it.

    Args:
        module: It calls :func:`limit` and :func:`end_with` before anything else, and prints its result as the last
            line.
        cpu_seconds: What its threads may use together.
        folder: For temporary files.
        environment: Variables in front of this process's.

    Raises:
        DeviceError: No Python interpreter is known to run it with.
        RunCancelledError: :func:`end_all` ended it.
    """
    # Imported only where a child is needed, once on a machine.
    import signal
    import subprocess
    import tempfile

    check_interpreter("kernels are compiled", by_module=True)
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    # A file, not a pipe: communicate() writes no more of its input after a timeout (CPython 3.11). What is longer than
    # a pipe holds would not come to a child that starts slowly.
    with tempfile.TemporaryFile(dir=folder) as given:
        given.write(json.dumps({**work, "cpu_seconds": cpu_seconds, "parent": os.getpid()}).encode())
        given.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", module],
                env={**os.environ, **(environment or {}), "PYTHONPATH": path},
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
            )
        except OSError as error:
            pass_on(error)
            return Outcome(why=f"it cannot be started: {error}")
    hung, here = False, threading.get_ident()
    _running[here] = process.kill
    with process:
        watch = _Watch(process.pid)
        while True:
            try:
                out, log = process.communicate(timeout=_POLL_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if watch.is_idle():
                    hung = True
                    process.kill()
            except BaseException:
                _running.pop(here, None)
                process.kill()
                raise
    if _running.pop(here, None) is None:
        raise RunCancelledError("compiler work was given up, as the process that waits for it ends")
    if hung:
        return Outcome(why=f"it waited {_IDLE_SECONDS:.0f} s for nothing", log=log, died=True, hung=True)
    status = process.returncode
    if status == -signal.SIGXCPU:
        return Outcome(why=f"it took more than {cpu_seconds} s of CPU time", log=log, died=True)
    if status < 0:
        own = -status in {signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE, signal.SIGBUS, signal.SIGTRAP}
        return Outcome(why=f"it crashed ({signal.Signals(-status).name})", log=log, died=own)
    try:
        return Outcome(json.loads(out.strip().rpartition("\n")[2]), log=log)
    except ValueError as error:
        pass_on(error)
        return Outcome(why=f"it ended with status {status} and no result", log=log or out, died=True)


def end_all() -> None:
    """End the children that this process waits for; those waits raise ``RunCancelledError``."""
    for thread in list(_running):
        if (kill := _running.pop(thread, None)) is not None:
            kill()


def check_interpreter(what: str, *, by_module: bool = False) -> None:
    """Check that ``sys.executable`` starts an interpreter, and not a frozen program anew.

    Args:
        what: What needs it.
        by_module: It is started with ``-m``, which frozen programs with clgraph's hooks obey.

    Raises:
        DeviceError: It does not.
    """
    hooked = by_module and getattr(sys, "starts_clgraph_modules", False)
    if not sys.executable or (getattr(sys, "frozen", False) and not hooked):
        way = "; PyInstaller finds clgraph's hooks where clgraph is installed by pip" if by_module else ""
        raise DeviceError(f"{what} in a separate Python process, and sys.executable does not name an interpreter{way}")


def limit(cpu_seconds: int) -> None:
    """Limit this process to *cpu_seconds* of CPU time of all threads, where the system can."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = cpu_seconds if hard == resource.RLIM_INFINITY else min(cpu_seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    core = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, core))


def end_with(parent: int) -> None:
    """End this process when the thread that started it ends, which waits for it, where the system can: on Linux.

    Nobody would take the result of a compiler whose parent was killed, and the next start compiles beside it.

    Args:
        parent: The process that :func:`run` was called in.
    """
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before
        sys.exit(1)


def limit_memory() -> None:
    """Limit this process's data, where the system can; not for drivers of GPUs, which map much more than they use."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = _BYTES + _BYTES_A_CORE * (os.cpu_count() or 1)
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


class _Watch:
    """Whether a process makes progress, by its CPU time; where that cannot be read, it is taken for granted."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/stat")
        self._ticks, self._since = -1, time.monotonic()

    def is_idle(self) -> bool:
        try:
            fields = self._file.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
        except (OSError, ValueError, IndexError) as error:
            pass_on(error)
            return False
        if ticks != self._ticks:
            self._ticks, self._since = ticks, time.monotonic()
        return time.monotonic() - self._since > _IDLE_SECONDS
