"""Makes the image of a network: what its runs need, without the program."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import spelled
from clgraph.core.mapped import MappedFile, files_of, place_in
from clgraph.errors import NoImageError
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.network.addresses import address_of
from clgraph.network.bound_program import BoundProgram
from clgraph.network.buffer_table import BufferTable
from clgraph.network.commands import Segment
from clgraph.network.feed import Feed
from clgraph.network.image import BORROWED, COPIED, IN_FILE, INPUT, PACKED, RESULT, UNREAD, Rows
from clgraph.network.laid_constants import LaidConstants
from clgraph.network.network import Network
from clgraph.network.node_steps import launch_text, steps_in_libraries
from clgraph.network.result import Result
from clgraph.network.tiles import TileExecutor
from clgraph.runtime.programs import KeptBinary
from clgraph.selector.plan import Argument, Launch, Table

Add = Callable[[Array], Any]
"""Keeps an array, and returns what stands for it."""


def image_of(network: Network, file: MappedFile, add: Add) -> Rows:
    """Return the image of *network*, whose constants that stay where they are lie in *file*.

    Raises:
        NoImageError: Its runs take more than an image has.
    """
    bound = network.bound
    if network.quick is None or network.kept or len(bound.subgraphs) != 1 or not (network.has_nodes and bound.engines):
        raise NoImageError("a run takes more than the kernels of one device")
    ((placement, engine),) = bound.engines.items()
    places, (subgraph,) = bound.places[placement], bound.subgraphs
    if engine.stream.out_of_order or network.records:
        raise NoImageError("its launches are recorded, or run out of order")
    arena = network.program.arenas.get(placement)
    if len(places.laid) > 1 or (arena is not None and arena.nbytes > places.arena_bank):
        raise NoImageError("its activations or constants take several allocations")
    tables = [_table(executor, add) for executor in subgraph.executors]
    numbers = {executor: number for number, executor in enumerate(subgraph.executors)}
    launches = iter(_launches(network, places))
    return {
        "placement": placement,
        "alone": engine.is_alone,
        "arena": places.banks[0].nbytes,
        "banks": _banks(bound, places, file, add),
        "near": places.workspace.constants.near.places_in(file),
        "tables": tables,
        "launches": [
            ["tiles", numbers[c.work.executor], c.work.first, c.work.last]
            if isinstance(c.work, Segment)
            else ["kernel", *next(launches)]
            for c in subgraph.launches
        ],
        "feeds": [_feed(feed, places) for feed in bound.feeds],
        "results": [_result(result, places) for result in bound.results],
    }


def _banks(bound: BoundProgram, places: BufferTable, file: MappedFile, add: Add) -> list[Any]:
    """Return what the banks behind the arena are, in order."""
    found: list[Any] = [row for laid in places.laid for row in _constants(laid, file, add)]
    for bank in range(1 + len(found), len(places.banks)):
        value = next(v for v, number in places.borrowed.items() if number == bank and _is_whole(v, bound))
        if value.producer is None:
            found.append([INPUT, value.layout.nbytes])
        else:
            assert value.buffer is not None
            assert value.buffer.offset is not None
            found.append([RESULT, value.buffer.offset + value.offset, value.layout.nbytes])
    return found


def _is_whole(value: Value, bound: BoundProgram) -> bool:
    """Whether a bank stands for *value*, of those that share it."""
    return any(feed.value is value for feed in bound.feeds) or any(result.value is value for result in bound.results)


def _constants(laid: LaidConstants, file: MappedFile, add: Add) -> list[Any]:
    rows: list[Any] = []
    for number, memory in enumerate(laid.banks, laid.front):
        if memory in laid.copies:
            if memory.array is None:
                raise NoImageError("its constants are in memory of the device's own")
            rows.append([PACKED, add(memory.array[: memory.nbytes])])
            continue
        left = [array for array, (bank, _) in zip(laid.arrays, laid.places, strict=True) if bank == number]
        if any(files_of([array]) != [file] for array in left):
            raise NoImageError("its constants lie in several places")
        first = min(left, key=address_of)
        # As when a file is read: floats are not looked at, because they are many.
        checked = [[*place_in(file, array), zlib.crc32(_bytes(array))] for array in left if array.dtype.kind in "iub"]
        rows.append([IN_FILE, *place_in(file, first), checked])
    return rows


def _bytes(array: Array) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _table(executor: TileExecutor, add: Add) -> list[Any]:
    rows, data = executor.rows, executor.table_bytes
    if data is None:
        raise NoImageError("its tables are in memory of the device's own")
    kept = _kept(executor, rows.text, library=True)
    told = [rows.what(step) for step in range(len(rows.tickets))]
    users = [[bank, list(steps)] for bank, steps in rows.users.items()]
    return [rows.library, kept.key, kept.options, add(data), list(rows.tickets), rows.scratch, users, told]


def _kept(place: TileExecutor | BufferTable, text: str | KeptBinary, *, library: bool) -> KeptBinary:
    kept = place.engine.programs.kept_binary(text, library=library) if isinstance(text, str) else text
    if kept is None:
        raise NoImageError("the driver makes no binary of a kernel, or has not yet", lasts=False)
    return kept


def _launches(network: Network, places: BufferTable) -> list[list[Any]]:
    """Return the kernels of nodes, in order: binary, function, what it is, arguments, grid and group."""
    rows = []
    for node, steps in steps_in_libraries(network.program).items():
        for step, _ in steps:
            if isinstance(step, Launch):
                kept = _kept(places, launch_text(step), library=False)
                arguments = [_argument(node, argument, places) for argument in step.args]
                what = f"{step.entry} ({step.source}) of node {node.name!r}"
                group = None if step.group is None else list(step.group)
                rows.append([kept.key, kept.options, step.entry, what, arguments, list(step.grid), group])
    return rows


def _argument(node: Node, argument: Argument, places: BufferTable) -> Any:
    if isinstance(argument, str):
        bank, offset = (0, -1) if argument == "null" else places.role(node, argument)
        if bank in places.borrowed.values():
            raise NoImageError("a kernel of its own uses the caller's arrays")
        return ["bank", bank, offset]
    return ["table", list(argument.values)] if isinstance(argument, Table) else argument


def _feed(feed: Feed, places: BufferTable) -> Sequence[Any]:
    if feed.passes:
        raise NoImageError("an input is passed on as a result")
    if feed.unread:
        return [UNREAD, feed.name, _spelled(feed.dtype), list(feed.shape), 0, 0]
    kind = COPIED if feed.borrowed is None else BORROWED
    return [kind, feed.name, _spelled(feed.dtype), list(feed.shape), *places.at(feed.value)]


def _result(result: Result, places: BufferTable) -> Sequence[Any]:
    if result.constant is not None or result.source is not None:
        raise NoImageError("a result is a constant, or what an input passes on")
    kind, callers = (COPIED, False) if result.borrowed is None else (BORROWED, result.value in places.writes_callers)
    return [kind, result.name, _spelled(result.dtype), list(result.shape), *places.at(result.value), callers]


def _spelled(dtype: np.dtype[Any]) -> str:
    """Return what NumPy makes the same *dtype* of."""
    if spelled(dtype) != dtype.str or np.dtype(dtype.str) is not dtype:
        raise NoImageError(f"NumPy itself has no {dtype}")
    return dtype.str
