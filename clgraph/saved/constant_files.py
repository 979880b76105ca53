"""The constants of dumped programs: each once in a file of its own, called by its digest."""

from __future__ import annotations

import hashlib
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from clgraph.core.files import output
from clgraph.errors import ModelError
from clgraph.graph.primitive import Array


@dataclass
class ConstantFiles:
    """Keeps arrays as ``constants/<digest>.npy`` below *folder*, and finds them there."""

    folder: Path
    _written: dict[int, tuple[str, Array]] = field(default_factory=dict)

    def add(self, array: Array) -> str:
        """Return the digest of *array*, whose file is there from now on."""
        known = self._written.get(id(array))
        if known is None:
            data = np.asarray(array, order="C")  # not ascontiguousarray, which makes a scalar a vector
            digest = hashlib.sha256(f"{data.dtype.str}{data.shape}".encode() + data.tobytes()).hexdigest()[:24]
            path = self._path(digest)
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                with output(path) as file:
                    np.save(file, data, allow_pickle=False)
            # The array is kept, so that its id stays its own.
            known = self._written[id(array)] = (digest, array)
        return known[0]

    def array(self, digest: str) -> Array:
        """Return the array of that *digest*, mapped; raises ``ModelError`` where its file is missing or damaged."""
        try:
            return np.asarray(np.lib.format.open_memmap(self._path(digest), mode="r"))
        except (OSError, ValueError, SyntaxError, TypeError, tokenize.TokenError) as error:
            raise ModelError(f"a constant of the dump is missing or damaged: {error}") from error

    def _path(self, digest: str) -> Path:
        return self.folder / "constants" / f"{digest}.npy"
