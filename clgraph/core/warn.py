"""Warnings, shown with the line of the program that has called clgraph, which its filters go by."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

_OWN = __name__.partition(".")[0]


def warn(told: str) -> None:
    """Warn the program at its innermost line; at clgraph's own in a thread that has none but the standard library's.

    Raises:
        UserWarning: The program's filters make errors of warnings.
    """
    at = _program() or sys._getframe(1)
    module, registry = at.f_globals.get("__name__", _OWN), at.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(told, UserWarning, at.f_code.co_filename, at.f_lineno, module, registry)


def _program() -> FrameType | None:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package != _OWN and package not in sys.stdlib_module_names:
            return frame
        frame = frame.f_back
    return None
