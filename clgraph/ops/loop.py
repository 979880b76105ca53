"""A body repeated while a condition holds: ONNX's Loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.gathered import Gathered, stacked
from clgraph.graph.host_types import STRINGS
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.interpret import Blocks, ControlFlow, InvariantInputs, RunBody, Trip
from clgraph.graph.interpret import trips as trips_of
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array, primitive
from clgraph.graph.random_numbers import RANDOM_KEY, folded
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.graph.unrolling import UNROLLED_LAYERS
from clgraph.ops.reshape import Unsqueeze


@primitive
@frozen
class Loop(ControlFlow):
    """Run *body* up to a number of trips, as long as its condition holds.

    Inputs: the number of trips where *counted*, the first condition where *conditional*, the values that are carried,
    then what the body reads from around. The body takes the number of the trip, the condition and the carried values
    and makes the condition, the carried values (of any shape) and the scanned ones, which are stacked over the trips.

    Attributes:
        carried: How many values are carried from trip to trip.
        scanned: Element types of the scanned results, where known: what a loop without a trip makes is empty.
    """

    body: Topology
    carried: int
    counted: bool = True
    conditional: bool = True
    scanned: tuple[DType | None, ...] = ()

    kind: ClassVar[str] = "loop"

    def bodies(self) -> Mapping[str, Topology]:
        return {"body": self.body}

    def result_types(self) -> Sequence[str | None]:
        return ControlFlow.result_types(self)[1:]

    def execute(self, inputs: Sequence[Any], run: RunBody) -> tuple[Array, ...]:
        start = self.counted + self.conditional
        trips = int(inputs[0].item(0)) if self.counted else None
        going = bool(inputs[start - 1].item(0)) if self.conditional else True
        carried = self.carried
        state, around = inputs[start : start + carried], inputs[start + carried :]
        scanned: list[Sequence[Array]] = []
        gathered = Gathered("the scanned results") if self.scanned else None
        key = [*self.body.inputs].index(RANDOM_KEY) if RANDOM_KEY in self.body.inputs else None
        run_trip: Trip | None = None
        trip, goes_on = 0, np.array(True)
        while going and (trips is None or trip < trips):
            if run_trip is None:
                run_trip = trips_of(self.body, run)
            given = [np.array(trip, np.int64), goes_on, *state, *around]
            if key is not None:
                given[key] = folded(given[key], trip)
            condition, *state = run_trip(given)
            going, trip = bool(condition.item(0)), trip + 1
            if gathered is not None:
                scanned.append(state[carried:])
                gathered.add(scanned[-1])
                state = state[:carried]
        if gathered is None:
            return tuple(state)
        stacks = zip(*scanned, strict=True) if scanned else [()] * len(self.scanned)
        outputs = self.body.outputs[1 + carried :]
        return (
            *state,
            *(self._stacked(s, name, d) for s, (name, _), d in zip(stacks, outputs, self.scanned, strict=True)),
        )

    def blocks(self) -> Blocks | str:
        from clgraph.ops.loop_blocks import blocks_of
        from clgraph.ops.loop_trips import LoopBody

        return blocks_of(LoopBody.of(self.body, self.carried), self.counted, self.conditional)

    def unrolled(self, known: InvariantInputs) -> Topology | None:
        from clgraph.ops.loop_trips import LoopBody

        body = LoopBody.of(self.body, self.carried)
        deciding = body.deciding()
        if deciding is None or RANDOM_KEY in self.body.inputs:
            return None
        start = self.counted + self.conditional
        slots = {name: start + i for i, name in enumerate((*body.carried, *body.around)) if name in deciding.inputs}
        found = known.values([*range(start), *slots.values()])
        if len(found) < start + len(slots):
            return None
        first = {name: found[slot] for name, slot in slots.items()}
        first[body.condition] = found[start - 1] if self.conditional else np.array(True)
        trips = int(np.ravel(found[0])[0]) if self.counted else None
        count = body.count(deciding, first, trips, UNROLLED_LAYERS // max(1, len(self.body.layers)))
        return body.written_out(count) if count else None

    def _stacked(self, stack: Sequence[Array], name: str, dtype: DType | None) -> Array:
        if stack:
            first = stack[0].shape
            if any([a.shape != first for a in stack]):  # noqa: C419  # a generator takes twice as long
                shapes = ", ".join(str(list(shape)) for shape in sorted({a.shape for a in stack}))
                raise ShapeError(f"the scanned result {name!r} changes its shape from trip to trip: {shapes}")
            return stacked(stack)
        declared = self.body.declared.get(name)
        if declared is not None and declared.host_type == STRINGS:
            return np.zeros((0, *(d if isinstance(d, int) else 0 for d in declared.shape or ())), object)
        shape = () if declared is None or declared.shape is None else declared.shape
        return np.zeros((0, *(d if isinstance(d, int) else 0 for d in shape)), (dtype or DType.F32).numpy)


@onnx("Loop", since=(1, 11, 13, 16, 19, 21, 23, 24, 25))
def import_loop(node: OnnxNode) -> Sequence[str]:
    ((body,), captured) = node.bodies("body")
    carried = len(body.inputs) - 2 - len(captured)
    own = (*node.inputs, *[""] * (2 + carried - len(node.inputs)))
    if carried < 0 or len(own) != 2 + carried or not all(own[2:]):
        raise node.unsupported(f"{len(node.inputs)} inputs do not fit the body's {len(body.inputs) - len(captured)}")
    declared = [body.declared[name].dtype for name, _ in body.outputs[1 + carried :]]
    loop = Loop(_fed_scalars(body), carried, bool(own[0]), bool(own[1]), tuple(declared))
    return node.emit(loop, *filter(None, own), *captured, outputs=carried + len(declared))


def _fed_scalars(body: Topology) -> Topology:
    """Return *body*, which takes trip and condition as scalars; they have an axis inside where it declares one.

    ONNX permits both, ONNX Runtime passes what is declared, and spox declares one element.
    """
    inputs, layers = dict[str, Signature](), list[Layer]()
    for number, (name, signature) in enumerate(body.inputs.items()):
        if number > 1 or signature.shape is None or len(signature.shape) != 1:
            inputs[name] = signature
            continue
        scalar = f"{name}/scalar"
        inputs[scalar] = replace(signature, name=scalar, shape=())
        layers.append(Layer(name, Unsqueeze((0,)), (scalar,), (name,), (name,)))
    return replace(body.plain(), inputs=inputs, layers=[*layers, *body.layers]) if layers else body
