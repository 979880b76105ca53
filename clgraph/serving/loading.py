"""Compilation of a version of a model that is served: by its own options, by the server's for the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clgraph.errors import ClgraphError
from clgraph.network.budget import MemoryBudget
from clgraph.serving.folder import Found
from clgraph.serving.model_options import ServedModelOptions, read_options
from clgraph.serving.options import ServerOptions

if TYPE_CHECKING:
    from clgraph.throughput.streamed_model import StreamedModel

Compile = Callable[..., "StreamedModel"]

_COMPILING = ("device", "precision", "weights", "threads", "outputs", "shapes", "preprocess")
"""Options of a model that are arguments of :func:`clgraph.compile`."""


def options_of(found: Found) -> ServedModelOptions:
    """Return a version's options; raises as :func:`read_options`."""
    return ServedModelOptions() if found.options is None else read_options(found.options)


def versions_of(found: Found) -> int:
    """Return how many versions a version's options let be served: by default where they cannot be read."""
    try:
        return (ServedModelOptions() if found.fault else options_of(found)).versions
    except ClgraphError:
        return ServedModelOptions().versions


def version_compiler(
    found: Found, options: ServedModelOptions, server: ServerOptions, compile: Compile
) -> Callable[[MemoryBudget], StreamedModel]:
    """Return what compiles a version by *compile* within a budget, and prepares it for the shapes of its options."""
    own = {name: getattr(options, name) for name in _COMPILING}
    arguments = {**server.compile, **{name: value for name, value in own.items() if value is not None}}
    if options.keep_f32:
        arguments["config"] = {**arguments.get("config", {}), "keep_f32": options.keep_f32}

    def make(budget: MemoryBudget) -> StreamedModel:
        model = compile(
            found.path,
            hint="throughput",  # one stream is what "latency" asks for
            streams=1 if options.hint == "latency" else options.streams,
            batching=options.batching,
            queue_size=options.queue or server.queue,
            queue_timeout=0,
            memory_limit=budget,
            **arguments,
        )
        try:
            if options.prepare:
                model.model.prepare(options.prepare)
        except ClgraphError:
            model.close()
            raise
        return model

    return make
