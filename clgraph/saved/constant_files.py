"""The constants of dumped programs: each once in a file of its own, called by its digest."""

from __future__ import annotations

import hashlib
import tokenize
from dataclasses import field
from pathlib import Path

import numpy as np

from clgraph.core.dtype import named, spelled
from clgraph.core.files import output
from clgraph.core.frozen import mutable
from clgraph.errors import ModelError
from clgraph.graph.primitive import Array


@mutable
class ConstantFiles:
    """Keeps arrays as ``constants/<digest>.npy`` below *folder*, and finds them there.

    What stands for an array is the digest and, of a type that such files do not know, like bfloat16, its name: the file
    then holds bytes.
    """

    folder: Path
    _written: dict[int, tuple[str, Array]] = field(default_factory=dict)

    def add(self, array: Array) -> str:
        """Return what stands for *array*, whose file is there from now on."""
        known = self._written.get(id(array))
        if known is None:
            data = np.asarray(array, order="C")  # not ascontiguousarray, which makes a scalar a vector
            told = spelled(data.dtype)
            digest = hashlib.sha256(f"{told}{data.shape}".encode() + data.tobytes()).hexdigest()[:24]
            plain = told == data.dtype.str
            path = self._path(digest)
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                with output(path) as file:
                    np.save(file, data if plain else _bytes(data), allow_pickle=False)
            # The array is kept, so that its id stays its own.
            known = self._written[id(array)] = (digest if plain else f"{digest} {told}", array)
        return known[0]

    def array(self, reference: str) -> Array:
        """Return the array that *reference* stands for, mapped.

        Raises:
            ModelError: Its file is missing or damaged.
        """
        digest, _, told = reference.partition(" ")
        try:
            data = np.asarray(np.lib.format.open_memmap(self._path(digest), mode="r"))
            return data.view(named(told)).reshape(data.shape[:-1]) if told else data
        except (OSError, ValueError, SyntaxError, TypeError, tokenize.TokenError) as error:
            raise ModelError(f"a constant of the dump is missing or damaged: {error}") from error

    def _path(self, digest: str) -> Path:
        return self.folder / "constants" / f"{digest}.npy"


def _bytes(data: Array) -> Array:
    """Return the bytes of *data*, an axis more than it has."""
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).reshape(*data.shape, data.itemsize)
