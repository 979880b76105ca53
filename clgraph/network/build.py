"""Building the kernels of a program before anything is bound."""

from __future__ import annotations

from collections.abc import Mapping

from clgraph.graph.program import Program
from clgraph.network.steps import texts
from clgraph.runtime.engine import Engine


def build_kernels(program: Program, engines: Mapping[str, object]) -> int:
    """Build every kernel text that the plans of *program* name, each once; return how many had to be compiled.

    Raises:
        KernelBuildError: One does not compile; names the kernel.
    """
    open_engines = {p: e for p, e in engines.items() if isinstance(e, Engine)}
    built = 0
    for (placement, text), (what, library) in texts(program, open_engines).items():
        built += open_engines[placement].build(text, what, library=library)
    return built
