"""Planned programs on the engines of their placements: built, bound to networks, run once."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.core.frozen import frozen
from clgraph.core.progress import counted
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network.network import Network
from clgraph.network.node_steps import texts
from clgraph.network.waking import engine_of
from clgraph.network.workspace import Workspace
from clgraph.runtime.at_exit import GATE
from clgraph.runtime.engine import Engine
from clgraph.runtime.host import HostEngine
from clgraph.saved.kept_libraries import library_of
from clgraph.selector.library import Library
from clgraph.settings import Settings


@frozen
class ProgramRunner:
    """Runs planned programs on engines, under options.

    Attributes:
        engines: What runs the nodes of each placement.
    """

    engines: Mapping[str, Engine | HostEngine]
    options: Settings

    def network(self, program: Program, workspace: Workspace | None = None) -> Network:
        """Return what runs a planned *program*, with its memory in *workspace*."""
        return Network.under(self.options, program, self.engines, self._library, workspace)

    def execute(self, program: Program, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Run a planned program once."""
        options = self.options
        network = Network(program, self.engines, options.executor, poison=options.poison, library=self._library)
        return network.run_once(feeds)

    def _library(self, name: str, simd: int) -> Library:
        return library_of(name, simd, self.options.cache_dir)

    @GATE
    def build(self, program: Program) -> int:
        """Build every kernel text of a planned program; return how many were new."""
        engines = {name: e for name, e in self.engines.items() if isinstance(e, Engine)}
        wanted = texts(program, engines, self._library).items()
        builders = {placement: engine_of(e, program, placement) for placement, e in engines.items()}
        new = 0
        for name, builder in builders.items():
            libraries = {text: what for (placement, text), (what, library) in wanted if library and placement == name}
            new += builder.programs.build_side_by_side(libraries)
        return new + sum(
            builders[placement].build(text, what, library=library)
            for (placement, text), (what, library) in counted("kernel", wanted, lambda item: item[1][0])
        )
