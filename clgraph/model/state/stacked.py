"""Past keys and values that are one input, stacked ``[2, batch, heads, tokens, D]``: taken apart, as caches are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.errors import InputError
from clgraph.graph.layer import Layer
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.pairs import PARTS, Stack
from clgraph.ops.concat import Concat
from clgraph.ops.keeps_keys import PAST, KeepsKeys
from clgraph.ops.reshape import Unsqueeze


def apart(topology: Topology) -> tuple[Topology, tuple[Stack, ...]]:
    """Return *topology* with inputs and outputs for keys and for values where they were stacked, and those stacks.

    A stack is an input that layers pick two parts of, for an attention or a Concat that joins each with new ones, and
    the output that the two results are stacked for.
    """
    whole = [name for name, s in topology.inputs.items() if s.stacks_keys]
    if not whole:
        return topology, ()
    found, picked, presents = _Found(topology), dict[str, str](), _presents(topology)
    stacks: list[Stack] = []
    for name in whole:
        parts = found.parts(name)
        outputs = [o for o, made in found.stacked.items() if made == tuple(presents.get(p, "") for p in parts)]
        if parts and outputs:
            stacks.append(Stack(name, outputs[0]))
            picked |= dict(zip(parts, stacks[-1].inputs, strict=True))
    return (_cut(topology, stacks, picked, found.stacked) if stacks else topology), tuple(stacks)


def parts_of(stacks: Iterable[Stack], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return *arrays* with views of the parts of stacks in their place; raises ``InputError`` where one is no stack."""
    found = dict(arrays)
    for stack in stacks:
        array = found.pop(stack.input)
        if array.ndim != 5 or len(array) != len(PARTS):
            wanted = "keys and values want to be stacked [2, batch, heads, tokens, D]"
            raise InputError(f"input {stack.input!r} is {list(array.shape)}: {wanted}")
        found.update(zip(stack.inputs, array, strict=True))
    return found


@frozen
class _Found:
    """What picks parts of an input, and what stacks values for outputs."""

    topology: Topology

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the values that are the two parts of an input; nothing where they are not picked once each."""
        found: dict[int, str] = {}
        for layer in self.topology.layers:
            if name != next(iter(layer.inputs), "") or getattr(layer.primitive, "axis", None) not in (0, -5):
                continue
            if layer.primitive.kind == "gather":
                index = self.topology.constants.get(layer.inputs[1])
                if index is not None and not index.ndim and -len(PARTS) <= index < len(PARTS):
                    found.setdefault(int(index) % len(PARTS), layer.outputs[0])
            elif layer.primitive.kind == "split" and len(layer.outputs) == len(PARTS):
                for i, value in enumerate(layer.outputs):
                    if (squeezed := self._moved(value, "squeeze")) is not None:
                        found.setdefault(i, squeezed)
        return tuple(found[i] for i in sorted(found)) if len(found) == len(PARTS) else ()

    @property
    def stacked(self) -> dict[str, tuple[str, ...]]:
        """The values that are stacked, by the output."""
        makers, found = {name: x for x in self.topology.layers for name in x.outputs}, dict[str, tuple[str, ...]]()
        for name, value in self.topology.outputs:
            layer = makers.get(value)
            if (
                layer is None
                or layer.primitive.kind != "concat"
                or getattr(layer.primitive, "axis", None) not in (0, -5)
            ):
                continue
            single = [makers.get(x) for x in layer.inputs]
            if len(single) == len(PARTS) and all(x is not None and self._is_first(x, "unsqueeze") for x in single):
                found[name] = tuple(x.inputs[0] for x in single if x is not None)
        return found

    def _moved(self, value: str, kind: str) -> str | None:
        """Return what the only layer that reads *value* makes of it, where that drops or adds the first axis."""
        readers = [x for x in self.topology.layers if value in x.inputs]
        return readers[0].outputs[0] if len(readers) == 1 and self._is_first(readers[0], kind) else None

    def _is_first(self, layer: Layer, kind: str) -> bool:
        """Whether *layer* is of a *kind* that drops or adds axes, and does so with the first."""
        axes = getattr(layer.primitive, "axes", None)
        if layer.primitive.kind == kind and len(layer.inputs) > 1:
            read = self.topology.constants.get(layer.inputs[1])
            axes = None if read is None else tuple(np.ravel(read).tolist())
        return layer.primitive.kind == kind and axes in ((0,), (-5,))


def _presents(topology: Topology) -> dict[str, str]:
    """Return what attentions, or layers that join it with new ones, make of a past, by the past's value."""
    found: dict[str, str] = {}
    for layer in topology.layers:
        if isinstance(layer.primitive, KeepsKeys):
            given = dict(zip(layer.primitive.slots(), layer.inputs, strict=True))
            found |= {given[name]: made for name, made in zip(PAST, layer.outputs[1:], strict=False) if name in given}
        elif layer.primitive.kind == "concat" and getattr(layer.primitive, "axis", None) in (2, -2):
            found[layer.inputs[0]] = layer.outputs[0]
    return found


def _cut(
    topology: Topology, stacks: Iterable[Stack], picked: Mapping[str, str], stacked: Mapping[str, tuple[str, ...]]
) -> Topology:
    """Return *topology* with the parts of *stacks* as inputs and outputs; layers that read a whole one stack it."""
    inputs, declared = dict[str, Signature](), dict(topology.declared)
    outputs, layers = list[tuple[str, str]](), list[Layer]()
    sources, results = {s.input: s for s in stacks}, {s.output: s for s in stacks}
    for name, signature in topology.inputs.items():
        parts = sources[name].inputs if name in sources else (name,)
        inputs |= {part: signature if part == name else _part(signature, part) for part in parts}
        if name in sources:
            ones = [f"{part}/1" for part in parts]
            layers += [Layer(y, Unsqueeze((0,)), (x,), (y,), ()) for x, y in zip(parts, ones, strict=True)]
            layers.append(Layer(f"{name}/stacked", Concat(0), tuple(ones), (name,), ()))
    for layer in topology.layers:
        layers.append(replace(layer, inputs=tuple(picked.get(n, n) for n in layer.inputs)))
    for name, value in topology.outputs:
        made = zip(results[name].outputs, stacked[name], strict=True) if name in results else ((name, value),)
        outputs += made
        if name in results and (whole := declared.pop(name, None)) is not None:
            declared |= {part: _part(whole, part) for part in results[name].outputs}
    return replace(topology, inputs=inputs, outputs=outputs, declared=declared, layers=layers).pruned()


def _part(whole: Signature, name: str) -> Signature:
    return replace(whole, name=name, shape=None if whole.shape is None else whole.shape[1:])
