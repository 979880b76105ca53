"""Conversion of Python's and NumPy's errors about shapes and values to errors of clgraph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clgraph.errors import ClgraphError, DeviceMemoryError, ShapeError


@contextmanager
def refusals(what: str = "the operator") -> Iterator[None]:
    """Raise ``ShapeError``, or ``DeviceMemoryError``, for what an operator's rules or its reference raise in here.

    Rules say themselves what does not fit wherever they can; this is for what they leave to NumPy.

    Args:
        what: Begins the message.
    """
    try:
        yield
    except ClgraphError:
        raise
    except MemoryError as error:
        raise DeviceMemoryError(f"the host has no memory left for {what}: {error}") from error
    except (ValueError, LookupError, ArithmeticError, TypeError) as error:
        raise ShapeError(f"{what} does not fit its inputs: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """Return class and text of *error*."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")
