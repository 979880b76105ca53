"""Constants of a model that are inputs too: they have a value where none is fed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from clgraph.errors import UnsupportedError
from clgraph.graph.topology import Topology


def opened(topology: Topology, names: Iterable[str]) -> Topology:
    """Return the same layers with overridable constants as inputs, behind the others.

    Raises:
        UnsupportedError: The value of one has decided what was made of the model.
    """
    wanted = set(names)
    signatures = {name: s for name, s in topology.overridable.items() if name in wanted}
    if decided := sorted(signatures.keys() & topology.deciding):
        raise UnsupportedError(
            f"the value that the model has for input {decided[0]!r} was read when it was compiled: to feed another, "
            f"give its shape when it is compiled: --shape {decided[0]}=SIZES, or shapes={{{decided[0]!r}: (...)}}"
        )
    return replace(
        topology,
        inputs=topology.inputs | signatures,
        constants={name: array for name, array in topology.constants.items() if name not in signatures},
        overridable={name: s for name, s in topology.overridable.items() if name not in signatures},
    )
