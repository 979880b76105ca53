"""Constants of a saved file that are stored by digest only; their data is in the model that it was compiled from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.mapped import files_of
from clgraph.core.well_formed import well_formed
from clgraph.errors import ModelError
from clgraph.graph.host_types import has_strings
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.primitive import Array
from clgraph.graph.serial import Json
from clgraph.graph.topology import Topology
from clgraph.graph.typed import fits
from clgraph.saved.programs import Find

_ROWS = list[tuple[str, str, str, list[int]]]


class Withheld:
    """The constants of a file that is being written, which keeps what they are known by; strings are in its header."""

    def __init__(self, topology: Topology) -> None:
        """Let *topology* tell what they are called."""
        self._names = {id(array): name for name, array in _constants_of(topology)}
        self._rows: dict[str, tuple[str, str, list[int]]] = {}

    def add(self, array: Array) -> Json:
        """Return what stands for *array* in the header; as :meth:`clgraph.saved.container.Blobs.add`."""
        digest, dtype, shape = _digest(array), DType.of(array.dtype).name, list(array.shape)
        self._rows.setdefault(digest, (self._names.get(id(array), "a constant"), dtype, shape))
        return digest

    @property
    def rows(self) -> Json:
        """What is told of the constants: digest, name, element type and shape of each."""
        return [[digest, *row] for digest, row in self._rows.items()]


def found_in(topology: Topology, rows: Json, path: Path, source: str) -> Find:
    """Return what finds the constants of the file at *path*: those of *rows* in *topology*, by their digests.

    Args:
        source: What *topology* was read from.

    Raises:
        ModelError: *topology* has no such constant, or one of other values.
    """
    with well_formed(path):
        if not fits(rows, _ROWS):
            raise ModelError(f"{path} is damaged: the entry of its weights is not of the form {_ROWS}")
        forms = {(dtype, tuple(shape)) for _, _, dtype, shape in rows}
    arrays: dict[str, Array] = {}
    names = set()
    for name, array in _constants_of(topology):
        names.add(name)
        if not has_strings(array) and (DType.of(array.dtype).name, array.shape) in forms:
            arrays.setdefault(_digest(array), array)
    for digest, name, dtype, shape in rows:
        if digest not in arrays:
            why = "has other values, type or shape" if name in names else "is missing"
            raise ModelError(
                f"the constant {name!r} ({dtype.lower()}{shape}) of {path}, which was saved without weights, {why} in "
                f"{source}: give the model that it was saved from, unchanged, or save it again"
            )
    return arrays.__getitem__


def _constants_of(topology: Topology) -> Iterator[tuple[str, Array]]:
    """Yield the constants of *topology* and of the bodies of its control flow, by name."""
    yield from topology.constants.items()
    for layer in topology.layers:
        if isinstance(layer.primitive, ControlFlow):
            for body in layer.primitive.bodies().values():
                yield from _constants_of(body)


def _digest(array: Array) -> str:
    for file in files_of([array]):
        file.check()
    digest = hashlib.sha256(f"{DType.of(array.dtype).name}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
