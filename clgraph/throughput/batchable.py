"""Whether requests of a model may be joined to a batch, and how: by the rule of the pass ``split_batch``."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.layout import Shape
from clgraph.errors import ClgraphError, OptionError
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import needs_stages
from clgraph.passes.memory.split_batch import slice_of
from clgraph.throughput.batching import Batching, Joinable, Key

_ENTRIES, _SLICES = 4, 2
"""The batch that the rule is asked about, and in how many slices: none of one entry, which operators may repeat."""


def refusal(topology: Topology) -> str:
    """Say why no requests of *topology* can be joined, whatever their shapes; empty where they may be."""
    if needs_stages(topology):
        return "its shapes depend on data, or it holds control flow"
    if topology.keeps_keys:
        return "it keeps what it was fed in caches"
    if RANDOM_KEY in topology.inputs:
        return "it draws random numbers, which would depend on the place in a batch"
    if not topology.inputs:
        return "it has no inputs"
    for name, signature in topology.inputs.items():
        if signature.host_type:
            return f"input {name!r} is a {signature.host_type}, which has no batch"
        if not signature.shape:
            return f"input {name!r} has no batch dimension"
        if isinstance(signature.shape[0], int) and signature.shape[0] != 1:
            return f"input {name!r} has a batch of {signature.shape[0]}; reshape the model to an open one"
    return ""


def length_axes(inputs: Mapping[str, Signature], pad: Mapping[str, float]) -> dict[str, int]:
    """Return for each input that is filled up which axis that is: the only open one behind the batch.

    Raises:
        OptionError: *pad* names no input, one without an open length or with several, or leaves out one of that length.
    """
    found: dict[str, int] = {}
    for name in pad:
        if name not in inputs:
            raise OptionError(f"batching: pad names no input {name!r}; the inputs are {', '.join(map(repr, inputs))}")
        axes = _open(inputs[name])
        if len(axes) != 1:
            raise OptionError(
                f"batching: pad: input {inputs[name]} has {len(axes)} open lengths behind the batch, and must have one"
            )
        found[name] = axes[0]
    symbols = {(inputs[n].shape or ())[axis] for n, axis in found.items()} - {None}
    for name, signature in inputs.items():
        if name not in found and any((signature.shape or ())[axis] in symbols for axis in _open(signature)):
            raise OptionError(f"batching: input {name!r} has the length that pad fills up: say with what, there too")
    return found


def _open(signature: Signature) -> list[int]:
    """Return the axes behind the batch whose size is open."""
    return [i for i, size in enumerate(signature.shape or ()) if i and not isinstance(size, int)]


def joinable(topology: Topology, key: Key, batching: Batching, lengths: Mapping[str, int]) -> Joinable | str:
    """Return how requests of *key* are joined, or the reason why the graph does not keep their entries independent."""
    shapes = {name: shape for name, (_, shape) in zip(topology.inputs, key, strict=True)}
    try:
        program = _built(topology, shapes)
        found = slice_of(program, _SLICES)
        if isinstance(found, str):
            return found
        if not lengths:
            return Joinable({}, {})
        length = next(shapes[name][axis - 1] for name, axis in lengths.items())
        other = {
            name: tuple(s + batching.step if a + 1 == lengths.get(name) else s for a, s in enumerate(shape))
            for name, shape in shapes.items()
        }
        return _cuts(program, _built(topology, other), lengths, length, length + batching.step)
    except ClgraphError as error:
        return str(error)


def _built(topology: Topology, shapes: Mapping[str, Shape]) -> Program:
    return topology.build({name: (_ENTRIES, *shape) for name, shape in shapes.items()})


def _cuts(one: Program, other: Program, lengths: Mapping[str, int], length: int, longer: int) -> Joinable | str:
    """Return which axes of the results follow the length, by programs of two lengths."""
    cuts: dict[str, tuple[int, ...]] = {}
    for (name, first), (_, second) in zip(one.outputs, other.outputs, strict=True):
        pairs = list(zip(first.layout.shape, second.layout.shape, strict=True))
        cuts[name] = tuple(axis for axis, (a, b) in enumerate(pairs) if a != b)
        if any(pairs[axis] != (length, longer) for axis in cuts[name]):
            return f"output {name!r} is {list(first.layout.shape)} for the length {length}, which cannot be cut back"
    return Joinable(dict(lengths), cuts)
