"""A registry of implementations for tests of passes: few, with round costs, so that what is chosen can be foreseen."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Halo
from clgraph.graph.primitive import PRIMITIVES
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.transfer import TransferHost
from clgraph.selector.implementation import IMPLEMENTATIONS, Formats, Implementation, Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE
from clgraph.selector.query import Query

ALL = frozenset(DType)
PER_ELEMENT = 1e-9


def elements(q: Query) -> float:
    return PER_ELEMENT * sum(x.nbytes for x in (*q.inputs, *q.outputs)) / 4 + 1e-6


class Slow(Implementation):
    """Any plain problem."""

    @classmethod
    def cost(cls, q: Query) -> float:
        return 10 * q.primitive.flops(q.own, q.outputs) * PER_ELEMENT + elements(q)

    @classmethod
    def plan(cls, q: Query) -> Plan:
        return Plan(())


class AnyFormat(Implementation):
    """Elementwise work in any format that all tensors share."""

    @classmethod
    def limits(cls, q: Query) -> str | None:
        formats = {x.format for x in (*q.inputs, *q.outputs) if x.shape == q.outputs[0].shape}
        return None if len(formats) == 1 else "requires one format"

    @classmethod
    def formats(cls, q: Query) -> tuple[Formats, ...]:
        rank = q.outputs[0].rank
        wanted = [Format.plain(rank), *([feature_blocked(rank)] if rank > 2 else [])]
        shape = q.outputs[0].shape
        return tuple(Formats(tuple(f if x.shape == shape else None for x in q.inputs), (f,)) for f in wanted)

    @classmethod
    def overwrites(cls, q: Query) -> frozenset[int]:
        return frozenset(i for i, x in enumerate(q.own) if x == q.outputs[0])

    @classmethod
    def cost(cls, q: Query) -> float:
        return elements(q)

    @classmethod
    def plan(cls, q: Query) -> Plan:
        return Plan(())


class BlockedConvolution(Implementation[Convolution]):
    """Ten times faster than the general one, on blocked tensors with a halo of the pads, with packed weights."""

    @classmethod
    def limits(cls, q: Query) -> str | None:
        blocked = feature_blocked(q.outputs[0].rank)
        if q.inputs[0].format != blocked or q.outputs[0].format != blocked or 1 not in q.constant:
            return "requires blocked tensors and constant weights"
        have, want = q.inputs[0].halos, cls.halo(q)[0]
        short = any(h[0] < w[0] or h[1] < w[1] for h, w in zip(have, want, strict=True))
        return "requires zeros around its input" if short else None

    @classmethod
    def formats(cls, q: Query) -> tuple[Formats, ...]:
        blocked, shape = feature_blocked(q.outputs[0].rank), q.outputs[0].shape
        operands = (blocked if x.shape == shape else None for x in q.inputs[q.arity :])
        return (Formats((blocked, *(None,) * (q.arity - 1), *operands), (blocked,)),)

    @classmethod
    def halo(cls, q: Query) -> Mapping[int, Halo]:
        return {0: ((0, 0), (0, 0), *q.primitive.pads)}

    @classmethod
    def weights(cls, q: Query) -> Mapping[int, Format]:
        return {1: Format(tuple(range(q.inputs[1].rank)), ((1, 16), (0, 16)))}

    @classmethod
    def cost(cls, q: Query) -> float:
        return q.primitive.flops(q.own, q.outputs) * PER_ELEMENT + elements(q)

    @classmethod
    def plan(cls, q: Query) -> Plan:
        return Plan((), (1024,))


class Move(AnyFormat):
    """A reorder between any two formats."""

    @classmethod
    def limits(cls, q: Query) -> str | None:
        return None

    @classmethod
    def overwrites(cls, q: Query) -> frozenset[int]:
        return frozenset()


@contextmanager
def fake_registry() -> Iterator[None]:
    """Replace every implementation by those of this module."""
    saved = IMPLEMENTATIONS.snapshot()
    try:
        IMPLEMENTATIONS.restore(_general(frozenset(PRIMITIVES)))
        fast = Serves(dtypes=ALL, formats=True, halos=True, fuses=FUSABLE)
        blocked = Serves(dtypes=ALL, formats=True, halos=True, fuses=FUSABLE, prefuses=FUSABLE)
        implements(Convolution, name="convolution.blocked", serves=blocked)(_subclass(BlockedConvolution))
        implements(Activation, name="activation.any", serves=fast)(_subclass(AnyFormat))
        implements(Eltwise, name="eltwise.any", serves=fast)(_subclass(AnyFormat))
        IMPLEMENTATIONS.register(TransferHost.name, TransferHost)
        moves = Serves(dtypes=ALL, mixed=True, formats=True, halos=True)
        implements(PRIMITIVES["reorder"], name="reorder.any", serves=moves, general=True)(_subclass(Move))
        yield
    finally:
        IMPLEMENTATIONS.restore(saved)


@functools.cache
def _general(kinds: frozenset[str]) -> dict[str, type[Implementation]]:
    """Return what serves every operator, the same classes in every test: to make a hundred takes 5 ms, to enter 2."""
    IMPLEMENTATIONS.restore({})
    for kind in sorted(kinds - {"reorder", "transfer"}):
        serves = Serves(dtypes=ALL, mixed=True, fuses=FUSABLE)
        implements(PRIMITIVES[kind], name=f"{kind}.slow", serves=serves, general=True)(_subclass(Slow))
    return IMPLEMENTATIONS.snapshot()


def _subclass(base: type[Implementation]) -> type[Implementation]:
    return type(base.__name__, (base,), {})


def weights(*shape: int, seed: int = 0):
    import numpy as np

    return (np.random.default_rng(seed).standard_normal(shape) / prod(shape[1:]) ** 0.5).astype(np.float32)
