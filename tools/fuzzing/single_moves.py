"""Single operators that move elements, or pick and search them."""

from __future__ import annotations

import math

import numpy as np

from tools.fuzzing.making import Making
from tools.fuzzing.single import (
    NUMBERS,
    axis_of,
    case,
    filled,
    index_array,
    numbers,
    shape_of,
    tensor,
    term,
)


@case("Gather")
def gather(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3, 4))
    axis = axis_of(g, len(shape))
    index = index_array(g, shape_of(g, (0, 1, 1, 2)), shape[axis])
    g.add(name, tensor(g, shape, g.one((*NUMBERS, np.bool_))), index, shape=(), axis=axis)


@case("GatherElements")
def gather_elements(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3, 4))
    axis = axis_of(g, len(shape))
    sizes = tuple(g.number(1, 9) if a == axis % len(shape) else g.number(1, d) for a, d in enumerate(shape))
    g.add(name, tensor(g, shape, g.one(NUMBERS)), index_array(g, sizes, shape[axis]), shape=(), axis=axis)


@case("GatherND")
def gather_nd(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3, 4))
    batch = g.number(0, len(shape) - 1)
    depth = g.number(1, len(shape) - batch)
    rows = (*shape[:batch], *(g.number(1, 4) for _ in range(g.number(0, 2))))
    parts = [np.asarray(g.random.integers(-d, d, rows)) for d in shape[batch : batch + depth]]
    index = g.source((), np.int64, array=np.stack(parts, -1).astype(np.int64), keep=False)
    g.add(name, tensor(g, shape, g.one(NUMBERS)), index, shape=(), batch_dims=batch)


@case("ScatterElements")
def scatter_elements(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3))
    axis = axis_of(g, len(shape))
    how, dtype = g.one(("none", "add", "mul", "max", "min")), g.one((np.float32, np.float32, np.int64, np.int32))
    sizes = tuple(g.number(1, d) for d in shape)
    order = np.argsort(
        g.random.random((*sizes[: axis % len(shape)], shape[axis], *sizes[axis % len(shape) + 1 :])), axis
    )
    chosen = np.take(order, np.arange(sizes[axis]), axis)  # each place once: their order is not defined
    if how != "none":
        chosen = np.asarray(g.random.integers(-shape[axis], shape[axis], sizes))
    index = g.source(sizes, np.int64, array=chosen.astype(np.int64), keep=False)
    updates = term(g, sizes, dtype, 1, 2)
    g.add(name, term(g, shape, dtype, 1, 2), index, updates, shape=(), axis=axis, reduction=how)


@case("ScatterND")
def scatter_nd(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3))
    depth = g.number(1, len(shape))
    how, dtype = g.one(("none", "add", "mul", "max", "min")), g.one((np.float32, np.float32, np.int64, np.int32))
    count = g.number(1, 5)
    flat = g.random.choice(math.prod(shape[:depth]), min(count, math.prod(shape[:depth])), replace=False)
    index = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64)
    given = g.source(index.shape, np.int64, array=index, keep=False)
    updates = term(g, (*index.shape[:-1], *shape[depth:]), dtype, 1, 2)
    g.add(name, term(g, shape, dtype, 1, 2), given, updates, shape=(), reduction=how)


@case("Slice")
def cut(g: Making, name: str) -> None:
    shape = shape_of(g, (1, 2, 3, 4))
    axes = [int(a) for a in g.random.permutation(len(shape))[: g.number(1, len(shape))]]
    steps = [int(g.one((1, 1, 2, 3, -1, -2))) for _ in axes]
    ends = [
        [int(g.one((-(1 << 40), -d - 1, -d, -1, 0, 1, d // 2, d - 1, d, d + 3, 1 << 40))) for d in shape] for _ in "se"
    ]
    starts, stops = ([row[a] for a in axes] for row in ends)
    signed = [a - len(shape) if g.chance(0.3) else a for a in axes]
    given = [g.integers(*row) for row in (starts, stops, signed, steps)]
    g.add(name, tensor(g, shape, g.one((*NUMBERS, np.bool_))), *given, shape=())


@case("Concat")
def concat(g: Making, name: str) -> None:
    shape, dtype = shape_of(g, (1, 2, 3, 4)), g.one((*NUMBERS, np.bool_))
    axis = axis_of(g, len(shape))
    sizes = [shape[axis], *(int(g.one((0, 1, 2, 3, 16, 17))) for _ in range(g.number(0, 3)))]
    at = axis % len(shape)
    g.add(name, *(tensor(g, (*shape[:at], s, *shape[at + 1 :]), dtype) for s in sizes), shape=(), axis=axis)


@case("Split")
def split(g: Making, name: str) -> None:
    shape = shape_of(g, (1, 2, 3, 4))
    axis, dtype = axis_of(g, len(shape)), g.one(NUMBERS)
    parts = g.number(1, 3)
    cuts = sorted(g.number(0, shape[axis]) for _ in range(parts - 1))
    sizes = np.diff([0, *cuts, shape[axis]])
    g.split(name, tensor(g, shape, dtype), g.integers(*(int(s) for s in sizes)), shapes=[()] * parts, axis=axis)


@case("Pad")
def pad(g: Making, name: str) -> None:
    mode = g.one(("constant", "constant", "edge", "reflect", "wrap"))
    shape = shape_of(g, (1, 2, 3, 4)) if mode == "constant" else filled(g, (1, 2, 3, 4))
    least = [0 if mode != "constant" else -min(1, d // 2) for d in shape]
    most = [min(3, d - 1) if mode == "reflect" else min(3, d) if mode == "wrap" else 3 for d in shape]
    pads = [g.number(low, high) for _ in "be" for low, high in zip(least, most, strict=True)]
    dtype = g.one((np.float32, np.float32, np.int64, np.int32, np.float64, np.uint8))
    value = [g.constant(np.array(2, dtype))] if mode == "constant" and g.chance(0.5) else []
    g.add(name, tensor(g, shape, dtype), g.integers(*pads), *value, shape=(), mode=mode)


@case("Tile")
def tile(g: Making, name: str) -> None:
    shape = shape_of(g, (1, 2, 3))
    g.add(name, tensor(g, shape, g.one(NUMBERS)), g.integers(*(int(g.one((0, 1, 1, 2, 3))) for _ in shape)), shape=())


@case("Expand")
def expand(g: Making, name: str) -> None:
    shape = shape_of(g, (0, 1, 2, 3))
    wide = tuple(int(g.one((1, d if d != 1 else 3, d))) for d in shape)
    front = [g.number(1, 3) for _ in range(g.number(0, 2))]
    g.add(name, tensor(g, shape, g.one((*NUMBERS, np.bool_))), g.integers(*front, *wide), shape=())


@case("Transpose")
def transpose(g: Making, name: str) -> None:
    shape = shape_of(g)
    perm = {} if not shape or g.chance(0.2) else {"perm": [int(a) for a in g.random.permutation(len(shape))]}
    g.add(name, tensor(g, shape, g.one((*NUMBERS, np.bool_))), shape=(), **perm)


@case("Flatten")
def flatten(g: Making, name: str) -> None:
    shape = shape_of(g)
    g.add(name, tensor(g, shape, g.one(NUMBERS)), shape=(), axis=g.number(-len(shape), len(shape)))


@case("Unsqueeze")
def unsqueeze(g: Making, name: str) -> None:
    shape = shape_of(g, (0, 1, 2, 3))
    rank = len(shape) + 2
    axes = [int(a) for a in g.random.permutation(rank)[:2]]
    given = g.integers(*(a - rank if g.chance(0.4) else a for a in axes))
    g.add(name, tensor(g, shape, g.one(NUMBERS)), given, shape=())


@case("DepthToSpace", "SpaceToDepth")
def blocks(g: Making, name: str) -> None:
    size, c, h, w = g.number(1, 3), g.number(1, 5), g.number(1, 6), g.number(1, 6)
    deep = name == "DepthToSpace"
    shape = (g.number(1, 2), c * size * size, h, w) if deep else (g.number(1, 2), c, h * size, w * size)
    more = {"mode": g.one(("DCR", "CRD"))} if deep else {}
    g.add(name, tensor(g, shape, g.one((np.float32, np.float32, np.float64))), shape=(), blocksize=size, **more)


@case("OneHot")
def one_hot(g: Making, name: str) -> None:
    shape, depth = shape_of(g, (0, 1, 2, 3)), g.number(1, 20)
    index = np.asarray(g.random.integers(-depth - 2, depth + 3, shape)).astype(np.int64)
    values = g.constant(np.array([-1, 5], g.one((np.float32, np.int64))))
    held = g.source(shape, np.int64, array=index, keep=False)
    axis = g.number(-len(shape) - 1, len(shape))
    g.add(name, held, g.constant(np.array(depth, np.int64)), values, shape=(), dtype=values.dtype, axis=axis)


@case("Trilu")
def triangle(g: Making, name: str) -> None:
    k = g.constant(np.array(int(g.one((-70, -2, -1, 0, 1, 3, 70))), np.int64))
    g.add(
        name,
        tensor(g, shape_of(g, (2, 3, 4)), g.one((np.float32, np.int64, np.float64))),
        k,
        shape=(),
        upper=g.number(0, 1),
    )


@case("NonZero")
def non_zero(g: Making, name: str) -> None:
    g.add(
        name,
        tensor(g, shape_of(g, (1, 2, 3)), g.one((np.float32, np.int64, np.bool_, np.uint8)), -1, 1),
        shape=(),
        dtype=np.int64,
    )


@case("Compress")
def compress(g: Making, name: str) -> None:
    shape = filled(g, (1, 2, 3))
    axis = axis_of(g, len(shape))
    condition = numbers(g, (g.number(1, shape[axis]),), np.bool_)
    held = g.source(condition.shape, np.bool_, array=condition, keep=False)
    g.add(name, tensor(g, shape, g.one(NUMBERS)), held, shape=(), axis=axis)


@case("ReverseSequence")
def reversed_rows(g: Making, name: str) -> None:
    shape = filled(g, (2, 3, 4))
    batch = g.number(0, 1)
    lengths = np.asarray(g.random.integers(1, shape[1 - batch] + 1, shape[batch])).astype(np.int64)
    held = g.source(lengths.shape, np.int64, array=lengths, keep=False)
    g.add(name, tensor(g, shape, np.float32), held, shape=(), batch_axis=batch, time_axis=1 - batch)
