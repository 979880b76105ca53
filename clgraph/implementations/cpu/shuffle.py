"""Blocks of pixels moved to channels and back, of elements of any type, on CPU devices."""

from __future__ import annotations

from collections.abc import Sequence

from clgraph.implementations.cpu.move_elements import ANY_ELEMENTS, Move, MovedElements
from clgraph.implementations.cpu.rows import Axis
from clgraph.ops.space import Shuffle
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import implements
from clgraph.selector.query import Query


@implements(Shuffle, name="shuffle.elements", serves=ANY_ELEMENTS)
class ShuffleElements(MovedElements):
    """A walk over images, channels, rows and pixels for each pixel of a block."""

    @classmethod
    def moves(cls, q: Query[Shuffle]) -> Sequence[Move]:
        p, (deep, flat) = q.primitive, (q.inputs[0], q.outputs[0])
        if p.to_depth:
            deep, flat = flat, deep
        (n, c, height, width), s = flat.shape, p.size
        block, channel = (1, s * s) if p.channels_first else (c, 1)
        dn, dc, dy, dx = deep.all_pitches
        fn, fc, fy, fx = flat.all_pitches
        walk = (
            (n, dn, fn),
            (c, dc * channel, fc),
            (height // s, dy, fy * s),
            (s, dc * block * s, fy),
            (width // s, dx, fx * s),
            (s, dc * block, fx),
        )
        if p.to_depth:
            # Pixels of the result lie side by side where those of one place in the blocks do.
            images, channels, rows, down, pixels, right = walk
            walk = (images, down, right, channels, rows, pixels)
        axes = tuple(Axis(size, (b, a) if p.to_depth else (a, b)) for size, a, b in walk)
        return (Move(Ref("in0"), Ref("out0"), axes),)
