"""Placement preferences of stages: those compiled whatever their size, and patterns that a stage cannot meet."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.errors import UnsupportedError
from clgraph.graph.interpret import ControlFlow
from clgraph.graph.layer import Layer
from clgraph.graph.topology import Topology
from clgraph.model.stages.split import Piece
from clgraph.passes.placement.partition import first_fitting

HOST = "host"


@frozen
class Preferences:
    """Placement preferences for the stages of a model.

    Attributes:
        patterns, fallback: The (pattern, placement) pairs of ``placement``, and ``placement_fallback``, with devices by
            their placements.
        deterministic: What small stages run on does not depend on the runs before.
    """

    patterns: tuple[tuple[str, str], ...] = ()
    fallback: tuple[str, ...] = ()
    deterministic: bool = False

    def name_device(self, piece: Piece) -> bool:
        """Whether a layer of *piece* is to run on another device than the host, so that it must be compiled."""
        return any(self._device(piece.topology, layer) for layer in piece.topology.layers)

    def check(self, piece: Piece) -> None:
        """Raise ``UnsupportedError`` where a layer that only the host computes is to run elsewhere."""
        if piece.compilable or HOST in self.fallback:
            return
        refused = []
        for layer in piece.topology.layers:
            found = self._device(piece.topology, layer)
            if found is not None and not isinstance(layer.primitive, ControlFlow):
                refused.append(
                    f"node {layer.name!r} (from {', '.join(layer.origin)}), placed by {found[0]!r} (placement_fallback "
                    f"lists where else it may go): {found[1]}: {layer.primitive.kind} decides shapes by what is "
                    "computed, between stages, on the host"
                )
        if refused:
            raise UnsupportedError("\n".join(refused))

    def _device(self, topology: Topology, layer: Layer) -> tuple[str, str] | None:
        found = first_fitting(self.patterns, layer, topology.op_types)
        return None if found is None or found[1] == HOST else found


NO_PREFERENCES = Preferences()
"""Everything may run anywhere."""
