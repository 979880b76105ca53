"""Recognition of exceptions that a program's signal handlers raise.

Python calls a handler between any two instructions of the main thread, so that what it raises (a time limit's exception
of celery or gunicorn, a test's ``TimeoutError``) appears in whatever clgraph executes. It is the program's: it ends a
call of clgraph as it would end any other, and is neither converted nor taken for a failure of what it interrupted.
"""

from __future__ import annotations

import functools
import signal
import threading
from types import CodeType


def is_of_handler(error: BaseException) -> bool:
    """Return whether a signal handler of the program has raised *error*."""
    if threading.current_thread() is not threading.main_thread():
        return False  # Python calls handlers in the main thread only
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def pass_on(error: BaseException) -> None:
    """Raise *error* again if it is a signal handler's: for code that goes on without what has failed."""
    if is_of_handler(error):
        raise error


def _code_of(handler: object) -> CodeType | None:
    """Return the code that a handler begins with: a function's, a method's, or an object's that can be called."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    if callable(handler) and not hasattr(handler, "__code__"):
        handler = type(handler).__call__
    code = getattr(handler, "__code__", None)
    return code if isinstance(code, CodeType) else None
