"""Tuning results of one device: a fitted cost model, and the times of implementations by problem; kept in a file."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from clgraph.core.cache_folder import write
from clgraph.core.digests import blake2
from clgraph.core.frozen import frozen
from clgraph.core.log import Log
from clgraph.errors import OptionError
from clgraph.handlers import pass_on
from clgraph.selector.costs import CostModel

_log = Log(__name__)

FORMAT = 1
"""Of the file; one of another number is not read."""

Times = Mapping[str, Mapping[str, float]]
"""Seconds by implementation, by problem (its key); infinity for one whose results were wrong."""


@frozen
class Tuning:
    """The results of ``clgraph tune`` on one device.

    Attributes:
        costs: The cost model fitted there; ``None`` for the shipped one.
        digest: Of everything else; two that are equal have the same.
    """

    costs: CostModel | None = None
    times: Times = field(default_factory=dict, repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.to_data(), sort_keys=True)
        object.__setattr__(self, "digest", blake2(text.encode()).hexdigest()[:12])

    def __hash__(self) -> int:
        return hash(self.digest)

    def to_data(self) -> dict[str, Any]:
        """Return the tuning as the data that its file holds."""
        times = {
            key: {name: None if math.isinf(t) else t for name, t in sorted(found.items())}
            for key, found in sorted(self.times.items())
        }
        return {"costs": None if self.costs is None else self.costs.to_data(), "times": times}

    @staticmethod
    def from_data(data: Any) -> Tuning:
        """Return the tuning that a file's data describe; raises ``OptionError`` for other data."""
        costs = data.get("costs")
        model = None if costs is None else CostModel.from_data(costs, "fitted")
        times = {}
        for key, found in _object(data.get("times"), "times").items():
            row = _object(found, "the times of a problem")
            times[key] = {name: math.inf if t is None else _seconds(t) for name, t in row.items()}
        return Tuning(model, times)


def read_tuning(
    path: Path, identity: Mapping[str, str], read: Callable[[Path], bytes] = Path.read_bytes
) -> Tuning | None:
    """Return what the file at *path* holds for a device of that *identity*.

    Args:
        read: Reads it, and says whose files are read.

    Returns:
        ``None`` where there is no file; with a warning where it is damaged, or of another device or version.
    """
    try:
        now = path.lstat()
    except OSError as error:
        pass_on(error)
        return None
    state = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)
    return _read(path, state, tuple(sorted(identity.items())), read)


@functools.lru_cache(maxsize=16)
def _read(
    path: Path, state: tuple[int, ...], identity: tuple[tuple[str, str], ...], read: Callable[[Path], bytes]
) -> Tuning | None:
    try:
        data = _object(json.loads(read(path).decode("utf-8")), "the file")
        here = {"format": str(FORMAT), **dict(identity)}
        other = [
            f"{name} {data.get(name)}, here {value}" for name, value in here.items() if str(data.get(name)) != value
        ]
        if not other:
            return Tuning.from_data(data)
        error: Exception = OptionError(f"it was made for another {'; '.join(other)}")
    except (OSError, ValueError, RecursionError, OptionError) as damage:
        pass_on(damage)
        error = damage
    _log.warning("the tuning in %s is not used: %s; `clgraph tune` makes a new one", path, error)
    return None


def write_tuning(path: Path, identity: Mapping[str, str], tuning: Tuning) -> None:
    """Write a file for a device of that *identity*, at once or not at all; raises ``OptionError`` where it cannot."""
    text = json.dumps({"format": FORMAT, **identity, **tuning.to_data()}, indent=1) + "\n"
    try:
        write(path, text.encode("utf-8"))
    except OSError as error:
        raise OptionError(f"the tuning cannot be written to {path}: {error.strerror or error}") from error


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise OptionError(f"{what} is not an object")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e30:
        raise OptionError(f"{value!r} is not a time in seconds")
    return float(value)
