"""Conversion of Python's and NumPy's errors about shapes and values to errors of clgraph."""

from __future__ import annotations

from collections.abc import Callable

from clgraph.errors import ClgraphError, DeviceMemoryError, ShapeError
from clgraph.handlers import is_of_handler


class refusals:  # noqa: N801  # it is used like a function
    """Raise ``ShapeError``, or ``DeviceMemoryError``, for what an operator's rules or its reference raise in here.

    Rules say themselves what does not fit wherever they can; this is for what they leave to NumPy.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str | Callable[[], str] = "the operator") -> None:
        """Take the message's begin, or a function that returns it and is called for errors only: printing is slow."""
        self._what = what

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ClgraphError) or is_of_handler(error):
            return
        what = self._what if isinstance(self._what, str) else self._what()
        if isinstance(error, MemoryError):
            raise DeviceMemoryError(f"the host has no memory left for {what}: {error}") from error
        if isinstance(error, ValueError | LookupError | ArithmeticError | TypeError):
            raise ShapeError(f"{what} does not fit its inputs: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return class and text of *error*."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
