"""Which uses of the constants that sizes decide the nodes of a final program still have, and which left no trace."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from clgraph.core.frozen import mutable
from clgraph.families.built import Built
from clgraph.graph.node import Node


@mutable
class _Group:
    """Built nodes and final ones that share origins: what of the built ones reads a constant, and how often the others.

    Attributes:
        uses: What tells one use from the next, with the names that the constant has there: several where nodes that
            computed it were merged.
    """

    origin: set[str]
    uses: dict[object, set[str]]
    found: int = 0

    def take(self, other: _Group) -> None:
        """Make *other* part of this one."""
        self.origin |= other.origin
        for use, names in other.uses.items():
            self.uses.setdefault(use, set()).update(names)
        self.found += other.found


class ConstantUses:
    """Compares the uses of constants in a built program with those in the final one.

    A constant may have several readers, of which one has it as it was built and another a copy in another format, or
    its product with weights. What became of a built node is known by the origin of the final ones, so that the uses
    are counted apart in each set of nodes that share origins: where fewer are left than were built, one of them is
    somewhere in the program, and is the representative's.
    """

    def __init__(self, built: Built, computed: set[str], merged: Mapping[str, str]) -> None:
        """Take what was *built*, what of it is *computed* from constants alone, and which constants were *merged*."""
        self._built, self._computed, self._merged = built, computed, merged
        self._found: list[tuple[str, tuple[str, ...]]] = []

    def found(self, constant: str, node: Node) -> None:
        """Note that the final *node* reads *constant* as it was built, in one slot."""
        self._found.append((constant, node.origin))

    def kept(self, constant: str) -> str:
        """Return what is read in the place of *constant*: itself, or one that is equal."""
        seen = {constant}
        while (other := self._merged.get(constant)) is not None and other not in seen:
            seen.add(other)
            constant = other
        return constant

    def folded(self, constants: Collection[str]) -> set[str]:
        """Return those of *constants* with a use that no final node has."""
        groups: dict[str, list[_Group]] = {}
        for name, origin, use in self._uses(constants):
            groups.setdefault(self.kept(name), []).append(_Group(set(origin), {use: {name}}))
        for name, origin in self._found:
            groups.setdefault(self.kept(name), []).append(_Group(set(origin), {}, 1))
        apart = (group for found in groups.values() for group in _apart(found))
        lacking = [group for group in apart if group.found < len(group.uses)]
        return {name for group in lacking for names in group.uses.values() for name in names}

    def _uses(self, constants: Collection[str]) -> Iterator[tuple[str, tuple[str, ...], object]]:
        """Yield each use of *constants*: the name, the origin of the reader, and what equal nodes have in common."""
        live = _live(self._built)
        results = {value for value, _ in self._built.results.values()}
        first: dict[object, tuple[str, ...]] = {}
        same: dict[str, str] = {}
        for name, node in self._built.nodes.items():
            if name not in live:
                continue
            # As merge_equal_nodes finds them.
            stays = node.primitive.updates or not results.isdisjoint(node.outputs)
            what: Any = name if stays else (node.primitive, tuple(same.get(v, v) for v in node.inputs))
            same.update(zip(node.outputs, first.setdefault(what, node.outputs), strict=True))
            if self._computed.isdisjoint(node.outputs):
                yield from ((v, node.origin, (what, slot)) for slot, v in enumerate(node.inputs) if v in constants)


def _live(built: Built) -> set[str]:
    """Return the names of the built nodes that results are computed by."""
    wanted = {value for value, _ in built.results.values()}
    found: set[str] = set()
    for name, node in reversed(built.nodes.items()):
        if node.primitive.updates or not wanted.isdisjoint(node.outputs):
            found.add(name)
            wanted.update(node.inputs)
    return found


def _apart(groups: Iterable[_Group]) -> list[_Group]:
    """Join the *groups* that share origins."""
    found: list[_Group] = []
    for group in groups:
        for other in [g for g in found if not g.origin.isdisjoint(group.origin)]:
            group.take(other)
            found.remove(other)
        found.append(group)
    return found
