"""Loggers that import Python's ``logging`` once there is something to say: 4 ms of a start, which says nothing.

A process that has not imported it has asked for nothing below a warning, which Python shows unasked.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

DEBUG, INFO, WARNING = 10, 20, 30
"""Python's levels."""


class Log:
    """The logger of a name."""

    __slots__ = ("_logger", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._logger: Logger | None = None

    @property
    def logger(self) -> Logger:
        """Python's own; to look it up takes 3 us, and a compilation says a hundred things."""
        if self._logger is None:
            import logging

            self._logger = logging.getLogger(self.name)
        return self._logger

    def shows(self, level: int) -> bool:
        """Whether somebody is told of messages of *level*."""
        return (level >= WARNING or "logging" in sys.modules) and self.logger.isEnabledFor(level)

    def say(self, level: int, message: str, *args: object, depth: int = 1) -> None:
        """Log *message* with *args* put into it as ``%`` does, at *level*, from *depth* calls further up."""
        if self.shows(level):
            self.logger.log(level, message, *args, stacklevel=1 + depth)

    def debug(self, message: str, *args: object) -> None:
        """Log *message* at level ``DEBUG``."""
        self.say(DEBUG, message, *args, depth=2)

    def info(self, message: str, *args: object) -> None:
        """Log *message* at level ``INFO``."""
        self.say(INFO, message, *args, depth=2)

    def warning(self, message: str, *args: object) -> None:
        """Log *message* at level ``WARNING``."""
        self.say(WARNING, message, *args, depth=2)
