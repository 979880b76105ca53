"""Errors of what is read out of JSON that does not have the form it should have."""

from __future__ import annotations

import struct
from contextlib import AbstractContextManager
from types import TracebackType

from clgraph.errors import ModelError
from clgraph.handlers import is_of_handler

_ILL_FORMED = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    struct.error,
)


def well_formed(what: object, data: object = None) -> AbstractContextManager[None]:
    """Make ``ModelError`` of what Python raises where JSON does not have the form that is read, and where it lies.

    The error says *what* is read, and how *data* begins.
    """
    return _WellFormed(what, data)


class _WellFormed(AbstractContextManager[None]):
    """No generator, and no text before there is an error: it is entered for every value and array of a file."""

    __slots__ = ("_data", "_what")

    def __init__(self, what: object, data: object) -> None:
        self._what, self._data = what, data

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, ModelError) or not isinstance(error, _ILL_FORMED) or is_of_handler(error):
            return
        what = f"{self._what}" if self._data is None else f"{self._what}, {str(self._data)[:80]},"
        raise ModelError(f"{what} is damaged: it is not well-formed: {error!r}") from error
