"""References of layers spelled for element types and shapes that are known: a call of NumPy and little else.

On a few numbers, references spend most of their time on what is the same in each run: axes, shapes, the floating-point
state. The results are theirs, bit for bit; what a spelling cannot do, such as an index out of range, it leaves to them.
They are called under ``np.errstate(all="ignore")``, and may return views of their arguments and NumPy's scalars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import methodcaller
from typing import Any

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.primitive import Array, Primitive
from clgraph.handlers import pass_on
from clgraph.ops.activation import FUNCTIONS as ACTIVATIONS
from clgraph.ops.activation import held
from clgraph.ops.eltwise import ARITHMETIC, COMPARISONS
from clgraph.ops.top_k import MANY

Spelling = Callable[..., Any]
"""Makes the result of a layer that has one, else the tuple of them."""

_MOVED_AT_ONCE = 1 << 16
"""Bytes of a table up to which ``take`` may copy it, as it does one that is not aligned."""

_NATIVE = frozenset(d for d in DType if d.numpy.isbuiltin == 1 and d.numpy.kind in "biuf")
_REDUCTIONS: dict[str, np.ufunc] = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def spelled(primitive: Primitive, inputs: Sequence[Layout]) -> Spelling | None:
    """Return what computes a bound *primitive* on *inputs* like its reference; ``None`` where nothing here does."""
    make = _MAKERS.get(primitive.kind)
    if make is None or any(layout.dtype not in _NATIVE for layout in inputs):
        return None
    return make(primitive, inputs)


def is_one_call(primitive: Any) -> bool:
    """Whether a spelling is hardly more than one call of NumPy; others take about as long as short references."""
    return primitive.kind not in ("top_k", "softmax") and not (
        primitive.kind == "reduce" and primitive.function == "log_sum_exp"
    )


def _eltwise(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    a, b = inputs
    if a.dtype != b.dtype:
        return None
    if primitive.function in COMPARISONS:
        function: Spelling = COMPARISONS[primitive.function]
    elif primitive.function == "div" and a.dtype.floating:
        function = np.true_divide
    else:
        function = ARITHMETIC[primitive.function]
    if isinstance(function, np.ufunc):
        return _of_aligned(function, a.shape, b.shape)
    return partial(_as_type, function, a.dtype.numpy)


def _of_aligned(function: np.ufunc, a: tuple[int, ...], b: tuple[int, ...]) -> Spelling:
    """Return *function* on shapes *a* and *b*, without NumPy's iterator where one of them is a number or a row."""
    if (as_a := _aligned(b, a)) is not None:
        return lambda x, y: function(x, y.reshape(as_a))
    if (as_b := _aligned(a, b)) is not None:
        return lambda x, y: function(x.reshape(as_b), y)
    return function


def _aligned(shape: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return what *shape* is to be for NumPy to run one loop with *other*; ``None`` if it is, or there is nothing.

    A scalar is read with a stride of nothing. NumPy's iterator, which broadcasts, takes longer than a loop.
    """
    if shape == other or not shape or len(shape) > len(other):
        return None
    if prod(shape) == 1:
        return ()
    return other if (1,) * (len(other) - len(shape)) + shape == other else None


def _activation(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    dtype = inputs[0].dtype.numpy
    alpha, beta = (held(v, dtype) for v in (primitive.alpha, primitive.beta))
    function = ACTIVATIONS[primitive.function]
    return lambda x: _as_type(function, dtype, x, alpha, beta)


def _as_type(function: Spelling, dtype: np.dtype[Any], *arguments: Any) -> Any:
    result = function(*arguments)
    return result if result.dtype == dtype else result.astype(dtype)


def _reduce(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    (x,) = inputs
    if x.dtype in (DType.F16, DType.BOOL):
        return None
    axes, dtype, keeps = primitive.reduced(x.rank), x.dtype.numpy, primitive.keepdims
    over = axes[0] if len(axes) == 1 else axes
    if (ufunc := _REDUCTIONS.get(primitive.function)) is not None:
        return lambda x: ufunc.reduce(x, over, dtype, keepdims=keeps)
    if primitive.function == "sum_square":
        return lambda x: np.add.reduce(x * x, over, dtype, keepdims=keeps)
    if primitive.function == "log_sum_exp" and x.dtype.floating and x.count and over != ():
        return partial(_log_sum_exp, over=over, keeps=keeps, dtype=dtype)
    if primitive.function == "l1" and x.dtype.floating:
        return lambda x: np.add.reduce(np.abs(x), over, dtype, keepdims=keeps)
    if primitive.function == "l2" and x.dtype.floating:
        return lambda x: np.sqrt(np.add.reduce(x * x, over, dtype, keepdims=keeps))
    if primitive.function == "mean" and x.dtype.floating and x.count:
        count = dtype.type(prod(x.shape[a] for a in axes))
        return lambda x: np.add.reduce(x, over, dtype, keepdims=keeps) / count
    return None


def _log_sum_exp(x: Array, over: Any, keeps: Any, dtype: np.dtype[Any]) -> Any:
    top = np.maximum.reduce(x, over, dtype, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.add.reduce(np.exp(x - top), over, dtype, keepdims=keeps))
    return total + (top if keeps else top.reshape(total.shape))


def _softmax(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    axes, log = primitive.axes[0] if len(primitive.axes) == 1 else primitive.axes, primitive.log
    if inputs[0].dtype not in (DType.F32, DType.F64) or not inputs[0].count:
        return None

    def run(x: Array) -> Any:
        shifted = x - np.maximum.reduce(x, axes, keepdims=True)
        powers = np.exp(shifted)
        total = np.add.reduce(powers, axes, keepdims=True)
        return shifted - np.log(total) if log else np.divide(powers, total, powers)

    return run


def _reshape(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    return methodcaller("reshape", primitive.target(inputs[0].shape, ()))


def _reorder(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    if primitive.format is not None or primitive.halo or primitive.dtype not in _NATIVE:
        return None
    return methodcaller("astype", primitive.dtype.numpy)


def _is_special(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    if primitive.nan:
        return np.isnan
    return np.isinf if primitive.negative and primitive.positive else None


def _arg(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    if primitive.last or not inputs[0].count:
        return None
    return methodcaller("argmin" if primitive.smallest else "argmax", primitive.axis, keepdims=primitive.keepdims)


def _top_k(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    (x,), k = inputs, primitive.k
    n, shape = x.shape[-1], (*x.shape[:-1], k)
    if not n or x.count >= MANY or primitive.axis % x.rank != x.rank - 1:
        return None
    if x.count != n:
        return _top_k_of_lines(x, k, largest=primitive.largest)
    if not primitive.largest:
        smallest = np.arange(k)

        def run_smallest(x: Array) -> Any:
            places = x.argsort(None, "stable").take(smallest).reshape(shape)
            return x.take(places), places

        return run_smallest
    largest, last = np.arange(n - 1, n - 1 - k, -1), n - 1

    def run(x: Array) -> Any:
        places = (last - x.ravel()[::-1].argsort(kind="stable").take(largest)).reshape(shape)
        return x.take(places), places

    return run


def _top_k_of_lines(x: Layout, k: int, *, largest: bool) -> Spelling:
    n, shape = x.shape[-1], (*x.shape[:-1], k)
    lines, last = np.arange(0, x.count, n).reshape(-1, 1), n - 1

    def run(x: Array) -> Any:
        rows = x.reshape(-1, n)
        if largest:
            places = last - rows[:, ::-1].argsort(1, "stable")[:, ::-1][:, :k]
        else:
            places = rows.argsort(1, "stable")[:, :k].copy()
        return x.take(places + lines).reshape(shape), places.reshape(shape)

    return run


def _cumulative_sum(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    if primitive.reverse or primitive.exclusive or inputs[0].dtype in (DType.F16, DType.BOOL):
        return None
    return methodcaller("cumsum", primitive.axis or 0, inputs[0].dtype.numpy)


def _slice(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    window = tuple([slice(*row) for row in zip(primitive.starts, primitive.ends, primitive.steps, strict=True)])
    return (lambda x: np.ascontiguousarray(x[window])) if inputs[0].rank else None


def _transpose(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    axes = primitive.axes
    return (lambda x: np.ascontiguousarray(x.transpose(axes))) if inputs[0].rank else None


def _where(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    return np.where


def _concat(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    axis = primitive.axis
    return lambda *arguments: np.concatenate(arguments, axis)


def _matmul(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    reference, dtypes, turns = (
        primitive.reference,
        {x.dtype for x in inputs},
        [primitive.transpose_a, primitive.transpose_b],
    )
    if dtypes not in ({DType.F32}, {DType.F64}) or any(
        _is_row(x) for x, turn in zip(inputs, turns, strict=False) if turn
    ):
        return None
    turn_a, turn_b = turns

    def run(a: Array, b: Array) -> Any:
        # Where strides are others, NumPy multiplies without its library of linear algebra, and rounds otherwise.
        if a.flags.forc and b.flags.forc:
            return np.matmul(a.T if turn_a else a, b.T if turn_b else b)
        return reference(a, b)[0]

    if len(inputs) == 2:
        return run
    if inputs[0].rank != 2 or inputs[1].rank != 2:
        return None
    shape = inputs[0].shape[1 if turn_a else 0], inputs[1].shape[0 if turn_b else 1]
    aligned = _aligned(inputs[2].shape, shape)

    def run_with_bias(a: Array, b: Array, bias: Array) -> Any:
        y = run(a, b)
        y += bias if aligned is None else bias.reshape(aligned)
        return y

    return run_with_bias


def _is_row(x: Layout) -> bool:
    """Whether a matrix, or what is none, has other strides than its transpose as a copy."""
    return x.rank != 2 or min(x.shape) < 2


def _gather(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    axis, reference = primitive.axis, primitive.reference

    def run(x: Array, indices: Array) -> Any:
        if x.nbytes < _MOVED_AT_ONCE or x.flags.aligned:
            try:
                return x.take(indices, axis)
            except IndexError as error:
                pass_on(error)
        return reference(x, indices)[0]

    return run


def _gather_nd(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    reference, depth = primitive.reference, inputs[1].shape[-1]
    if primitive.batch or inputs[1].rank != 2:
        return None
    if depth == 1:
        count = inputs[1].shape[0]

        def run_of_one(x: Array, indices: Array) -> Any:
            try:
                return x.take(indices.reshape(count), 0)
            except IndexError as error:
                pass_on(error)
                return reference(x, indices)[0]

        return run_of_one

    def run(x: Array, indices: Array) -> Any:
        if indices.shape[1] == depth:
            try:
                return x[tuple(indices.T)]
            except IndexError as error:
                pass_on(error)
        return reference(x, indices)[0]

    return run


def _gather_elements(primitive: Any, inputs: Sequence[Layout]) -> Spelling:
    reference = primitive.reference
    before, after = _around(inputs[1].shape, primitive.axis)

    def run(x: Array, indices: Array) -> Any:
        try:
            return x[(*before, indices, *after)]
        except IndexError as error:
            pass_on(error)
            return reference(x, indices)[0]

    return run


def _scatter_elements(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    reference = primitive.reference
    if primitive.reduction != "none":
        return None
    before, after = _around(inputs[1].shape, primitive.axis)

    def run(x: Array, indices: Array, updates: Array) -> Any:
        made = x.copy()
        try:
            made[(*before, indices, *after)] = updates
        except IndexError as error:
            pass_on(error)
            return reference(x, indices, updates)[0]
        return made

    return run


def _scatter_nd(primitive: Any, inputs: Sequence[Layout]) -> Spelling | None:
    reference = primitive.reference
    if primitive.reduction != "none" or inputs[1].rank != 2:
        return None

    def run(x: Array, indices: Array, updates: Array) -> Any:
        made = x.copy()
        try:
            made[tuple(indices.T)] = updates
        except IndexError as error:
            pass_on(error)
            return reference(x, indices, updates)[0]
        return made

    return run


def _around(shape: Sequence[int], axis: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the places along the axes before and after *axis*, which broadcast to *shape* with indices between."""
    places: tuple[Array, ...] = np.indices(shape, sparse=True)
    return places[:axis], places[axis + 1 :]


_MAKERS: dict[str, Callable[[Any, Sequence[Layout]], Spelling | None]] = {
    "eltwise": _eltwise,
    "activation": _activation,
    "reduce": _reduce,
    "softmax": _softmax,
    "reshape": _reshape,
    "reorder": _reorder,
    "is_special": _is_special,
    "arg": _arg,
    "top_k": _top_k,
    "cumulative_sum": _cumulative_sum,
    "slice": _slice,
    "transpose": _transpose,
    "where": _where,
    "concat": _concat,
    "matmul": _matmul,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "gather_elements": _gather_elements,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
}
