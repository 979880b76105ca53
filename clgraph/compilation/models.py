"""From a model file or topology and options to a :class:`Model`, whole or in stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from clgraph.compilation.compiler import Compiler
from clgraph.compilation.sources import OpenShapes, read_source
from clgraph.core.collector import PAUSED
from clgraph.engines.option_checks import annotation_lines, warn
from clgraph.errors import OptionError, UnsupportedError
from clgraph.graph.faults import faults
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.stages.split import needs_stages, split
from clgraph.passes.placement.partition import idle_annotations, unused_patterns
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.frontend.files import Source
    from clgraph.model.stages.model import StagedModel
    from clgraph.ops.preprocess import Preprocess

MakeStage = Callable[[Compiler, Topology], Model]
"""Makes the model of a stage that the compiler compiles where nothing else has it."""


@faults("compiling the model")
def compile_source(
    source: Source | Topology,
    outputs: Sequence[str] | None,
    shapes: OpenShapes | None,
    options: Settings,
    make_stage: MakeStage | None = None,
    images: Mapping[str, Preprocess] | None = None,
) -> Model:
    """Return the model of *source*, compiled if its shapes are known; raises what ``clgraph.compile`` does.

    Args:
        make_stage: Makes the models of stages, where it is cut into such.
        images: What is done to the images that inputs are fed.
    """
    with PAUSED:
        topology = read_source(source, outputs, shapes, images, options.cache_dir)
    if unused := unused_patterns(topology, [pattern for pattern, _ in options.placement]):
        raise OptionError(f"placement: {unused[0]!r} fits no annotation, node name or operator of the model")
    compiler = Compiler(options)
    devices = [info.name for info in compiler.context.devices.values()]
    warn(annotation_lines(idle_annotations(topology, options.placement, devices)))
    if needs_stages(topology) or _gains_from_a_stage(topology, compiler):
        return staged_model(topology, compiler, make_stage)
    make = partial(staged_where_needed, compiler=compiler, make_stage=make_stage)
    model = Model(topology, compiler.context.default, compiler.specialise, staged=make)
    model.prepare_fixed()
    return model


def _gains_from_a_stage(topology: Topology, compiler: Compiler) -> bool:
    """Whether *topology* runs as a single stage, which the host computes where it is small and its sizes are new.

    A loop that is written out has layers a trip, each to be bound to the sizes of a run: milliseconds, for tensors that
    NumPy takes microseconds for.
    """
    if not topology.unrolled or topology.keeps_keys or all(s.is_fixed for s in topology.inputs.values()):
        return False
    options, context = compiler.options, compiler.context
    bound = options.strict or options.deterministic or compiler.limits or context.placement
    return not bound and context.execute is not None and "host_memory" in context.default.features


def staged_where_needed(
    topology: Topology, compiler: Compiler, make_stage: MakeStage | None = None
) -> StagedModel | None:
    """Return the model of a topology that :func:`needs_stages`, as :func:`staged_model` does; ``None`` of another."""
    return staged_model(topology, compiler, make_stage) if needs_stages(topology) else None


def staged_model(topology: Topology, compiler: Compiler, make_stage: MakeStage | None = None) -> StagedModel:
    """Return the model of a topology whose shapes depend on data, or that holds control flow.

    Args:
        make_stage: Makes the models of its stages; by default *compiler* compiles them.
    """
    from clgraph.model.stages.model import StagedModel
    from clgraph.model.stages.preferences import Preferences

    strict, dry = compiler.options.strict, compiler.context.execute is None
    if (folder := compiler.options.dump_graphs) is not None:
        text = "\n\n".join(f"{piece.topology.label}: {piece.topology}" for piece in split(topology))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "stages.txt").write_text(f"{text}\n", encoding="utf-8")
        except OSError as error:
            raise OptionError(f"the stages cannot be written to {folder}: {error.strerror or error}") from error
    if compiler.limits:
        raise UnsupportedError(
            "a model that runs in stages is not shared out by budgets of memory, as each stage is compiled when data "
            "has told its sizes: place its parts by patterns (--placement), and give them a memory limit"
        )
    preferences = Preferences(compiler.context.placement, compiler.context.fallback, compiler.options.deterministic)
    model = StagedModel(
        topology,
        compiler.context.default,
        compiler.specialise,
        strict=strict,
        dry=dry,
        preferences=preferences,
        make=None if make_stage is None else partial(make_stage, compiler),
    )
    model.prepare_fixed()
    return model
