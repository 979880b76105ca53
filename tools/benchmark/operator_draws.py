"""Models of one operator drawn by chance: element types, ranks, sizes odd and even, axes, how many indices.

A case is known by its name, ``random:SEED:NUMBER``, and is the same whenever it is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from tools.benchmark.operator_cases import TYPES, Array, OperatorCase

PREFIX = "random"

FEWEST, MOST = 5, 21
"""Exponents of two: elements of the first operand, 2 million at most."""

RANKS = (1, 2, 2, 3, 3, 4, 4, 5, 6)

FLOATS = ("f32", "f32", "f32", "f16", "f64")
NUMBERS = ("f32", "f32", "f32", "f16", "i64", "i64", "i32", "f64")
ANY = (*NUMBERS, "u8", "i8", "bool")
"""Element types as often as models use them."""

SHOWN = 8
"""Most numbers of a constant in a title."""

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Dice:
    """What a case is drawn with."""

    random: np.random.Generator

    def one(self, items: Any) -> Any:
        """Return one of *items*."""
        return items[int(self.random.integers(len(items)))]

    def number(self, low: int, high: int) -> int:
        """Return an integer from *low* to *high*, small ones as often as large ones."""
        return min(high, int(math.exp(self.random.uniform(math.log(low + 1), math.log(high + 2))) - 1))

    def even(self, low: int, high: int) -> int:
        """Return an integer from *low* to *high*."""
        return int(self.random.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        """Return True in that *share* of the calls."""
        return bool(self.random.random() < share)

    def shape(self, ranks: Any = RANKS, most: int = MOST) -> Shape:
        """Return sizes of 2^FEWEST to about 2^*most* elements together, of which half are rounded to powers of two."""
        rank = self.one(ranks)
        bits = self.random.dirichlet(np.ones(rank)) * self.random.uniform(FEWEST, most)
        return tuple(round(2 ** (round(b) if self.chance(0.5) else b)) for b in bits)

    def array(self, dtype: str, shape: Shape, low: float = -4, high: float = 4) -> Array:
        """Return numbers of *dtype* between the bounds."""
        kind = np.dtype(TYPES[dtype])
        if kind.kind == "b":
            return self.random.random(shape) < 0.5
        if kind.kind == "f":
            return np.asarray(self.random.uniform(low, high, shape)).astype(kind)
        return np.asarray(
            self.random.integers(max(int(low), 0) if kind.kind == "u" else int(low), int(high) + 1, shape)
        ).astype(kind)

    def beside(self, shape: Shape) -> Shape:
        """Return a shape that broadcasts with *shape*, which it is in half of the cases."""
        if self.chance(0.5):
            return shape
        return tuple(1 if self.chance(0.4) else d for d in shape[self.even(0, len(shape) - 1) :])

    def axes(self, rank: int) -> list[int]:
        """Return some axes, in order."""
        return sorted(map(int, self.random.permutation(rank)[: self.even(1, rank)]))

    def index(self, shape: Shape, size: int) -> Array:
        """Return places on an axis of *size* elements."""
        return np.asarray(self.random.integers(0, size, shape)).astype(self.one((np.int64, np.int64, np.int32)))


Draw = Callable[[Dice], OperatorCase]
DRAWS: list[Draw] = []
"""What cases are drawn by, one as often as the other."""


def name_of(seed: int, number: int) -> str:
    """Return the name that :func:`is_drawn` and :func:`draw_case` take."""
    return f"{PREFIX}:{seed}:{number}"


def is_drawn(text: str) -> bool:
    """Whether *text* names a drawn case."""
    prefix, *numbers = text.split(":")
    return prefix == PREFIX and len(numbers) == 2 and all(n.isdecimal() for n in numbers)


def draw_case(name: str) -> OperatorCase:
    """Return the case of that name."""
    dice = Dice(np.random.default_rng([int(n) for n in name.split(":")[1:]]))
    return dice.one(DRAWS)(dice)  # type: ignore[no-any-return]  # one of a list is of its elements' type


def described(case: OperatorCase) -> str:
    """Return the operator, types and shapes, and what else there is to it."""
    codes = {np.dtype(kind): code for code, kind in TYPES.items()}
    parts = [f"{codes[a.dtype]}{list(a.shape)}" for a in case.inputs]
    parts += [
        "-" if a is None else f"={a.tolist()}" if a.size <= SHOWN else f"c{list(a.shape)}" for a in case.constants
    ]
    return " ".join([case.op_type, *parts, *(f"{key}={value}" for key, value in case.attributes.items())]).replace(
        ", ", ","
    )


def _drawn(draw: Draw) -> Draw:
    DRAWS.append(draw)
    return draw


@_drawn
def _function(d: Dice) -> OperatorCase:
    names = ("Sqrt", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Floor", "Sin", "Log", "Round", "LeakyRelu")
    x = d.array(d.one(FLOATS), d.shape(), 0.1)
    return OperatorCase(d.one(names), (x,))


@_drawn
def _simple(d: Dice) -> OperatorCase:
    name = d.one(("Abs", "Neg", "Sign", "Not", "Clip", "Mod"))
    kind = "bool" if name == "Not" else d.one(("i64", "i32", *(("f32", "f16") if name == "Clip" else ())))
    x = d.array(kind, d.shape(), -99, 99)
    constants = {"Clip": (-5, 7), "Mod": (7,)}.get(name, ())
    return OperatorCase(name, (x,), tuple(np.array(c, x.dtype) for c in constants))


@_drawn
def _arithmetic(d: Dice) -> OperatorCase:
    name, kind, shape = d.one(("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu")), d.one(NUMBERS), d.shape()
    kind = "f32" if name in ("Pow", "PRelu") else kind
    pair = (d.array(kind, shape, 1), d.array(kind, d.beside(shape), 1))
    return OperatorCase(name, pair if name in ("Pow", "PRelu") or d.chance(0.6) else pair[::-1])


@_drawn
def _comparison(d: Dice) -> OperatorCase:
    name, shape = d.one(("Equal", "Less", "Greater", "LessOrEqual", "And", "Or", "Xor")), d.shape()
    kind = "bool" if name in ("And", "Or", "Xor") else d.one(NUMBERS)
    return OperatorCase(name, (d.array(kind, shape), d.array(kind, d.beside(shape))))


@_drawn
def _where(d: Dice) -> OperatorCase:
    shape, kind = d.shape(), d.one(("f32", "f32", "i64", "i32", "u8", "f16"))
    made = [d.array("bool", d.beside(shape)), d.array(kind, shape), d.array(kind, d.beside(shape))]
    return OperatorCase("Where", tuple(made))


@_drawn
def _cast(d: Dice) -> OperatorCase:
    target = helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[d.one(ANY)]))
    return OperatorCase("Cast", (d.array(d.one(ANY), d.shape(), 0, 99),), attributes={"to": target})


@_drawn
def _reduction(d: Dice) -> OperatorCase:
    names = ("Sum", "Sum", "Mean", "Mean", "Max", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
    shape = d.shape()
    x = d.array(d.one(("f32", "f32", "f32", "f16", "i64", "i32", "f64")), shape, 1, 3)
    axes = (np.array(d.axes(len(shape))),)
    return OperatorCase(f"Reduce{d.one(names)}", (x,), axes, {"keepdims": d.even(0, 1)})


_drawn(_reduction)  # their axes are what most depends on


@_drawn
def _extreme(d: Dice) -> OperatorCase:
    shape, kind = d.shape(), d.one(("f32", "f32", "i32", "i64", "f64", "u8", "i8"))
    options = {"axis": d.even(0, len(shape) - 1), "keepdims": d.even(0, 1), "select_last_index": d.even(0, 1)}
    return OperatorCase(d.one(("ArgMax", "ArgMin")), (d.array(kind, shape, -99, 99),), attributes=options)


@_drawn
def _shares(d: Dice) -> OperatorCase:
    shape = d.shape()
    axis = {"axis": d.even(0, len(shape) - 1)}
    return OperatorCase(d.one(("Softmax", "LogSoftmax")), (d.array(d.one(FLOATS), shape),), attributes=axis)


@_drawn
def _cumulative(d: Dice) -> OperatorCase:
    shape, kind = d.shape(), d.one(("f32", "f32", "i64", "i32", "f64"))
    options = {"exclusive": d.even(0, 1), "reverse": d.even(0, 1)}
    return OperatorCase("CumSum", (d.array(kind, shape),), (np.array(d.even(0, len(shape) - 1)),), options)


@_drawn
def _gather(d: Dice) -> OperatorCase:
    shape = d.shape()
    axis = d.even(0, len(shape) - 1)
    rest = math.prod(shape) // shape[axis]
    count = d.number(1, max(1, min(1 << 12, (1 << MOST) // rest)))
    places = (count,) if d.chance(0.7) else (2, -(-count // 2))
    return OperatorCase("Gather", (d.array(d.one(ANY), shape), d.index(places, shape[axis])), attributes={"axis": axis})


_drawn(_gather)


@_drawn
def _gather_elements(d: Dice) -> OperatorCase:
    shape = d.shape(most=19)
    axis = d.even(0, len(shape) - 1)
    sizes = (*shape[:axis], d.number(1, shape[axis]), *shape[axis + 1 :])
    return OperatorCase(
        "GatherElements", (d.array(d.one(ANY), shape), d.index(sizes, shape[axis])), attributes={"axis": axis}
    )


def _coordinates(d: Dice, shape: Shape, depth: int, once: bool) -> Array:
    most = math.prod(shape[:depth])
    count = d.number(1, min(1 << 14, most))
    flat = d.random.permutation(most)[:count] if once else d.random.integers(0, most, count)
    return np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64)


@_drawn
def _gather_nd(d: Dice) -> OperatorCase:
    shape = d.shape()
    index = _coordinates(d, shape, d.even(1, len(shape)), once=False)
    return OperatorCase("GatherND", (d.array(d.one(ANY), shape), index))


@_drawn
def _scatter_nd(d: Dice) -> OperatorCase:
    shape, kind = d.shape(), d.one(ANY)
    index = _coordinates(d, shape, depth := d.even(1, len(shape)), once=True)
    return OperatorCase("ScatterND", (d.array(kind, shape), index, d.array(kind, (len(index), *shape[depth:]))))


@_drawn
def _scatter_elements(d: Dice) -> OperatorCase:
    shape = d.shape(most=18)
    axis = d.even(0, len(shape) - 1)
    order = np.argsort(d.random.random(shape), axis)  # each place once: which update stays is not defined
    index = np.take(order, np.arange(d.number(1, shape[axis])), axis).astype(np.int64)
    how = d.one(("none", "none", "add", "max"))
    kind = d.one(ANY if how == "none" else ("f32", "i64"))
    made = (d.array(kind, shape), index, d.array(kind, index.shape))
    return OperatorCase("ScatterElements", made, attributes={"axis": axis, "reduction": how})


@_drawn
def _transpose(d: Dice) -> OperatorCase:
    shape = d.shape(RANKS[1:])
    order = [int(a) for a in d.random.permutation(len(shape))]
    return OperatorCase("Transpose", (d.array(d.one(ANY), shape),), attributes={"perm": order})


_drawn(_transpose)


@_drawn
def _slice(d: Dice) -> OperatorCase:
    shape = d.shape()
    axes = d.axes(len(shape))
    low = np.array([d.even(0, shape[a] - 1) for a in axes])
    high = np.array([d.even(first + 1, shape[a]) for first, a in zip(low, axes, strict=True)])
    steps = np.array([d.one((1, 1, 1, 2, 3, -1)) for _ in axes])
    before = np.where(low > 0, low - 1, -(1 << 40))
    starts, stops = np.where(steps > 0, low, high - 1), np.where(steps > 0, high, before)
    return OperatorCase("Slice", (d.array(d.one(ANY), shape),), (starts, stops, np.array(axes), steps))


@_drawn
def _concat(d: Dice) -> OperatorCase:
    shape, kind = d.shape(most=20), d.one(ANY)
    axis = d.even(0, len(shape) - 1)
    sizes = [shape[axis], *(d.number(1, shape[axis]) for _ in range(d.even(1, 3)))]
    made = tuple(d.array(kind, (*shape[:axis], s, *shape[axis + 1 :])) for s in sizes)
    return OperatorCase("Concat", made, attributes={"axis": axis})


@_drawn
def _split(d: Dice) -> OperatorCase:
    shape = d.shape()
    axis = d.even(0, len(shape) - 1)
    cuts = sorted({d.even(0, shape[axis] - 1) for _ in range(d.even(1, 3))} - {0})
    sizes = np.diff([0, *cuts, shape[axis]])
    return OperatorCase("Split", (d.array(d.one(ANY), shape),), (sizes,), {"axis": axis}, outputs=len(sizes))


@_drawn
def _pad(d: Dice) -> OperatorCase:
    shape, mode = d.shape((1, 2, 3, 4), most=20), d.one(("constant", "constant", "edge", "reflect"))
    pads = np.array([0 if d.chance(0.5) else d.even(0, min(3, size - 1)) for _ in "be" for size in shape])
    return OperatorCase("Pad", (d.array(d.one(("f32", "f32", "i64", "u8", "f16")), shape),), (pads,), {"mode": mode})


@_drawn
def _tile(d: Dice) -> OperatorCase:
    shape = d.shape((1, 2, 3, 4), most=19)
    return OperatorCase("Tile", (d.array(d.one(ANY), shape),), (np.array([d.even(1, 3) for _ in shape]),))


@_drawn
def _expand(d: Dice) -> OperatorCase:
    shape = d.shape()
    thin = tuple(1 if d.chance(0.5) else size for size in shape)
    return OperatorCase("Expand", (d.array(d.one(ANY), thin),), (np.array(shape),))


@_drawn
def _triangle(d: Dice) -> OperatorCase:
    shape = d.shape((2, 3, 4))
    return OperatorCase("Trilu", (d.array(d.one(("f32", "i64", "bool")), shape),), attributes={"upper": d.even(0, 1)})


@_drawn
def _resize(d: Dice) -> OperatorCase:
    batch, channels = d.even(1, 2), d.one((1, 3, 16, 17, 64))
    height, width = (d.number(4, 160) for _ in "hw")
    kind, mode = d.one(("f32", "f32", "f32", "u8", "f16")), d.one(("nearest", "linear", "linear", "cubic"))
    sizes = np.array([batch, channels, *(max(1, round(n * d.one((0.5, 0.7, 1.3, 2, 2, 3)))) for n in (height, width))])
    options = {"mode": mode, "coordinate_transformation_mode": d.one(("half_pixel", "asymmetric", "align_corners"))}
    x = d.array(kind, (batch, channels, height, width), 0, 99)
    return OperatorCase("Resize", (x,), (None, None, sizes), options)


@_drawn
def _best(d: Dice) -> OperatorCase:
    shape = d.shape((1, 2, 2, 3, 4), most=19)
    axis = d.even(0, len(shape) - 1)
    x = d.array(d.one(("f32", "f32", "f32", "i64", "i32", "f64")), shape, -9999, 9999)
    options = {"axis": axis, "largest": d.even(0, 1)}
    return OperatorCase("TopK", (x,), (np.array([d.number(1, shape[axis])]),), options, outputs=2)


@_drawn
def _found(d: Dice) -> OperatorCase:
    name = d.one(("NonZero", "NonZero", "Unique", "Compress", "OneHot"))
    shape = d.shape((1, 2, 3), most=18)
    if name == "OneHot":
        depth = d.number(2, 500)
        index = d.index((d.number(1, 2000),), depth).astype(np.int64)
        return OperatorCase(
            name, (index,), (np.array(depth), np.array([0, 1], np.float32)), {"axis": d.one((-1, -1, 0))}
        )
    if name == "NonZero":
        return OperatorCase(name, (d.array(d.one(("f32", "i64", "i32", "u8", "bool")), shape, -1, 1),))
    if name == "Unique":
        return OperatorCase(name, (d.array(d.one(("f32", "i64")), shape, -99, 99).round(),), outputs=4)
    axis = d.even(0, len(shape) - 1)
    return OperatorCase(name, (d.array(d.one(ANY), shape), d.array("bool", (shape[axis],))), attributes={"axis": axis})


def _boxes(d: Dice, count: int, size: float) -> Array:
    low = d.random.uniform(0, size / 2, (count, 2))
    return np.concatenate([low, low + d.random.uniform(1, size / 2, (count, 2))], 1).astype(np.float32)


@_drawn
def _suppression(d: Dice) -> OperatorCase:
    count, classes = d.number(1, 3000), d.number(1, 20)
    scores = d.random.random((1, classes, count)).astype(np.float32)
    limits = (
        np.array([d.number(1, 300)]),
        np.array([0.5], np.float32),
        np.array([d.one((0.05, 0.3, 0.7))], np.float32),
    )
    return OperatorCase("NonMaxSuppression", (_boxes(d, count, 640)[None], scores), limits)


@_drawn
def _regions(d: Dice) -> OperatorCase:
    channels, height, width, count = d.number(1, 256), d.number(4, 100), d.number(4, 100), d.number(1, 100)
    options = {"output_height": d.one((1, 3, 7, 14)), "output_width": 7, "sampling_ratio": d.even(0, 2)}
    given = (
        d.array("f32", (1, channels, height, width)),
        _boxes(d, count, min(height, width)),
        np.zeros(count, np.int64),
    )
    return OperatorCase("RoiAlign", given, attributes=options | {"mode": d.one(("avg", "avg", "max"))})
