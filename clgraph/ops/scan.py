"""A body run on one slice after the other: ONNX's Scan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.attributes import positive_axis
from clgraph.graph.gathered import Gathered, stacked
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.interpret import Blocks, ControlFlow, InvariantInputs, RunBody, trips
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.random_numbers import RANDOM_KEY, folded
from clgraph.graph.topology import Topology
from clgraph.graph.unrolling import UNROLLED_LAYERS

if TYPE_CHECKING:
    from clgraph.ops.loop_trips import LoopBody
    from clgraph.ops.scan_trips import One


@primitive
@frozen
class Scan(ControlFlow):
    """Run *body* on one slice after the other of the scanned inputs, carrying values along.

    Inputs: the carried values, the scanned inputs, then what the body reads from around. The body takes and makes the
    carried values, and makes one slice of every scanned result.

    Attributes:
        carried: How many values are carried.
        input_axes, output_axes: The axis that is cut or stacked, one entry a scanned input or result.
        input_reverse, output_reverse: Those that are walked or stacked from the end.
        batched: Version 8 of the operator: every input and result has a batch axis in front.
        ragged: The first input is how many slices of each entry of the batch are walked ``[batch]``; results of the
            others are 0.
    """

    body: Topology
    carried: int
    input_axes: tuple[int, ...]
    output_axes: tuple[int, ...]
    input_reverse: tuple[bool, ...]
    output_reverse: tuple[bool, ...]
    batched: bool = False
    ragged: bool = False

    kind: ClassVar[str] = "scan"

    def bodies(self) -> Mapping[str, Topology]:
        return {"body": self.body}

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        results = self.of_each(inputs, lambda given, row: self._one(given, run, row))
        assert not isinstance(results, str)
        return results

    def blocks(self) -> Blocks | str:
        from clgraph.ops.loop_blocks import blocks_of
        from clgraph.ops.scan_trips import ScanBlocks

        loop = blocks_of(self._loop(), counted=True, conditional=False)
        return loop if isinstance(loop, str) else ScanBlocks(loop, self.length_of, self.of_each)

    def unrolled(self, known: InvariantInputs) -> Topology | None:
        if self.batched or RANDOM_KEY in self.body.inputs:
            return None
        lengths = {known.size(self.carried + i, axis) for i, axis in enumerate(self.input_axes)}
        count = lengths.pop() if len(lengths) == 1 else None
        if not count:
            return None
        if (at_once := self._at_once(known)) is not None:
            return at_once
        return None if count * len(self.body.layers) > UNROLLED_LAYERS else self._loop().written_out(count)

    def _at_once(self, known: InvariantInputs) -> Topology | None:
        """Return the layers that compute all slices at once; ``None`` of bodies other than those of distances."""
        from clgraph.ops.pairwise import pairwise_of

        turned = (*self.input_axes, *self.output_axes, *self.input_reverse, *self.output_reverse)
        names, outputs = list(self.body.inputs), [value for _, value in self.body.outputs]
        if any(turned) or len(self.input_axes) != 1 or outputs[:-1] != names[:1] or self.carried != 1:
            return None
        around = {slot: name for slot, name in enumerate(names) if slot > self.carried}
        axes = {around[slot]: array for slot, array in known.values(around).items()}
        every = pairwise_of(self.body, names[0], names[1], {**self.body.constants, **axes})
        if every is None:
            return None
        made = Topology(op_types=self.body.op_types)
        for name in names:
            made.input(name, None, None)
        made.output(outputs[0])
        made.output("all", made.add("all", every, *names[:2], origin=self.body.layers[-1].origin))
        return made

    def _loop(self) -> LoopBody:
        from clgraph.ops.scan_trips import scan_body

        cuts = tuple(zip(self.input_axes, self.input_reverse, strict=True))
        stacks = tuple(zip(self.output_axes, self.output_reverse, strict=True))
        return scan_body(self.body, self.carried, cuts, stacks)

    def of_each(self, inputs: Sequence[Any], one: One) -> tuple[Array, ...] | str:
        """Return the results, those of each entry of the batch by *one*; what it gives as a reason ends it.

        Args:
            one: Computes the results of carried values, scanned inputs and what is around, of an entry by its number.
        """
        if not self.batched:
            return one(inputs, 0)
        lengths, inputs = (inputs[0], inputs[1:]) if self.ragged else (None, inputs)
        count = self.carried + len(self.input_axes)
        own, around = inputs[:count], inputs[count:]
        rows = []
        for i in range(own[0].shape[0]):
            given = [_slice(a, i, 0) for a in own]
            made = one([*given, *around], i) if lengths is None else self._first(int(lengths[i]), given, around, one, i)
            if isinstance(made, str):
                return made
            rows.append(made)
        return tuple(np.stack(column) for column in zip(*rows, strict=True))

    def _first(
        self, length: int, own: list[Array], around: Sequence[Any], one: One, row: int
    ) -> tuple[Array, ...] | str:
        """Walk the first *length* slices of an entry of a batch; return results as long as those of all would be."""
        states, scanned = own[: self.carried], own[self.carried :]
        whole = scanned[0].shape[0]
        if not 0 < length <= whole:
            raise ShapeError(f"{length} slices are none or more than the {whole} that there are")
        made = one([*states, *(a[:length] for a in scanned), *around], row)
        if isinstance(made, str):
            return made
        results = made[self.carried :]
        filled = (np.concatenate([y, np.zeros((whole - length, *y.shape[1:]), y.dtype)]) for y in results)
        return (*made[: self.carried], *filled)

    def length_of(self, inputs: Sequence[Any]) -> int:
        """Return how many slices there are in the inputs of one entry; raises ``ShapeError`` where they differ."""
        cut = inputs[self.carried : self.carried + len(self.input_axes)]
        if len(cut) == 1 and cut[0].ndim and not self.input_axes[0]:
            return int(cut[0].shape[0])
        lengths = {a.shape[positive_axis(axis, a.ndim)] for a, axis in zip(cut, self.input_axes, strict=True)}
        if len(lengths) != 1:
            raise ShapeError(f"the scanned inputs have different lengths: {sorted(lengths)}")
        (length,) = lengths
        return int(length)

    def _one(self, inputs: Sequence[Any], run: RunBody, row: int) -> tuple[Array, ...]:
        scans = len(self.input_axes)
        state = list(inputs[: self.carried])
        cut, around = inputs[self.carried : self.carried + scans], inputs[self.carried + scans :]
        length = self.length_of(inputs)
        carried, scanned = self.carried, list[Sequence[Array]]()
        gathered = Gathered("the scanned results")
        key = [*self.body.inputs].index(RANDOM_KEY) if RANDOM_KEY in self.body.inputs else None
        run_trip = trips(self.body, run)
        rows = [_slices(a, axis) for a, axis in zip(cut, self.input_axes, strict=True)]
        rows = [r[::-1] if back else r for r, back in zip(rows, self.input_reverse, strict=True)]
        for trip, slices in enumerate(zip(*rows, strict=True)):
            given = [*state, *slices, *around]
            if key is not None:
                given[key] = folded(given[key], row << 32 | trip)
            made = run_trip(given)
            state = made[:carried]
            scanned.append(made[carried:])
            gathered.add(scanned[-1])
        if not length and self.output_axes:
            raise ShapeError("a scan over no slice makes results of unknown shape")
        if not length:
            return tuple(state)
        stacks = [
            s[::-1] if back else s for s, back in zip(zip(*scanned, strict=True), self.output_reverse, strict=True)
        ]
        for stack, axis in zip(stacks, self.output_axes, strict=True):
            positive_axis(axis, stack[0].ndim + 1)
        return (*state, *(stacked(s, axis) for s, axis in zip(stacks, self.output_axes, strict=True)))


def _slices(x: Array, axis: int) -> list[Array]:
    """Return the slices of x one behind the other, which may be its memory."""
    if x.ndim == 1:
        return [element.reshape(()) for element in x[:, np.newaxis]]
    return list(x if axis == 0 else np.ascontiguousarray(np.moveaxis(x, axis, 0)))


def _slice(x: Array, place: int, axis: int) -> Array:
    """Return a slice of x as an array, a scalar too, which NumPy would give as a string."""
    return np.asarray(x.take(place, axis), x.dtype)


@onnx("Scan", since=(8, 9, 11, 16, 19, 21, 23, 24, 25))
def import_scan(node: OnnxNode) -> Sequence[str]:
    ((body,), captured) = node.bodies("body")
    scans, batched = node.attribute("num_scan_inputs", 1), node.since == 8
    lengths: tuple[str, ...] = ()
    inputs = node.inputs
    if batched:
        lengths, inputs = tuple(filter(None, inputs[:1])), inputs[1:]
    carried = len(inputs) - scans
    results = len(body.outputs) - carried
    if carried < 0 or results < 0 or len(body.inputs) - len(captured) != len(inputs):
        raise node.unsupported(f"{len(inputs)} inputs, {scans} of them scanned, do not fit the body")

    def each(name: str, count: int) -> tuple[int, ...]:
        found = tuple(node.attribute(name, ())) or (0,) * count
        if len(found) != count:
            raise ShapeError(f"{name} {list(found)} requires one entry for each of {count}")
        return found

    directions = "directions" if batched else "scan_input_directions"
    scan = Scan(
        body,
        carried,
        each("scan_input_axes", scans),
        each("scan_output_axes", results),
        tuple(map(bool, each(directions, scans))),
        tuple(map(bool, each("scan_output_directions", results))),
        batched,
        bool(lengths),
    )
    return node.emit(scan, *lengths, *inputs, *captured, outputs=carried + results)
