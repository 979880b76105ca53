"""Scans as loops over the places of their slices: what writes loops out, or runs them in blocks, does so for scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.graph.interpret import Blocks, RunBody
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.gather import Gather
from clgraph.ops.loop_blocks import LoopBlocks
from clgraph.ops.loop_trips import LoopBody, Stacked

One = Callable[[Sequence[Any], int], tuple[Array, ...] | str]
"""Computes the results for one entry of a batch, by its number; where it does not, a reason."""


def scan_body(
    body: Topology, carried: int, cuts: Sequence[tuple[int, bool]], stacks: Sequence[tuple[int, bool]]
) -> LoopBody:
    """Return the body of the loop that does what a scan with *body* does; it reads what is scanned from around.

    Args:
        carried: How many values are carried.
        cuts, stacks: The axis of each scanned input and result, and whether it is walked or stacked from the end.
    """
    names = list(body.inputs)
    states, cut, around = names[:carried], names[carried:][: len(cuts)], names[carried + len(cuts) :]
    mark = "scan"
    while any(name.startswith(mark) for layer in body.layers for name in (*layer.inputs, *layer.outputs)):
        mark += "_"
    trip, condition, last, back = f"{mark}/trip", f"{mark}/condition", f"{mark}/last", f"{mark}/back"
    whole = [f"{mark}/{name}" for name in cut]
    inputs = {name: Signature(name, DType.I64 if name == trip else DType.BOOL, ()) for name in (trip, condition)}
    inputs |= {name: body.inputs[name] for name in states}
    inputs |= {name: Signature(name, body.inputs[source].dtype, None) for name, source in zip(whole, cut, strict=True)}
    inputs |= {name: body.inputs[name] for name in around}
    layers = []
    if any(reverse for _, reverse in cuts):
        layers.append(Layer(back, Eltwise("sub"), (last, trip), (back,), ()))
    for name, source, (axis, reverse) in zip(cut, whole, cuts, strict=True):
        layers.append(Layer(name, Gather(axis), (source, back if reverse else trip), (name,), ()))
    made = Topology(
        inputs,
        {**body.constants, last: np.array(-1, np.int64)},
        [*layers, *body.layers],
        declared=body.declared,
        op_types=body.op_types,
    )
    results = [value for _, value in body.outputs]
    stacked = zip(results[carried:], stacks, strict=True)
    return LoopBody(
        made,
        trip,
        condition,
        tuple(states),
        (*whole, *around),
        condition,
        tuple(results[:carried]),
        tuple(Stacked(name, axis, reverse) for name, (axis, reverse) in stacked),
    )


class ScanBlocks(Blocks):
    """A scan as blocks of its trips, one entry of a batch after the other."""

    def __init__(
        self,
        loop: LoopBlocks,
        length_of: Callable[[Sequence[Any]], int],
        of_each: Callable[[Sequence[Any], One], tuple[Array, ...] | str],
    ) -> None:
        """Take what runs the scan of one entry as a counted loop.

        Args:
            length_of: Returns how many slices there are in the inputs of one entry.
            of_each: Returns the results, given what computes those of one entry.
        """
        self._loop, self._length_of, self._of_each, self.bodies = loop, length_of, of_each, loop.bodies

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...] | str:
        def one(given: Sequence[Any], row: int) -> tuple[Array, ...] | str:
            return self._loop.execute([np.array(self._length_of(given), np.int64), *given], run)

        return self._of_each(inputs, one)
