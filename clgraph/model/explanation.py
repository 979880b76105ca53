"""The decisions about every node of a program and their reasons: values, which are shown as text, a table or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field, replace
from difflib import get_close_matches

from clgraph.core.frozen import frozen
from clgraph.core.notebook import html_table
from clgraph.errors import OptionError
from clgraph.model.reports import NodeReport, SubgraphReport
from clgraph.network.profile import Profile
from clgraph.passes.quantization.few_bits import Compressed

FUSING = ("fold_into_weights", "prepare_primitive_fusing", "fuse_pre_operations")
"""The passes whose notes say what was fused into what."""


COMPRESSING = "compress_weights"
"""The pass whose note says which weights were stored in few bits, and which were not and why."""


@frozen
class Fusion:
    """The decision of a pass of :data:`FUSING` about one elementwise node: what it was fused into, or why not.

    Attributes:
        outcome: ``behind``, ``in front of``, ``into the weights and bias of``, or the first two with ``not``.
        into: The other node.
        reason: Why not; empty where it was done.
    """

    node: str
    outcome: str
    into: str
    reason: str = ""

    @property
    def done(self) -> bool:
        """Whether the node was fused."""
        return not self.outcome.startswith("not ")


@frozen
class Explanation:
    """A compiled program, node by node, the notes its passes left, and its subgraphs."""

    nodes: tuple[NodeReport, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    subgraphs: tuple[SubgraphReport, ...] = ()

    @property
    def fusions(self) -> tuple[Fusion, ...]:
        """What was fused into what, and what was not and why."""
        notes = [line for name in FUSING for line in self.notes.get(name, "").splitlines()]
        return tuple(f for f in map(_fusion, notes) if f is not None)

    @property
    def compressed(self) -> tuple[Compressed, ...]:
        """The weights that the option ``weights`` has compressed, with the error of each."""
        found = map(Compressed.read, self.notes.get(COMPRESSING, "").splitlines())
        return tuple(c for c in found if c is not None)

    def __getitem__(self, name: str) -> NodeReport:
        """Return the node called *name*, or the one that the ONNX node of that name has become.

        Nodes that passes have added, such as reorders, come after the node that they were added for.

        Raises:
            OptionError: There is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        stems = sorted((n for n in self.nodes if name in n.origin), key=lambda n: n.name not in n.origin)
        if stems:
            return stems[0]
        near = get_close_matches(str(name), [n.name for n in self.nodes], cutoff=0.0)
        raise OptionError(f"no node is called {name!r} or stems from one of that name; the nearest: {', '.join(near)}")

    def with_profile(self, profile: Profile) -> Explanation:
        """Return the same with what each node took in *profile*, a run of the same model."""
        times = profile.by_node()
        return replace(self, nodes=tuple(replace(n, measured=times.get(n.name)) for n in self.nodes))

    def to_json(self) -> str:
        """Return everything as a JSON text."""
        data = {
            "nodes": [asdict(n) for n in self.nodes],
            "fusions": [asdict(f) | {"done": f.done} for f in self.fusions],
            "compressed": [asdict(c) for c in self.compressed],
            "subgraphs": [asdict(s) for s in self.subgraphs],
            "notes": dict(self.notes),
        }
        return json.dumps(data, indent=1, default=str)

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.nodes)} nodes>"

    def table(self, *, measured: bool = False) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return the headers and the rows, one a node, of a table; times are in microseconds.

        Args:
            measured: Whether it has a column of the measured times.
        """
        places = ("placement", "subgraph") if len(self.subgraphs) > 1 else ("placement",)
        times = ("estimate", "measured") if measured else ("estimate",)
        headers = ("node", "primitive", "fused", "output", *places, "implementation", *times, "because")
        rows = [
            (
                n.name,
                n.primitive,
                " + ".join(n.fused),
                n.outputs[0][1],
                *(getattr(n, place) or "" for place in places),
                n.implementation or "",
                *("" if (seconds := getattr(n, time)) is None else f"{seconds * 1e6:.1f}" for time in times),
                n.because or "",
            )
            for n in self.nodes
        ]
        return headers, rows

    def _repr_html_(self) -> str:
        return html_table(f"Explanation of {len(self.nodes)} nodes", *self.table())

    def __str__(self) -> str:
        subgraphs = self.subgraphs if len(self.subgraphs) > 1 else ()
        notes = ["\n  ".join(f"{name}: {text}".splitlines()) for name, text in self.notes.items()]
        return "\n".join([*map(str, self.nodes), *map(str, subgraphs), *notes])


_OUTCOMES = ("not behind ", "not in front of ", "behind ", "in front of ", "into the weights and bias of ")


def _fusion(note: str) -> Fusion | None:
    node, _, rest = note.partition(": ")
    for outcome in _OUTCOMES:
        if rest.startswith(outcome):
            into, _, reason = rest.removeprefix(outcome).partition(": ")
            return Fusion(node, outcome.strip(), into, reason)
    return None
