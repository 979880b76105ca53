"""Runs the image of a network: memory, kernels and launches as they were bound, without the program.

An image is what a run of one program on one device comes to once everything is decided: how many bytes there are of
what, which of them lie where in the file of the saved model, the tables of tile steps with every pointer resolved to a
bank and an offset, the launches with their arguments, what is fed and returned. A fresh process reads and binds it in a
few milliseconds; :mod:`clgraph.network.imaging` makes it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from clgraph.errors import ModelError
from clgraph.network.borrowed_buffers import BorrowedBuffer, BorrowedSpot
from clgraph.network.image_parts import ImagedFeed, ImagedLaunches, ImagedResult
from clgraph.network.quick import QuickRun
from clgraph.network.tile_kernels import TileKernels, TileRows
from clgraph.network.workspace import Workspace
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.programs import KeptBinary

if TYPE_CHECKING:
    from clgraph.core.mapped import MappedFile
    from clgraph.graph.primitive import Array
    from clgraph.runtime.engine import BoundKernel, Engine, KernelArgument
    from clgraph.runtime.memory import Memory
    from clgraph.runtime.stream import Step

Rows = Mapping[str, Any]
"""An image as JSON: names of parts, each a row or some."""

IN_FILE, PACKED, INPUT, RESULT = "file", "packed", "input", "result"
"""Banks: constants where they lie in the file, copies of small ones, memory for what is fed and what is returned."""
COPIED, BORROWED, UNREAD = "copied", "borrowed", "unread"
"""Of an input or result: copied by the host, used where the caller has it, used by nobody."""


class ImageBanks:
    """The memory of an image.

    Attributes:
        placement, engine, workspace: Where it is, and what it is shared with.
        banks: What a bank number means.
    """

    def __init__(self, placement: str, engine: Engine) -> None:
        self.placement, self.engine, self.workspace = placement, engine, Workspace()
        self.banks: list[Memory] = []

    def view(self, bank: int, offset: int, dtype: str, shape: list[int]) -> Array:
        """Return a dense array in a bank."""
        return np.ndarray(tuple(shape), dtype, self.banks[bank].array, offset)


@GATE
def run_of(image: Rows, array: Callable[[Any], Array], file: MappedFile, engine: Engine) -> QuickRun:
    """Return what runs *image* on a queue of its own.

    Args:
        array: Returns the arrays of the image.
        file: What constants lie in.

    Raises:
        ModelError: Constants in the file are damaged.
        KernelBuildError: The binary of a kernel is gone.
        DeviceError, DeviceMemoryError: The device makes no queue, or has no memory left.
    """
    engine = engine.beside(alone=image["alone"])
    places = ImageBanks(image["placement"], engine)
    places.banks.extend(places.workspace.arenas(places.placement, engine, [image["arena"]]))
    _add_banks(image, array, file, places)
    tables = [_table(row, array, places) for row in image["tables"]]
    steps: list[Step] = []
    joined: list[TileKernels] = []
    kernels: list[BoundKernel] = []
    for kind, *launch in image["launches"]:
        if kind == "tiles":
            number, first, last = launch
            kernel, grid, group = tables[number].bind(first, last)
            if last - first > 1 and tables[number] not in joined:
                joined.append(tables[number])
        else:
            key, options, entry, what, arguments, grid, group = launch
            given = [a for argument in arguments for a in _arguments(argument, places)]
            kernel = engine.kernel(KeptBinary(key, options), entry, given, what=what)
            grid, group = tuple(grid), None if group is None else tuple(group)
        kernels.append(kernel)
        steps.append(kernel.on(engine.stream, grid, group))
    feeds = [_feed(row, places, tables) for row in image["feeds"]]
    results = [_result(row, places, tables) for row in image["results"]]
    files = [file] if any(kind == IN_FILE for kind, *_ in image["banks"]) else []
    return QuickRun(engine, [ImagedLaunches(steps, joined, kernels)], feeds, results, places.workspace, files)


def _add_banks(image: Rows, array: Callable[[Any], Array], file: MappedFile, places: ImageBanks) -> None:
    engine, whole = places.engine, np.frombuffer(file, np.uint8)
    arena = places.banks[0].array
    assert arena is not None
    inputs = [where[0] for kind, *where in image["banks"] if kind == INPUT]
    stand_ins = iter(places.workspace.stand_ins(places.placement, engine, inputs))
    for kind, *where in image["banks"]:
        if kind == IN_FILE:
            begin, end, checked = where
            if any(zlib.crc32(whole[b:e].data) != crc for b, e, crc in checked):
                raise ModelError(f"{file.path} is damaged: constants do not have the checksum that they had")
            places.banks.append(engine.lend(whole[begin:end]))
        elif kind == PACKED:
            places.banks.append(engine.upload(array(where[0]), "constants"))
        elif kind == INPUT:
            places.banks.append(next(stand_ins))
        else:
            begin, nbytes = where
            places.banks.append(engine.lend(arena[begin : begin + nbytes], writable=True))
    places.workspace.constants.near.ask_places([(file, begin, end) for begin, end in image["near"]])


def _table(row: list[Any], array: Callable[[Any], Array], places: ImageBanks) -> TileKernels:
    library, key, options, data, tickets, scratch, users, told = row
    rows = TileRows(library, KeptBinary(key, options), tickets, scratch, dict(users), told.__getitem__)
    return TileKernels(rows, array(data), places)


def _arguments(argument: Any, places: ImageBanks) -> list[KernelArgument]:
    if isinstance(argument, list):
        kind, *rest = argument
        if kind == "table":
            workspace = places.workspace
            return [workspace.constants.table(places.placement, places.engine, tuple(rest[0]))]
        return [places.banks[rest[0]], np.int64(rest[1])]
    return [np.float32(argument)] if isinstance(argument, float) else [np.int32(argument)]


def _feed(row: list[Any], places: ImageBanks, tables: list[TileKernels]) -> ImagedFeed:
    kind, name, dtype, shape, bank, offset = row
    view = None if kind == UNREAD else places.view(bank, offset, dtype, shape)
    if kind != BORROWED:
        return ImagedFeed(name, np.dtype(dtype), tuple(shape), view, None)
    assert view is not None
    spot = BorrowedSpot(places, bank, view, view.nbytes, writes=False, writes_callers=False)
    return ImagedFeed(name, np.dtype(dtype), tuple(shape), None, BorrowedBuffer(spot, tables))


def _result(row: list[Any], places: ImageBanks, tables: list[TileKernels]) -> ImagedResult:
    kind, name, dtype, shape, bank, offset, callers = row
    view = places.view(bank, offset, dtype, shape)
    borrowed = None
    if kind == BORROWED:
        spot = BorrowedSpot(places, bank, view, view.nbytes, writes=True, writes_callers=callers)
        borrowed = BorrowedBuffer(spot, tables)
    return ImagedResult(name, view, borrowed, places.workspace.results)
