"""Support vector machines on CPU devices."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TypeVar

from clgraph.core.dtype import DType
from clgraph.ops.post_transform import TRANSFORMS
from clgraph.ops.support_vector_classifier import SupportVectorClassifier
from clgraph.ops.support_vector_regressor import SupportVectorRegressor
from clgraph.ops.support_vectors import KERNELS, PACKED
from clgraph.selector.general import General, launch, table, value_words
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.query import Query

_SERVED = TRANSFORMS[:-1]
"""All but PROBIT."""

_FEWEST = 16
"""Rows of a work-item."""

_BESIDE, _NARROW_BESIDE = 8, 2
"""Rows whose sums with 16 vectors fit into registers of 512 bits, and into others."""

_PRODUCT, _KERNEL = 0.1e-9, 3.0e-9
"""Seconds of a product of two numbers, and of a kernel behind them. Estimates."""

SERVES = Serves(
    dtypes=frozenset({DType.F32, DType.F64, DType.I64}),
    kinds=frozenset({"cpu"}),
    features=frozenset({"fp64"}),
    mixed=True,
)

Machine = TypeVar("Machine", bound=SupportVectorRegressor | SupportVectorClassifier)


class SupportVectorRows(General[Machine]):
    """A work-item takes a block of rows, several against 16 support vectors at once, and computes in doubles."""

    @classmethod
    def further_limits(cls, q: Query[Machine]) -> str | None:
        x = q.own[0]
        if not q.own[PACKED].count:
            return "requires support vectors, of few classes"
        if q.own[PACKED].dtype != DType.F32:
            return f"requires packed vectors of f32, not {q.own[PACKED].dtype}"
        if x.dtype not in (DType.F32, DType.F64):
            return f"requires features of f32 or f64, not {x.dtype}"
        if cls.transform(q.primitive) not in _SERVED:
            return f"makes {', '.join(_SERVED)} of scores, not {cls.transform(q.primitive)}"
        return None if all(v.is_dense_plain for v in (x, *q.outputs)) else "requires tensors without gaps"

    @classmethod
    def cost(cls, q: Query[Machine]) -> float:
        (rows, _), (blocks, lines, lanes) = q.own[0].shape, q.own[PACKED].shape
        return q.device.launch_seconds + rows * blocks * lanes * (lines * _PRODUCT + _KERNEL) / q.device.workers

    @classmethod
    @abstractmethod
    def transform(cls, f: Machine) -> str:
        """Return what is made of scores."""

    @classmethod
    @abstractmethod
    def numbers(cls, f: Machine) -> tuple[int, int, int, Sequence[float]]:
        """Return the number of classes, whether there are probabilities, whether classes are signs; rho and more."""

    @classmethod
    def plan(cls, q: Query[Machine]) -> Plan:
        (rows, features), (_, lines, _), f = q.own[0].shape, q.own[PACKED].shape, q.primitive
        classes, probable, signs, more = cls.numbers(f)
        block = max(_FEWEST, -(-rows // q.device.workers))
        words = [
            *(rows, block, features, q.own[1].shape[0], lines - features, classes, KERNELS.index(f.function)),
            *(_SERVED.index(cls.transform(f)), probable, signs),
        ]
        parameters = f.parameters or (0.0, 0.0, 0.0)
        words += [word for value in (*parameters, *more) for word in value_words(value, DType.F64)]
        jit = Jit().define(SQUARES=int(f.function == "RBF"), BESIDE=_BESIDE if q.device.simd >= 16 else _NARROW_BESIDE)
        jit = jit if q.own[0].dtype == DType.F32 else jit.define(FEATURE=q.own[0].dtype)
        results = ("out0", "out1") if classes else ("null", "out0")
        kernel = "support_vectors/support_vector_rows"
        return Plan((launch(kernel, jit, -(-rows // block), "in0", f"in{PACKED}", *results, table(words)),))


@implements(SupportVectorRegressor, name="support_vector_regressor.rows", serves=SERVES, general=True)
class SupportVectorRegressorRows(SupportVectorRows[SupportVectorRegressor]):
    """A number a row, or its sign."""

    @classmethod
    def transform(cls, f: SupportVectorRegressor) -> str:
        return "NONE"

    @classmethod
    def numbers(cls, f: SupportVectorRegressor) -> tuple[int, int, int, Sequence[float]]:
        return 0, 0, int(f.one_class), (f.rho,)
