"""A kernel that is wrong, for the page on debugging: it takes maxima where averages are wanted."""

from dataclasses import replace

from clgraph.implementations.cpu.pooling import PoolFsv16
from clgraph.ops.pooling import Pooling
from clgraph.selector.implementation import implements
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query


@implements(Pooling, name="pooling.hasty", serves=PoolFsv16.serves)
class HastyPooling(PoolFsv16):
    """Claims to take no time, so that it is chosen wherever it can be, and takes maxima for averages."""

    @classmethod
    def cost(cls, q: Query[Pooling]) -> float:
        """Return too little."""
        return 0.0

    @classmethod
    def plan(cls, q: Query[Pooling]) -> Plan:
        """Plan another function than the one asked for."""
        return super().plan(replace(q, primitive=replace(q.primitive, function="max")))
