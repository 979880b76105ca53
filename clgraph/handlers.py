"""Recognition of exceptions that a program's signal handlers raise.

Python calls a handler between any two instructions of the main thread, so that what it raises (a time limit's exception
of celery or gunicorn, a test's ``TimeoutError``) appears in whatever clgraph executes. It is the program's: it ends a
call of clgraph as it would end any other, and is neither converted nor taken for a failure of what it interrupted.

No error of clgraph is made of one (``ClgraphError`` sees to that). Code that goes on without what has failed asks
:func:`pass_on` first, or is in :class:`suppressed`; ``tests/test_handlers.py`` finds code that does not.
"""

from __future__ import annotations

from types import FrameType, TracebackType

_OWN = __name__.partition(".")[0]


def is_of_handler(error: BaseException) -> bool:
    """Return whether a signal handler of the program has raised *error*, or a function that traces it.

    No other function is given the frame that it interrupts, its caller's.
    """
    trace, interrupted = error.__traceback__, None
    while trace is not None:
        if interrupted is not None and _is_given(trace.tb_frame, interrupted):
            return True
        interrupted, trace = trace.tb_frame, trace.tb_next
    return False


def pass_on(error: BaseException) -> None:
    """Raise *error* again if it is a signal handler's: for code that goes on without what has failed."""
    if is_of_handler(error):
        raise error


def is_converted(error: BaseException | None) -> bool:
    """Return whether *error* is a signal handler's that code of clgraph has caught, and not the program."""
    trace = None if error is None else error.__traceback__
    if error is None or trace is None:
        return False
    return str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0] == _OWN and is_of_handler(error)


class suppressed:  # noqa: N801  # it is used like a function
    """``contextlib.suppress`` of *classes*, but for what a signal handler raises."""

    __slots__ = ("_classes",)

    def __init__(self, *classes: type[BaseException]) -> None:
        """Take the classes of exceptions that end the block and no more."""
        self._classes = classes

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return error is not None and isinstance(error, self._classes) and not is_of_handler(error)


def _is_given(frame: FrameType, interrupted: FrameType) -> bool:
    """Return whether *interrupted* is an argument of the function that runs in *frame*."""
    code = frame.f_code
    count = code.co_argcount + bool(code.co_flags & _STARS)
    if not count:
        return False
    variables = frame.f_locals
    for name in code.co_varnames[: code.co_argcount]:
        if variables.get(name) is interrupted:
            return True
    if code.co_flags & _STARS:
        stars = variables.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        return isinstance(stars, tuple) and any(x is interrupted for x in stars)
    return False


_STARS = 4
"""``inspect.CO_VARARGS``: a function takes further arguments by ``*``; they lie behind those by keyword."""
