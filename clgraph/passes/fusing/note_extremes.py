"""Record the extremes of a tensor in the kernel that writes it. clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Milestone, Program
from clgraph.ops.reduce import Reduce
from clgraph.passes.base import Context, Pass


class NoteExtremes(Pass):
    """Take the largest and the smallest element of a tensor from what makes it, on CPU devices.

    Dynamic quantisation asks for both, of every tensor that it rounds: a maximum or minimum of rows or pixels, then of
    what is left. Where the maker's kernel has a list of operations, the last one notes them while the elements are in
    the cache, and nothing reads the tensor for them; where it is moved in between, its maker is asked. Only tensors
    that take longer to read than notes take to begin and to read. Counts the notes.
    """

    name: ClassVar[str] = "note_extremes"
    handles: ClassVar[Mapping[str, str]] = {
        "reduce": "an extreme of a whole tensor is noted by what makes it",
    }
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        extremes = [n for n in program if isinstance(n.primitive, Reduce) and n.primitive.function in ("max", "min")]
        if not extremes:
            return 0
        # Imported only where there are such reductions: most models have none.
        from clgraph.passes.fusing.extreme_notes import note_extreme

        noted = [node.name for node in extremes if note_extreme(program, context, node)]
        self.note(program, [f"noted by what makes the input: {', '.join(noted)}"] * bool(noted))
        return len(noted)
