"""How many streams, and which batches, were measured to be best for a model on a device: a small file in the cache."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.core import cache_folder
from clgraph.core.frozen import frozen
from clgraph.engines.opening import tuning_identity
from clgraph.handlers import pass_on
from clgraph.runtime.device import find_device
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.cache_sources import Images

READ_BYTES = 16 << 20
"""So much of a file, and its size, say which model it is: its weights do not change how long it takes."""


@frozen
class StreamChoice:
    """What was measured to serve most requests a second.

    Attributes:
        maximum: Entries of a batch at most, 1 for no batches.
        rate: Requests a second then; ``beside`` that of one stream without batches.
    """

    streams: int
    maximum: int
    rate: float
    beside: float

    def __str__(self) -> str:
        return f"measured: {self.rate:.1f} requests a second, {self.beside:.1f} with one stream"


def choice_path(source: object, options: Settings, images: Images | None = None) -> Path | None:
    """Return where the choice for *source* is kept; ``None`` for what no later call can be known to be about.

    Of what a model computes, the precision, the weights and what is done to *images* count.

    The option ``tuning=off`` looks at nothing that was measured, and keeps nothing.

    Raises:
        DeviceError: There is no such device.
    """
    model = None if options.tuning == "off" else _model(source)
    if model is None:
        return None
    devices = [find_device(name.strip() or "auto") for name in options.device.split(",")]
    done = sorted((name, repr(p)) for name, p in (images or {}).items())
    what: list[Any] = [model, [tuning_identity(d) for d in devices], options.threads]
    what += [options.precision, options.weights, done]
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:24]
    return cache_folder.cache_folder(options.cache_dir) / "tuning" / f"streams-{digest}.json"


def _model(source: object) -> str | None:
    """Return what a model is known by: the beginning of its bytes, and how many there are."""
    if isinstance(source, str | os.PathLike):
        try:
            with Path(source).open("rb") as file:
                start, size = file.read(READ_BYTES), os.fstat(file.fileno()).st_size
        except (OSError, ValueError) as error:
            pass_on(error)
            return None  # who reads the model says what is wrong
    elif isinstance(source, bytes):
        start, size = source[:READ_BYTES], len(source)
    else:
        return None
    return f"{hashlib.sha256(start).hexdigest()} {size}"


def read_choice(path: Path | None) -> StreamChoice | None:
    """Return the choice that is kept at *path*; ``None`` where there is none that can be read."""
    if path is None:
        return None
    try:
        data = json.loads(cache_folder.read(path))
        found = StreamChoice(*(kind(data[name]) for name, kind in _FIELDS.items()))
    except (OSError, ValueError, TypeError, KeyError) as error:
        pass_on(error)
        return None
    return found if found.streams > 0 and found.maximum > 0 else None


def write_choice(path: Path, choice: StreamChoice) -> None:
    """Keep *choice* at *path*; raises ``OSError``."""
    data: Mapping[str, Any] = {name: getattr(choice, name) for name in _FIELDS}
    cache_folder.write(path, json.dumps(data, indent=1).encode())


_FIELDS = {"streams": int, "maximum": int, "rate": float, "beside": float}
