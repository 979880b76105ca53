"""A target without hardware: it prefers channels-last, claims chosen operators, and runs them by their references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from clgraph.core.dtype import DType
from clgraph.core.format import Format
from clgraph.core.registry import Registry
from clgraph.graph.primitive import PRIMITIVES
from clgraph.passes.targets.target import Target, TargetPass, register
from clgraph.selector.implementation import Formats, Implementation, Serves, implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import DeviceInfo, Query

NAME, KIND = "fake:0", "fake"
CHANNELS_LAST = Format((0, 2, 3, 1))


class _Claimed(Implementation):
    """Any problem, in plain formats and, of rank 4, in channels-last; what is fused runs with the reference."""

    @classmethod
    def limits(cls, q: Query) -> str | None:
        formats = {x.format for x in (*q.inputs, *q.outputs) if x.rank == 4 and x.shape[1:] == q.outputs[0].shape[1:]}
        return None if len(formats) < 2 or q.primitive.kind == "reorder" else "requires one format"

    @classmethod
    def formats(cls, q: Query) -> tuple[Formats, ...]:
        def of(x, i, wanted: Format) -> Format | None:
            return None if i in q.constant else wanted if x.rank == 4 else Format.plain(x.rank)

        wanted = [CHANNELS_LAST, Format.plain(4)] if q.outputs[0].rank == 4 else [Format.plain(4)]
        return tuple(
            Formats(
                tuple(of(x, i, w) for i, x in enumerate(q.inputs)),
                tuple(w if x.rank == 4 else Format.plain(x.rank) for x in q.outputs),
            )
            for w in wanted
        )

    @classmethod
    def cost(cls, q: Query) -> float:
        return 1e-6

    @classmethod
    def plan(cls, q: Query) -> Plan:
        return Plan(())


@contextmanager
def fake_target(
    claims: Sequence[str], passes: tuple[TargetPass, ...] = (), *, moves: Sequence[str] = ("reorder", "transfer")
) -> Iterator[DeviceInfo]:
    """Register the target and its device ``fake:0``, which claims operators of the kinds *claims* and *moves*."""
    saved = [(registry, registry.snapshot()) for registry in Registry._all]
    info = DeviceInfo(NAME, KIND)
    try:
        serves = Serves(dtypes=frozenset(DType), mixed=True, kinds=frozenset({KIND}), formats=True, halos=True)
        for kind in {*claims, *moves}:
            implements(PRIMITIVES[kind], name=f"{kind}.fake", serves=serves)(type("Claimed", (_Claimed,), {}))
        register(
            Target(
                "fake",
                lambda device: device.kind == KIND,
                passes=passes,
                layouts={"*": lambda rank: CHANNELS_LAST if rank == 4 else Format.plain(rank)},
                devices=(info,),
            )
        )
        yield info
    finally:
        for registry, entries in saved:
            registry.restore(entries)
