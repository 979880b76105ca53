"""What repeats an input along some axes on CPU devices: rows once, then copies of what has been made of them."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import Move
from clgraph.implementations.cpu.rows import Axis, merge
from clgraph.selector.descriptor import Ref

SHORT = 64
"""Bytes of rows, of which going to the next one takes longer than moving them."""


def repetitions(axes: Sequence[Axis], itemsize: int) -> list[Move]:
    """Return the moves from the input to a dense result, whose *axes* are in order.

    Of short rows only the innermost repetition is walked. Each other one copies what lies behind it, a block of
    neighbours by then.
    """
    found = merge(axes)
    repeated = [i for i, axis in enumerate(found) if axis.pitches[0] == 0]
    if len(repeated) < 2 or found[-1].size * itemsize > SHORT:
        return [Move(Ref("in0"), Ref("out0"), tuple(found))]
    outer = repeated[:-1]
    moves = [Move(Ref("in0"), Ref("out0"), tuple(axis for i, axis in enumerate(found) if i not in outer))]
    for at in reversed(outer):
        block = found[at].pitches[1]
        before = [Axis(a.size, (a.pitches[1],) * 2) for i, a in enumerate(found[:at]) if i not in outer]
        copies = (*before, Axis(found[at].size - 1, (0, block)), Axis(block, (1, 1)))
        moves.append(Move(Ref("out0"), Ref("out0", block * itemsize), copies))
    return moves
