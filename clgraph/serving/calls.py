"""What is asked of a model and what it answers, whichever way it comes."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.frozen import frozen
from clgraph.errors import InputError, UnsupportedError
from clgraph.graph.primitive import Array

_REFUSED = {
    "sequence_id": "requests that depend on each other",
    "shared_memory_region": "tensors in shared memory",
    "classification": "classes in place of a tensor",
}
"""Parameters that ask for what is not served, and what that is. Others that are not known change nothing."""


@frozen
class Call:
    """A request to run a model.

    Attributes:
        version: Empty for the newest one that is ready.
        id: What the client calls it; the answer has it too.
        outputs: The results wanted; none for all.
        seconds: What the client would wait at most; ``None`` where it does not say.
    """

    model: str
    version: str
    id: str
    feeds: Mapping[str, Array]
    outputs: tuple[str, ...] = ()
    seconds: float | None = None


@frozen
class Answer:
    """The results of a call, by name, and the version that made them."""

    model: str
    version: str
    id: str
    outputs: Mapping[str, Array]


def check_parameters(parameters: Mapping[str, object], what: str) -> None:
    """Raise ``UnsupportedError`` where *parameters* of *what* ask for what is not served."""
    for name, meaning in _REFUSED.items():
        if parameters.get(name):
            raise UnsupportedError(f"{what} has the parameter {name!r}: {meaning} are not served")


def seconds_of(parameters: Mapping[str, object]) -> float | None:
    """Return the request's own time-out, given in microseconds; raises ``InputError`` where it is not a number."""
    given = parameters.get("timeout")
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise InputError(f"the parameter 'timeout' is a number of microseconds, not {given!r}")
    return given / 1e6 or None


def check_once(names: list[str]) -> None:
    """Raise ``InputError`` where an input is there twice."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"input {twice[0]!r} is there twice")
