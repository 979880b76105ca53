"""Conversion of unintended exceptions to one ``InternalError`` that names the place, the culprit and a work-around.

It is used at the few places that everything goes through: reading a model and each node's importer, the rules of each
layer, each pass, a compilation, a run. Whatever is wrong with a model or an option has an error of its own before that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, ParamSpec, TypeGuard, TypeVar

from clgraph.core.registry import third_party
from clgraph.errors import ClgraphError, DeviceMemoryError, InternalError
from clgraph.graph.refusals import one_line
from clgraph.handlers import is_of_handler

if TYPE_CHECKING:
    from clgraph.graph.node import Node

P = ParamSpec("P")
T = TypeVar("T")
WayOut = Callable[[Exception], str]
"""Says what gets round an error, by what raised it; empty where nothing is known to."""

_OWN = __name__.partition(".")[0]


def _nothing(error: Exception) -> str:
    return ""


class faults:  # noqa: N801  # it is used like a function
    """Raise ``InternalError`` for what the code in here raises, not a ``ClgraphError`` or a signal handler's exception.

    What clgraph warns of (:mod:`clgraph.core.warn`) is no fault either where the program's filters raise it. It is a
    decorator, too.
    """

    __slots__ = ("_node", "_origin", "_way_out", "_what")

    def __init__(self, what: str, node: str = "", origin: Sequence[str] = (), way_out: WayOut = _nothing) -> None:
        """Take what messages say.

        Args:
            what: Was being done, as in "pass 'decompose'".
            node, origin: What it was done to; where not given, the node that the code was at (:func:`innermost`).
            way_out: Ends the message.
        """
        self._what, self._node, self._origin, self._way_out = what, node, origin, way_out

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self._raise(error)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return *function* with what it raises converted; it costs nothing where it raises nothing."""

        @functools.wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return function(*args, **kwargs)
            except Exception as error:  # it may be of any class
                self._raise(error)
                raise

        return guarded

    def _raise(self, error: Exception) -> None:
        """Raise what *error* is converted to, if it is."""
        if isinstance(error, ClgraphError | UserWarning) or is_of_handler(error):
            return
        if isinstance(error, MemoryError):
            raise DeviceMemoryError(f"the host has no memory left for {self._what}") from error
        node, origin = self._node, self._origin
        if not node and (at := innermost(error, _is_node)) is not None:
            node, origin = at.name, at.origin
        stems = f" (from {', '.join(map(repr, origin))})" if origin and tuple(origin) != (node,) else ""
        where = f" at node {node!r}{stems}" if node else ""
        out = self._way_out(error)
        what = f"{self._what} failed{where}: {one_line(error)}"
        raise InternalError(
            f"{what}. This is a fault of {_whose(error)}: please report it, with the traceback, which -vv shows "
            f"(in Python, it is the error's cause).{f' Meanwhile {out}.' if out else ''}"
        ) from error


def innermost(error: BaseException, fits: Callable[[object], TypeGuard[T]]) -> T | None:
    """Return what *fits* of the local variables where *error* was raised, or of the nearest caller that has any.

    Loops name what they are at, so that nobody need say it beforehand. Of several, it is the one called ``node``, else
    the first. The variables of a module that was being imported say nothing: what it imports itself is among them.
    """
    for frame in reversed(_frames(error)):
        variables = frame.f_locals
        if variables is frame.f_globals:
            continue
        for variable in (variables.get("node"), *variables.values()):
            if fits(variable):
                return variable
    return None


def _is_node(found: object) -> TypeGuard[Node]:
    from clgraph.graph.node import Node

    return isinstance(found, Node)


def _whose(error: BaseException) -> str:
    """Return the package whose code raised *error*: clgraph's, or of those that have registered something."""
    packages = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in _frames(error)]
    ours_or_theirs = third_party() | {_OWN}
    known = [package for package in packages if package in ours_or_theirs]
    return known[-1] if known else _OWN


def _frames(error: BaseException) -> list[FrameType]:
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return found
