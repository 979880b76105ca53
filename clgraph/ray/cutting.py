"""Cuts a topology into parts that run one after the other, each in a process of its own: by patterns, or by memory."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.core.frozen import frozen
from clgraph.errors import MemoryLimitError, OptionError
from clgraph.graph.excerpts import excerpt
from clgraph.graph.layer import Layer
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.topology import Topology
from clgraph.passes.placement.partition import first_fitting, unused_patterns


@frozen
class Part:
    """Some layers of a model.

    Attributes:
        reads: Inputs of the model and values of earlier parts, by their names there.
        makes: Values that later parts read, or that are results.
    """

    topology: Topology
    reads: tuple[str, ...]
    makes: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its constants."""
        return sum(array.nbytes for array in self.topology.constants.values())


def by_patterns(topology: Topology, patterns: Sequence[str]) -> tuple[Part, ...]:
    """Return a part for each of *patterns*: of the layers that it is the first to fit, as patterns of placements fit.

    A layer that none fits is in the part that makes the last of what it reads.

    Raises:
        OptionError: A pattern fits nothing, or a layer reads what a later part makes.
    """
    if unused := unused_patterns(topology, patterns):
        raise OptionError(f"stage {unused[0]!r} fits no annotation, name, operator or kind of the model's nodes")
    rules = [(pattern, str(number)) for number, pattern in enumerate(patterns)]
    made: dict[str, int] = {}
    numbers = []
    for layer in topology.needed():
        behind = max((made.get(name, 0) for name in layer.inputs), default=0)
        rule = first_fitting(rules, layer, topology.op_types)
        number = behind if rule is None else int(rule[1])
        if number < behind:
            late = next(name for name in layer.inputs if made.get(name, 0) > number)
            raise OptionError(
                f"node {layer.name!r} is in stage {patterns[number]!r} and reads {late!r} of stage "
                f"{patterns[made[late]]!r}, which comes behind it: change their order, or the patterns"
            )
        made |= dict.fromkeys(layer.outputs, number)
        numbers.append(number)
    if empty := [pattern for number, pattern in enumerate(patterns) if number not in numbers]:
        raise OptionError(f"stage {empty[0]!r} has no node: earlier patterns fit all of its nodes")
    return _parts(topology, numbers)


def by_memory(topology: Topology, limit: int) -> tuple[Part, ...]:
    """Return parts with at most *limit* bytes of constants each, as few as that takes, cut where few values cross.

    Raises:
        MemoryLimitError: The constants of one layer are more than that.
    """
    layers = topology.needed()
    crossing, furthest = _crossing(topology, layers), _furthest(topology, layers, limit)
    fewest = [0] * (len(layers) + 1)
    for start in reversed(range(len(layers))):
        fewest[start] = 1 + fewest[furthest[start]]
    numbers, start = list[int](), 0
    while start < len(layers):
        ends = [e for e in range(start + 1, furthest[start] + 1) if fewest[e] == fewest[start] - 1]
        end = min(ends, key=lambda e: (crossing[e], -e))
        numbers += [fewest[0] - fewest[start]] * (end - start)
        start = end
    return _parts(topology, numbers)


def _furthest(topology: Topology, layers: Sequence[Layer], limit: int) -> list[int]:
    """Return where a part that begins at each of *layers* ends at the latest; raises as :func:`by_memory`."""
    read = [tuple({name for name in layer.inputs if name in topology.constants}) for layer in layers]
    found = []
    for start in range(len(layers)):
        held, size, end = set[str](), 0, start
        while end < len(layers):
            more = [name for name in read[end] if name not in held]
            size += sum(topology.constants[name].nbytes for name in more)
            if size > limit:
                break
            held.update(more)
            end += 1
        if end == start:
            raise MemoryLimitError(
                f"node {layers[start].name!r} has {size} bytes of constants, more than the limit of {limit}: give a "
                "larger one"
            )
        found.append(end)
    return found


def _crossing(topology: Topology, layers: Sequence[Layer]) -> list[int]:
    """Return how many values cross a cut in front of each of *layers*."""
    last = {name: number for number, layer in enumerate(layers) for name in layer.inputs}
    last |= dict.fromkeys((value for _, value in topology.outputs), len(layers))
    counts = [0] * (len(layers) + 1)
    for number, layer in enumerate(layers):
        for name in layer.outputs:
            for cut in range(number + 1, last.get(name, number) + 1):
                counts[cut] += 1
    return counts


def _parts(topology: Topology, numbers: Sequence[int]) -> tuple[Part, ...]:
    members: dict[int, list[Layer]] = {}
    for layer, number in zip(topology.needed(), numbers, strict=True):
        members.setdefault(number, []).append(layer)
    results = {value for _, value in topology.outputs}
    return tuple(
        _part(topology, members[n], {name for m in members if m > n for x in members[m] for name in x.inputs} | results)
        for n in sorted(members)
    )


def _part(topology: Topology, layers: Sequence[Layer], wanted: set[str]) -> Part:
    """Return *layers*, which make those of *wanted* that are theirs."""
    part = excerpt(topology, layers, wanted)
    reads = tuple(name for name in part.inputs if name != RANDOM_KEY)
    return Part(part, reads, tuple(name for name, _ in part.outputs))
