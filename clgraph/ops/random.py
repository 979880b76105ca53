"""Random numbers: ONNX's RandomNormal, RandomUniform, their likes, Bernoulli and Multinomial.

With a seed they are the same in every run and on every device; without, they come from the key of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.primitive import Array, Primitive, primitive
from clgraph.graph.random_numbers import KEY_WORDS, philox
from clgraph.ops.cumulative_sum import CumulativeSum
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.reshape import Reshape
from clgraph.ops.slice import Slice
from clgraph.ops.softmax import Softmax
from clgraph.selector.general import General, bits, launch, table
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

WORDS = 4
"""Numbers that one counter of the generator makes."""


@primitive
@frozen
class Random(Primitive):
    """Floats at random, number i of *shape* in row-major order of word ``i % 4`` of counter ``(i // 4, 0, stream, 0)``.

    Input: the key, ``uint32[2]``. A word's upper 24 bits are the number u in [0, 1) of which ``first + u * (second -
    first)`` is computed, rounded twice; normal ones come in pairs, by the method of Box and Muller.

    Attributes:
        normal: Of mean *first* and deviation *second*; otherwise uniform between them.
        stream: Tells the nodes of a model apart.
    """

    normal: bool
    first: float
    second: float
    shape: tuple[int, ...] = ()
    stream: int = 0

    kind: ClassVar[str] = "random"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        (key,) = inputs
        if (key.dtype, key.shape) != (DType.U32, (KEY_WORDS,)):
            raise ShapeError(f"the key of random numbers is u32 of shape [{KEY_WORDS}], not {key}")
        if min(self.shape, default=0) < 0:
            raise ShapeError(f"there is no tensor of shape {list(self.shape)}")
        return (Layout(DType.F32, self.shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        count = prod(self.shape)
        words = philox((np.arange(-(-count // WORDS), dtype=np.uint64), 0, self.stream, 0), inputs[0].tolist())
        units = (words >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
        if self.normal:
            # The logarithm takes numbers in (0, 1].
            radius = np.sqrt(-2 * np.log1p(-units[::2].astype(np.float64)))
            angle = 2 * np.pi * units[1::2].astype(np.float64)
            pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
            units = np.float32(self.first) + np.float32(self.second) * pairs.reshape(words.shape)
        else:
            units = np.float32(self.first) + units * (np.float32(self.second) - np.float32(self.first))
        return (np.ascontiguousarray(units.T).ravel()[:count].reshape(self.shape),)

    def flops(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        return 40.0 * outputs[0].count


@primitive
@frozen
class RandomLike(Composite):
    """Numbers of *random* in the shape of x and of the element type *dtype*, of x without. Inputs: x, then the key."""

    random: Random
    dtype: DType | None = None

    kind: ClassVar[str] = "random_like"

    def compose(self, c: Composition) -> Sequence[str]:
        x, key = c.inputs
        numbers = c.add(replace(self.random, shape=c.layout(x).shape), key)
        return (c.add(Reorder(self.dtype or c.layout(x).dtype), numbers),)


@primitive
@frozen
class Bernoulli(Composite):
    """1 with the probability that x has at the place, else 0. Inputs: x, then the key."""

    random: Random
    dtype: DType | None = None

    kind: ClassVar[str] = "bernoulli"

    def compose(self, c: Composition) -> Sequence[str]:
        x, key = c.inputs
        numbers = c.add(replace(self.random, shape=c.layout(x).shape), key)
        drawn = c.add(Eltwise("less"), numbers, c.add(Reorder(DType.F32), x))
        return (c.add(Reorder(self.dtype or c.layout(x).dtype), drawn),)


@primitive
@frozen
class Multinomial(Composite):
    """*samples* classes for each row of x ``[N][C]``, logarithms of probabilities up to a constant ``[N][samples]``.

    The class is how many of the first C - 1 sums of probabilities a number in [0, 1) reaches. Inputs: x, then the key.
    """

    random: Random
    samples: int
    dtype: DType = DType.I32

    kind: ClassVar[str] = "multinomial"

    def compose(self, c: Composition) -> Sequence[str]:
        x, key = c.inputs
        if c.layout(x).rank != 2 or 0 in c.layout(x).shape:
            raise ShapeError(f"classes are drawn from rows of logarithms [N][C], not from {c.layout(x)}")
        rows, classes = c.layout(x).shape
        numbers = c.add(replace(self.random, shape=(rows, self.samples, 1)), key)
        sums = c.add(CumulativeSum(1), c.add(Softmax((1,)), c.add(Reorder(DType.F32), x)))
        bounds = c.add(Slice((0,), (classes - 1,), axes=(1,)), sums)
        wide = c.add(Reshape((rows, 1, classes - 1), zero_is_zero=True), bounds)
        reached = c.add(Reorder(DType.I32), c.add(Eltwise("greater_equal"), numbers, wide))
        return (c.add(Reorder(self.dtype), c.add(Reduce("sum", (2,), keepdims=False), reached)),)


def drawn(node: OnnxNode, *, normal: bool, first: float, second: float) -> tuple[Random, str]:
    """Return what draws the numbers of *node*, without their shape, and its key: that of the run, or the seed and 0."""
    if "seed" in node.attribute_names:
        seed = bits(float(node.attribute("seed", 0))) & 0xFFFFFFFF
        return Random(normal, first, second), node.literal(np.array([seed, 0], np.uint32))
    key, stream = node.random_key()
    return Random(normal, first, second, stream=stream), key


def _distributed(node: OnnxNode) -> tuple[Random, str]:
    if "Normal" in node.op_type:
        return drawn(node, normal=True, first=node.attribute("mean", 0.0), second=node.attribute("scale", 1.0))
    return drawn(node, normal=False, first=node.attribute("low", 0.0), second=node.attribute("high", 1.0))


def _dtype(node: OnnxNode) -> DType | None:
    return node.attribute("dtype", DType.F32) if "dtype" in node.attribute_names else None


@onnx("RandomNormal", since=(1, 22))
@onnx("RandomUniform", since=(1, 22))
def import_random(node: OnnxNode) -> Sequence[str]:
    random, key = _distributed(node)
    numbers = node.emit(replace(random, shape=tuple(node.attribute("shape", ()))), key)
    return node.emit(Reorder(_dtype(node) or DType.F32), *numbers)


@onnx("RandomNormalLike", since=(1, 22))
@onnx("RandomUniformLike", since=(1, 22))
def import_random_like(node: OnnxNode) -> Sequence[str]:
    random, key = _distributed(node)
    return node.emit(RandomLike(random, _dtype(node)), node.inputs[0], key)


@onnx("Bernoulli", since=(15, 22))
def import_bernoulli(node: OnnxNode) -> Sequence[str]:
    random, key = drawn(node, normal=False, first=0.0, second=1.0)
    return node.emit(Bernoulli(random, _dtype(node)), node.inputs[0], key)


@onnx("Multinomial", since=(7, 22))
def import_multinomial(node: OnnxNode) -> Sequence[str]:
    random, key = drawn(node, normal=False, first=0.0, second=1.0)
    samples = node.attribute("sample_size", 1)
    return node.emit(Multinomial(random, samples, _dtype(node) or DType.I32), node.inputs[0], key)


def stream_word(f: Random) -> int:
    """Return the stream as a signed word."""
    return f.stream - (1 << 32) if f.stream >= 1 << 31 else f.stream


_SERVES = Serves(dtypes=frozenset({DType.F32, DType.U32}), mixed=True)


@implements(Random, name="random.ref", serves=_SERVES, general=True)
class RandomRef(General[Random]):
    """One work-item four numbers, any rank."""

    @classmethod
    def plan(cls, q: Query[Random]) -> Plan:
        (y,), f = q.outputs, q.primitive
        s = space(y.shape, [View.of(y)])
        arguments = ("in0", stream_word(f), "out0", table(s.dims, *s.views), s.counts[0], f.first, f.second)
        jit = Jit().define(RANK=len(s.dims), NORMAL=int(f.normal))
        return Plan((launch("random/random_ref", jit, -(-s.counts[0] // WORDS), *arguments),))
