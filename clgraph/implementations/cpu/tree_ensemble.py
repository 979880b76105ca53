"""Decision trees on CPU devices."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.ops.post_transform import TRANSFORMS
from clgraph.ops.tree_ensemble import AGGREGATES, NODES, ROOTS, TARGETS, WEIGHTS, TreeClassifier, TreeEnsemble
from clgraph.selector.general import General, launch, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_SUMS = 2048
"""Doubles that a work-item adds up in."""

_FEWEST, _MOST = 8, 64
"""Rows of a work-item: more are worth a tree's way into the first cache, where their features stay."""

_WALK = 20.0e-9
"""Seconds that a row takes down a tree. An estimate."""

_SERVED = TRANSFORMS[:-1]
"""All but PROBIT."""

Forest = TypeVar("Forest", bound=TreeEnsemble | TreeClassifier)


@frozen
class ScoreTransform:
    """What ``tree_ensemble_rows.cl`` makes of sums; fields as there.

    Attributes:
        transform: One of ``_SERVED``.
        classes: 0 where there are scores alone.
    """

    aggregate: str
    transform: str
    base: tuple[float, ...]
    classes: int = 0
    positive: bool = False


SERVES = Serves(
    dtypes=frozenset({DType.F32, DType.F64, DType.I64, DType.I32, DType.U8, DType.BOOL}),
    kinds=frozenset({"cpu"}),
    features=frozenset({"fp64"}),
    mixed=True,
)


class TreeRows(General[Forest]):
    """A work-item takes a block of rows down eight trees at a time, and adds up in doubles."""

    @classmethod
    def further_limits(cls, q: Query[Forest]) -> str | None:
        x, nodes = q.own[0], q.own[NODES]
        if not nodes.count:
            return "requires trees of floats, without sets or circles"
        if x.dtype not in (DType.F32, DType.F64) or q.outputs[-1].dtype != DType.F32:
            return f"requires features of f32 or f64 and scores of f32, not {x.dtype} and {q.outputs[-1].dtype}"
        if q.primitive.post_transform not in _SERVED:
            return f"makes {', '.join(_SERVED)} of scores, not {q.primitive.post_transform}"
        if q.primitive.targets > _SUMS:
            return f"adds up at most {_SUMS} targets, not {q.primitive.targets}"
        dense = all(v.is_dense_plain for v in (x, *q.outputs))
        return None if dense else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[Forest]) -> float:
        walks = q.own[0].shape[0] * q.own[ROOTS].count
        return q.device.launch_seconds + walks * _WALK / q.device.workers

    @classmethod
    @abstractmethod
    def reads(cls, f: Forest) -> ScoreTransform:
        """Return how the kernel makes results of the sums."""

    @classmethod
    def plan(cls, q: Query[Forest]) -> Plan:
        (rows, features), f = q.own[0].shape, q.primitive
        shared = max(_FEWEST, min(_MOST, -(-rows // q.device.workers)))
        block, how = max(1, min(shared, _SUMS // f.targets)), cls.reads(f)
        numbers = [
            *(rows, block, q.own[ROOTS].count, features, f.targets),
            *(AGGREGATES.index(how.aggregate), _SERVED.index(how.transform), how.classes, int(how.positive)),
            *(len(how.base), *(word for value in how.base for word in value_words(value, DType.F64))),
        ]
        constants = (f"in{slot}" for slot in (ROOTS, NODES, TARGETS, WEIGHTS))
        results = ("out0", "out1") if how.classes else ("null", "out0")
        kernel, groups = "tree_ensemble/tree_ensemble_rows", -(-rows // block)
        of = Jit() if q.own[0].dtype == DType.F32 else Jit().define(FEATURE=q.own[0].dtype)
        return Plan((launch(kernel, of, groups, "in0", *constants, *results, table(numbers)),))


@implements(TreeEnsemble, name="tree_ensemble.rows", serves=SERVES, general=True)
class TreeEnsembleRows(TreeRows[TreeEnsemble]):
    """Scores alone, of which one a row is not transformed."""

    @classmethod
    def reads(cls, f: TreeEnsemble) -> ScoreTransform:
        return ScoreTransform(f.aggregate, f.post_transform if f.targets > 1 else "NONE", f.base)
