"""Sources of models: the topology of a file, of a model in memory, or one built in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clgraph.core.cache_folder import cache_folder
from clgraph.errors import ModelError, OptionError

if TYPE_CHECKING:
    from clgraph.frontend.files import Source
    from clgraph.graph.signature import Dimension
    from clgraph.graph.topology import Topology
    from clgraph.ops.preprocess import Preprocess

OpenShapes = Mapping[str, Sequence["Dimension"]]
"""Shapes of inputs by name, in which dimensions may stay open."""


def read_source(
    source: Source | Topology,
    outputs: Sequence[str] | None,
    shapes: OpenShapes | None,
    images: Mapping[str, Preprocess] | None = None,
    cache_dir: Path | None = None,
) -> Topology:
    """Return the topology of *source* with these *outputs* and *shapes*; raises what ``clgraph.compile`` does.

    Args:
        images: What is done to the images that inputs are fed: *shapes* are theirs.
        cache_dir: As the options have it; it keeps what onnx says of operators.
    """
    # Where a model comes out of the cache, nothing is read.
    from clgraph.graph.topology import Topology
    from clgraph.graph.unrolling import unroll

    if not isinstance(source, Topology):
        from clgraph.frontend.onnx_loader import load_onnx

        kept = None if cache_dir is None else cache_folder(cache_dir) / "compiled" / "schemas"
        source = load_onnx(source, fed=shapes or (), kept=kept)
    source = source.plain()
    if images:
        from clgraph.compilation.preprocessing import preprocessed

        source = preprocessed(source, images)
    if outputs is not None:
        source = _narrow(source, outputs)
    if not source.outputs:
        made = "; in Python, Topology.output(name) makes one" if source.layers else ""
        raise ModelError(f"there is nothing to compute: the model has no outputs{made}")
    source = source.with_shapes(shapes) if shapes else source
    # What reads elements to tell a shape cannot be bound, and would keep a model that needs it for nothing from it.
    idle = any(layer.primitive.data_dependent for layer in source.layers) and len(source.needed()) < len(source.layers)
    source = source.pruned() if idle else source
    if any(layer.primitive.kind == "loop" for layer in source.layers):
        from clgraph.compilation.idioms.even_bags import with_bags_together

        source = with_bags_together(source)
    source = unroll(source)
    if any(layer.primitive.kind == "scatter_nd" for layer in source.layers):
        from clgraph.compilation.idioms.assigned_slices import with_assigned_slices

        source = with_assigned_slices(source)
    if any(layer.primitive.kind == "non_zero" for layer in source.layers):
        from clgraph.compilation.idioms.chosen_rows import with_all_rows
        from clgraph.compilation.idioms.rows_in_place import with_rows_in_place

        return with_rows_in_place(with_all_rows(source))
    if any(layer.primitive.kind == "top_k" for layer in source.layers):
        from clgraph.compilation.idioms.sorted_mixtures import with_sorted_mixtures

        return with_sorted_mixtures(source)
    return source


def images_of(preprocess: object) -> dict[str, Preprocess]:
    """Return the preprocessing of images by input name; raises as ``clgraph.compile``."""
    if preprocess is None:
        return {}
    from clgraph.compilation.preprocessing import by_input

    return by_input(preprocess)


def _narrow(topology: Topology, outputs: Sequence[str]) -> Topology:
    """Return *topology* with only these results."""
    made = dict(topology.outputs)
    known = {*topology.inputs, *topology.constants, *(name for layer in topology.layers for name in layer.outputs)}
    if unknown := [name for name in outputs if name not in made and name not in known]:
        raise OptionError(f"the model makes nothing called {unknown[0]!r}; its outputs are {', '.join(made)}")
    return replace(topology, outputs=[(name, made.get(name, name)) for name in outputs])
