"""The order of the passes, with the reason for each one's place."""

from __future__ import annotations

from clgraph.passes.base import Pass
from clgraph.passes.constants.compute_constants import ComputeConstants
from clgraph.passes.constants.fold_constants import FoldConstants
from clgraph.passes.constants.propagate_constants import PropagateConstants
from clgraph.passes.formats.add_required_reorders import AddRequiredReorders
from clgraph.passes.formats.convert_precision import ConvertPrecision
from clgraph.passes.formats.handle_reshape import HandleReshape
from clgraph.passes.formats.prepare_padding import PreparePadding
from clgraph.passes.formats.remove_redundant_reorders import RemoveRedundantReorders
from clgraph.passes.formats.reorder_inputs import ReorderInputs
from clgraph.passes.formats.widen_floats import WidenFloats
from clgraph.passes.fusing.absorb_channel_shuffles import AbsorbChannelShuffles
from clgraph.passes.fusing.fold_into_weights import FoldIntoWeights
from clgraph.passes.fusing.fuse_attention import FuseAttention
from clgraph.passes.fusing.fuse_bottlenecks import FuseBottlenecks
from clgraph.passes.fusing.fuse_pre_operations import FusePreOperations
from clgraph.passes.fusing.fuse_recurrent_layers import FuseRecurrentLayers
from clgraph.passes.fusing.fuse_siblings import FuseSiblings
from clgraph.passes.fusing.hoist_activations import HoistActivations
from clgraph.passes.fusing.hoist_pooling import HoistPooling
from clgraph.passes.fusing.merge_groups import MergeGroups
from clgraph.passes.fusing.note_extremes import NoteExtremes
from clgraph.passes.fusing.prepare_primitive_fusing import PreparePrimitiveFusing
from clgraph.passes.fusing.sink_scales import SinkScales
from clgraph.passes.kernels.build_kernels import BuildKernels
from clgraph.passes.kernels.compile_graph import CompileGraph
from clgraph.passes.kernels.post_optimize_weights import PostOptimizeWeights
from clgraph.passes.memory.memory_dependencies import MemoryDependencies
from clgraph.passes.memory.oooq_memory_dependencies import OooqMemoryDependencies
from clgraph.passes.memory.plan_memory import PlanMemory
from clgraph.passes.memory.prepare_buffer_fusing import PrepareBufferFusing
from clgraph.passes.memory.split_batch import SplitBatch
from clgraph.passes.patterns.decompose import Decompose
from clgraph.passes.patterns.fuse_patterns import FusePatterns
from clgraph.passes.patterns.init import Init
from clgraph.passes.patterns.merge_equal_nodes import MergeEqualNodes
from clgraph.passes.patterns.transpose_optimization import TransposeOptimization
from clgraph.passes.placement.confirm_placement import ConfirmPlacement
from clgraph.passes.placement.insert_transfers import InsertTransfers
from clgraph.passes.placement.partition import Partition
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.passes.quantization.compress_weights import CompressWeights
from clgraph.passes.quantization.compute_twice import ComputeTwice
from clgraph.passes.quantization.keep_weights_packed import KeepWeightsPacked
from clgraph.passes.quantization.prepare_quantization import PrepareQuantization
from clgraph.passes.quantization.round_as_fused import RoundAsFused
from clgraph.passes.quantization.use_integers import UseIntegers
from clgraph.passes.targets.target_code_emission import TargetCodeEmission
from clgraph.passes.targets.target_memory_allocation import TargetMemoryAllocation
from clgraph.passes.targets.target_passes import TargetPasses
from clgraph.passes.targets.target_scheduling import TargetScheduling
from clgraph.passes.targets.target_tensor_selection import TargetTensorSelection


def default_pipeline() -> tuple[Pass, ...]:
    """Return every pass, in the order in which they run."""
    return (
        Init(),  # what reaches no output costs every later pass
        MergeEqualNodes(),  # what is rewritten and folded next is there once
        WidenFloats(),  # patterns, groups of integers and costs are about what is computed
        SplitBatch(),  # every later pass, its costs and its formats see the sizes of one slice
        KeepWeightsPacked(),  # weights of few bits become floats in the next pass
        FoldConstants(),  # patterns and decompositions look at constants
        ComputeConstants(required_pipeline),  # the large ones; formats and fusions ask for constants
        RoundAsFused(),  # before decompose exchanges operands
        Decompose(),  # patterns are written for few spellings
        FusePatterns(),  # before transposes sink into what they spell
        TransposeOptimization(),  # on the fewest nodes; leaves no transpose between quantised groups
        PrepareQuantization(),  # on patterns that nothing stands between any more
        Partition(),  # on a graph whose spelling is settled; capability is asked for whole operators
        RemoveLayeringAnnotations(),  # placements bind from here on; hints would only forbid fusions
        UseIntegers(),  # asks each node's device; weights in float16 would not know their integers
        CompressWeights(),  # of floats as the model has them, behind all that takes products for integers
        ConvertPrecision(),  # asks each node's device; constants were folded in float32
        InsertTransfers(),  # every later pass sees copies between devices as nodes, and no edge that crosses
        TargetTensorSelection(),  # operators as the model spells them, each on its device, nothing fused
        FuseAttention(),  # asks each node's device; what stands between the products must not be fused yet
        SinkScales(),  # what ends up behind a product can be folded or fused
        HoistPooling(),  # past scales, which are folded once they stand behind what they scale
        FoldIntoWeights(),  # before anything is fused into convolutions, and before groups make their weights larger
        AbsorbChannelShuffles(),  # before groups are merged with bands, which fix the order of their channels
        MergeGroups(),  # what is fused next is asked of the convolutions as they will be
        HoistActivations(),  # so that what makes the inputs of a concat can take them
        FuseBottlenecks(),  # takes the activations between its convolutions, which must not be fused yet
        FuseRecurrentLayers(),  # takes the products of what layers read, into which nothing must be fused yet
        PreparePrimitiveFusing(),  # fewer nodes for the choice of formats; needs to know each node's device
        FusePreOperations(),  # what has found no producer
        FuseSiblings(),  # what is fused behind siblings must be alike; formats are chosen for what is left
        ComputeTwice(),  # what is behind sums is fused behind them; what is added has formats chosen
        ReorderInputs(),  # formats of what is left, and the reorders between them
        HandleReshape(),  # reshapes that met when other nodes between them went
        PreparePadding(),  # halos of the kernels provisionally chosen with the formats
        RemoveRedundantReorders(),  # those of reorder_inputs and of halos that a producer can write itself
        NoteExtremes(),  # of kernels with the formats that they are chosen for; shared buffers are made by what notes
        PrepareBufferFusing(),  # every format, halo and reorder is known; none may change afterwards
        AddRequiredReorders(),  # whatever the optional passes left without an implementation
        TargetPasses(),  # a target's own rewrites see the graph as it will be compiled
        ConfirmPlacement(),  # nodes have come since partition, a target's too; none comes for a device any more
        CompileGraph(),  # layouts are final
        PostOptimizeWeights(),  # only chosen kernels ask for weights
        PropagateConstants(),  # the reorders of constants just inserted run once
        TargetScheduling(),  # the nodes and their kernels are settled
        MemoryDependencies(),  # no node comes or goes any more
        OooqMemoryDependencies(),  # adds to the pairs of an in-order run
        TargetMemoryAllocation(),  # all pairs are known, no place is
        PlanMemory(),  # all pairs are known
        TargetCodeEmission(),  # the last word on steps, with everything known
        BuildKernels(),  # every text is known; needs no memory, but comes last so that errors above cost no build
    )


def required_pipeline() -> tuple[Pass, ...]:
    """Return the passes that every program goes through."""
    return tuple(p for p in default_pipeline() if p.required)
