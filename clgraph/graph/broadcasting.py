"""The shape that tensors broadcast to, as in NumPy, of any size."""

from __future__ import annotations

from clgraph.errors import ShapeError


def broadcasts_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether *shape* broadcasts to *wanted* and not beyond it."""
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return len(shape) <= len(wanted) and all(size in (1, there) for size, there in pairs)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the common shape of NumPy broadcasting, of any size; raises ``ShapeError`` where there is none."""
    made = max(shapes, key=len, default=())
    for shape in shapes:
        if shape != made:
            common = list(made)
            for axis in range(-len(shape), 0):
                size, wide = shape[axis], common[axis]
                if wide == 1:
                    common[axis] = size
                elif size not in (1, wide):
                    raise ShapeError(f"{' and '.join(str(list(shape)) for shape in shapes)} do not broadcast")
            made = tuple(common)
    return made
