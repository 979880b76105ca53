"""Values that a session feeds back unchanged, such as the states of a recurrent network."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from clgraph.errors import InputError
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.state.pairs import StatePair

_COUNTERPARTS = (
    (r"past(?![a-z])", "present"),
    (r"^", "new_"),
    (r"^", "next_"),
    (r"(?<=[^a-z])in(?![a-z])|^in(?=[^a-z])", "out"),
    (r"$", "_out"),
    (r"$", "N"),
)
"""What turns an input's name into that of the output that is fed back to it: patterns, and what takes their place."""


class Carried:
    """The values of some pairs. It is not changed: a run leads to another one, which takes its place when all is well.

    Attributes:
        pairs: What is carried.
    """

    def __init__(
        self, topology: Topology, pairs: Sequence[StatePair], values: Mapping[str, Array] = MappingProxyType({})
    ) -> None:
        """Carry *values*, by the inputs' names; none at first."""
        self.pairs, self._topology, self._values = tuple(pairs), topology, values

    def feeds(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the values by the inputs' names: zeros at first, whose open size is the batch's of what is *given*.

        Raises ``InputError`` where more sizes are open.
        """
        found = dict(self._values)
        for pair in self.pairs:
            if pair.input not in found:
                signature = self._topology.inputs[pair.input]
                shape = signature.shape or (None, None)
                if sum(not isinstance(d, int) for d in shape) > 1 or signature.dtype is None:
                    raise InputError(f"input {signature} has open sizes: feed it at the session's first run")
                batch = self._batch(given, next((d for d in shape if not isinstance(d, int)), None))
                sizes = [d if isinstance(d, int) else batch for d in shape]
                found[pair.input] = np.zeros(sizes, signature.dtype.numpy)
        return found

    def beginning(self, values: Mapping[str, Array]) -> Carried:
        """Return what carries *values* into the next run, by the inputs' names, and the others as this does."""
        return Carried(self._topology, self.pairs, {**self._values, **values})

    def behind(self, results: Mapping[str, Array]) -> Carried:
        """Return what carries the *results* of a run."""
        return Carried(self._topology, self.pairs, {pair.input: results[pair.output] for pair in self.pairs})

    def cleared(self) -> Carried:
        """Return what carries nothing yet."""
        return Carried(self._topology, self.pairs)

    def _batch(self, given: Mapping[str, Array], name: Any) -> int:
        """Return the size called *name* in what is given; the first one of the first array where none is called so."""
        for source, array in given.items():
            shape = self._topology.inputs[source].shape or ()
            if name is not None and name in shape:
                return int(array.shape[shape.index(name)])
        return next((int(a.shape[0]) for a in given.values() if a.ndim), 1)


def recurrent_pairs(topology: Topology) -> list[StatePair]:
    """Return the first and last states and cells of recurrent layers that are inputs and outputs of the model."""
    results, found = {value: name for name, value in topology.outputs}, []
    for layer in topology.layers:
        if layer.primitive.kind == "recurrent":
            given = dict(zip(_present(layer.primitive), layer.inputs[3:], strict=True))
            for name, made in zip(("hidden", "cell"), layer.outputs[1:], strict=False):
                if given.get(name) in topology.inputs and made in results:
                    reader = f"{layer.primitive.kind} {layer.name!r}"
                    found.append(StatePair(given[name], results[made], grows=False, reader=reader))
    return found


def _present(primitive: Primitive) -> tuple[str, ...]:
    from clgraph.ops.recurrent import Recurrent

    assert isinstance(primitive, Recurrent)
    return primitive.present


def counterparts(topology: Topology, kept: Container[str]) -> list[StatePair]:
    """Return inputs and outputs of one type and shape that are called each other's, as exporters do: ``past_ssm.0``.

    None of a model that would have no other input: a picture that is made of a picture is no state.

    Args:
        kept: Inputs that are state already.
    """
    results, found = {name for name, _ in topology.outputs}, dict[str, str]()
    sizes = {d for signature in topology.inputs.values() for d in signature.shape or () if isinstance(d, str)}
    for name in topology.fed:
        if name in kept or len([d for d in topology.inputs[name].shape or (None, None) if not isinstance(d, int)]) > 1:
            continue
        for pattern, made in _COUNTERPARTS:
            other = re.sub(pattern, made, name, count=1)
            declared = topology.declared.get(other)
            if other != name and other in results and _alike(topology.inputs[name], declared, sizes):
                found.setdefault(other, name)
    if all(name in kept or name in found.values() for name in topology.fed):
        return []
    return [StatePair(source, result, grows=False, reader="by its name") for result, source in found.items()]


def _alike(given: Signature, made: Signature | None, names: Container[str]) -> bool:
    """Say whether both are declared with one type and shape; an open size has one name, which those of caches have not.

    What is made may leave a size out that is given, or call it as no input does: ``torch.onnx.export`` names sizes that
    it does not know, such as ``Castpresent_ssm.0_dim_1``. *names* are those of the inputs' sizes.
    """
    if made is None or made.shape is None or given.shape is None:
        return False
    if given.dtype != made.dtype or len(given.shape) != len(made.shape):
        return False
    sizes = zip(given.shape, made.shape, strict=True)
    return all(g is not None and (m == g or (isinstance(g, int) and _is_unsaid(m, names))) for g, m in sizes)


def _is_unsaid(size: int | str | None, names: Container[str]) -> bool:
    """Say whether a size of what is made is open, and none that *names* have."""
    return size is None or (isinstance(size, str) and size not in names)


def named_pairs(topology: Topology, named: Mapping[str, str]) -> list[StatePair]:
    """Return pairs of an input and an output that a user names; raises ``InputError`` where there is no such one."""
    results = {name for name, _ in topology.outputs}
    for source, result in named.items():
        if source not in topology.fed or result not in results:
            what, names = ("input", topology.fed) if source not in topology.fed else ("output", sorted(results))
            missing = source if what == "input" else result
            raise InputError(f"no {what} is called {missing!r}; there are {', '.join(map(repr, names))}")
    return [StatePair(source, result, grows=False, reader="as named") for source, result in named.items()]
