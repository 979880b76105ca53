"""Let values share buffers, so that joining and cutting moves nothing. Answers clDNN's prepare_buffer_fusing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.ops.concat import Concat
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.split import Split
from clgraph.ops.transpose import Transpose
from clgraph.passes.base import Context, Pass
from clgraph.passes.memory.joining import join_parts
from clgraph.passes.memory.views import cut_parts, pitched_view, view, write_transposed
from clgraph.passes.rewriting import constant_part


class PrepareBufferFusing(Pass):
    """Put the parts of a concat into its result, and cuts and reshapes into their input: several values in one buffer.

    * A concat runs nothing when every input can be written where the result has it: its producer and all its readers
      serve the result's pitches, it is not a graph input, output or constant and shares no buffer yet, it appears once,
      its offset is a multiple of the blocks and of 64 bytes (16 on a GPU), and only the last part may end inside a
      block. Concats are visited last first, so that one inside another lies in the outer one's buffer.
    * A slice or split with steps of 1 along one axis is a view under the same conditions on its readers, as long as
      the input has no halo and no part but the last ends inside a block: the lanes behind it would not be zeros.
    * A reshape or reorder whose elements lie in the same places is a view.
    * On a GPU, whose kernels take any pitches, a reshape of such a part is a view, and a transpose that its input's
      producer can write, or whose readers can read, as it is. On a CPU, whose other kernels lose more than a copy
      takes where vectors are not side by side, so are those around attention. It reads queries, keys and values where
      matrix products left them, and writes its heads side by side.
    * Nothing shares a buffer across devices, and nothing that is made of constants alone shares one: it becomes a
      constant, which no run writes anywhere.

    Whatever does not fit stays a copy. The layouts of values that share a buffer do not change after this pass;
    add_required_reorders copies beside them instead. Counts the nodes that run nothing any more.
    """

    name: ClassVar[str] = "prepare_buffer_fusing"
    handles: ClassVar[Mapping[str, str]] = {
        "concat": "its parts lie in its result",
        "slice": "lies in what it cuts",
        "split": "lies in what it cuts",
        "reshape": "lies in its input",
        "transpose": "lies in its input or the other way round, on a GPU and around attention",
        "reorder": "lies in its input where nothing moves",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        before = sum(n.in_place for n in program)
        once = frozenset(constant_part(program))
        for node in reversed(tuple(program)):
            if isinstance(node.primitive, Concat) and node not in once:
                join_parts(program, context, node, once)
        for node in program:
            if node in once:
                continue
            if isinstance(node.primitive, Slice | Split):
                cut_parts(program, context, node)
            elif isinstance(node.primitive, Reshape | Reorder):
                view(program, context, node)
                pitched_view(program, context, node)
            elif isinstance(node.primitive, Transpose):
                write_transposed(program, context, node, once)
                pitched_view(program, context, node)
        return sum(n.in_place for n in program) - before
