"""Comparison of layouts by element addresses, and views of the same memory with other shapes."""

from __future__ import annotations

from clgraph.core.layout import Layout, Shape

Walk = tuple[tuple[int, int], ...]


def walk(layout: Layout) -> Walk | None:
    """Return how the logical elements, in row-major order, lie in memory: (count, elements apart), outermost first.

    Loops of one step are left out and loops that continue one another are one, so that equal walks mean equal places.
    ``None`` where no such loops describe the order: a block that is not filled in front of others.
    """
    loops: list[tuple[int, int]] = []
    inner = layout.inner_pitches
    for axis, (size, pitch) in enumerate(zip(layout.shape, layout.all_pitches, strict=True)):
        block = layout.format.block(axis)
        if block == 1:
            loops.append((size, pitch))
        elif (size <= block and layout.halos[axis] == (0, 0)) or pitch == block * inner[axis]:
            loops.append((size, inner[axis]))
        elif size % block == 0 and layout.halos[axis] == (0, 0):
            loops += [(size // block, pitch), (block, inner[axis])]
        else:
            return None
    merged: list[tuple[int, int]] = []
    for count, pitch in loops:
        if count == 1:
            continue
        if merged and merged[-1][1] == count * pitch:
            merged[-1] = (merged[-1][0] * count, pitch)
        else:
            merged.append((count, pitch))
    return tuple(merged)


def same_places(first: Layout, second: Layout) -> bool:
    """Whether both layouts have their elements, in row-major order, at the same distances from the first one."""
    if first.count != second.count or first.dtype.itemsize != second.dtype.itemsize:
        return False
    if first.is_dense_plain and second.is_dense_plain:
        return True
    one = walk(first)
    return one is not None and one == walk(second)


def reshaped_pitches(layout: Layout, shape: Shape) -> tuple[int, ...] | None:
    """Return the pitches of *shape* over the places of *layout*, element for element in row-major order.

    ``None`` where no pitches describe it, as when an axis of *shape* would cross a gap.
    """
    loops = walk(layout)
    if loops is None:
        return None
    left = list(loops)
    pitches = [1] * len(shape)
    for axis in reversed(range(len(shape))):
        size = shape[axis]
        if size == 1:
            pitches[axis] = pitches[axis + 1] * shape[axis + 1] if axis + 1 < len(shape) else 1
            continue
        if not left or left[-1][0] % size:
            return None
        count, pitch = left.pop()
        pitches[axis] = pitch
        if count > size:
            left.append((count // size, pitch * size))
    return tuple(pitches)
