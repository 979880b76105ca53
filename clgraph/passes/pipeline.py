"""The order of the passes, with the reason for each one's place."""

from __future__ import annotations

from clgraph.passes.add_required_reorders import AddRequiredReorders
from clgraph.passes.base import Pass
from clgraph.passes.build_kernels import BuildKernels
from clgraph.passes.compile_graph import CompileGraph
from clgraph.passes.fold_constants import FoldConstants
from clgraph.passes.init import Init
from clgraph.passes.memory_dependencies import MemoryDependencies
from clgraph.passes.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.partition import Partition
from clgraph.passes.plan_memory import PlanMemory
from clgraph.passes.post_optimize_weights import PostOptimizeWeights
from clgraph.passes.propagate_constants import PropagateConstants
from clgraph.passes.remove_layering_annotations import RemoveLayeringAnnotations


def default_pipeline() -> tuple[Pass, ...]:
    """Return every pass, in the order in which they run."""
    return (
        Init(),  # what reaches no output costs every later pass
        FoldConstants(),  # patterns and decompositions look at constants
        Partition(),  # on a graph whose spelling is settled; capability is asked for whole operators
        RemoveLayeringAnnotations(),  # placements bind from here on; hints would only forbid fusions
        AddRequiredReorders(),  # whatever the optional passes left without an implementation
        CompileGraph(),  # layouts are final
        PostOptimizeWeights(),  # only chosen kernels ask for weights
        PropagateConstants(),  # the reorders of constants just inserted run once
        MemoryDependencies(),  # no node comes or goes any more
        OooqMemoryDependencies(),  # adds to the pairs of an in-order run
        PlanMemory(),  # all pairs are known
        BuildKernels(),  # every text is known; needs no memory, but comes last so that errors above cost no build
    )


def required_pipeline() -> tuple[Pass, ...]:
    """Return the passes that every program goes through."""
    return tuple(p for p in default_pipeline() if p.required)
