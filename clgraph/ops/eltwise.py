"""Elementwise functions of two tensors with NumPy's broadcasting: arithmetic, comparisons, logic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType, is_floating, largest
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.broadcasting import broadcast
from clgraph.graph.host_types import numpy_type
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import Array, Permuted, PostOperation, Primitive, primitive
from clgraph.ops.activation import Activation
from clgraph.ops.align import Align, aligned
from clgraph.selector.general import (
    INTEGERS,
    REALS,
    General,
    float_jit,
    launch,
    lines,
    post_arguments,
    post_views,
    table,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE, post_codes
from clgraph.selector.query import Query
from clgraph.selector.storage import loaded
from clgraph.selector.views import View, space


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = a // np.where(b == 0, 1, b)
    towards_zero = quotient + ((quotient < 0) & (quotient * b != a))
    return np.asarray(np.where(b == 0, 0, towards_zero))


def _mod(a: Array, b: Array) -> Array:
    return np.asarray(np.mod(a, b) if a.dtype.kind == "f" else np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b))))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return _whole_power(a, b)
    exact = np.result_type(a, b, np.float64) if a.dtype.kind != "f" or b.dtype.kind != "f" else a.dtype
    return np.asarray(np.power(a.astype(exact), b.astype(exact)))


def _whole_power(a: Array, b: Array) -> Array:
    """Return ``a ** b`` modulo 2^64; of a negative exponent what is left of the fraction: 0, 1 or -1."""
    wide = np.power(a.astype(np.uint64), np.where(b < 0, 0, b).astype(np.uint64)).astype(a.dtype)
    fraction = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1).astype(np.int64), 0)).astype(a.dtype)
    return np.where(b < 0, fraction, wide)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "min": np.minimum,
    "max": np.maximum,
    "pow": _pow,
    "prelu": lambda a, b: np.where(a < 0, a * b, a),
    "mod": _mod,
    "fmod": np.fmod,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}
"""Functions whose result has the type of the first input."""

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
"""Functions whose result is BOOL."""

_POST = {"add", "mul", "div", "sub", "min", "max", "pow"}
_REVERSED = {"sub": "rsub", "div": "rdiv", "pow": "rpow"}


@primitive
@frozen
class Eltwise(Primitive):
    """``y = f(a, b)``, element by element, with NumPy's broadcasting.

    Integers divide towards zero; division by an integer zero gives 0. ``mod`` has the sign of b, ``fmod`` of a. A shift
    by all bits, more, or a negative number of them leaves 0, to the right what is left of the sign: 0 or -1.

    Attributes:
        function: A key of ``ARITHMETIC`` or ``COMPARISONS``.
    """

    function: str

    kind: ClassVar[str] = "eltwise"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if self.function not in ARITHMETIC and self.function not in COMPARISONS:
            raise ShapeError(f"{self.function!r} is not one of {', '.join((*ARITHMETIC, *COMPARISONS))}")
        a, b = inputs
        if self.function.startswith("shift") and (a.dtype.floating or a.dtype == DType.BOOL):
            raise ShapeError(f"{self.function} takes integers, not {a.dtype}")
        if a.dtype != b.dtype and self.function != "pow":
            raise ShapeError(f"{self.function} requires one element type, not {a.dtype} and {b.dtype}")
        try:
            shape = broadcast(a.shape, b.shape)
        except ValueError as error:
            raise ShapeError(f"{list(a.shape)} and {list(b.shape)} do not broadcast") from error
        return (Layout(DType.BOOL if self.function in COMPARISONS else a.dtype, shape),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        a, b = inputs
        with np.errstate(all="ignore"):
            if self.function in COMPARISONS:
                return (np.asarray(COMPARISONS[self.function](a, b)),)
            return (np.asarray(ARITHMETIC[self.function](a, b)).astype(a.dtype),)

    def as_post(self, slot: int) -> PostOperation | None:
        if self.function == "prelu" and slot == 0:
            return PostOperation("prelu")
        if self.function not in _POST:
            return None
        return PostOperation(_REVERSED.get(self.function, self.function) if slot else self.function)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


_BINARY = {
    "Add": ((7, 13, 14), "add"),
    "Sub": ((7, 13, 14), "sub"),
    "Mul": ((7, 13, 14), "mul"),
    "Div": ((7, 13, 14), "div"),
    "And": ((7,), "and"),
    "Or": ((7,), "or"),
    "Xor": ((7,), "xor"),
    "BitwiseAnd": ((18,), "and"),
    "BitwiseOr": ((18,), "or"),
    "BitwiseXor": ((18,), "xor"),
    "Equal": ((7, 11, 13, 19), "equal"),
    "Less": ((7, 9, 13), "less"),
    "LessOrEqual": ((12, 16), "less_equal"),
    "Greater": ((7, 9, 13), "greater"),
    "GreaterOrEqual": ((12, 16), "greater_equal"),
}
_ALIGNED = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (1, 6)),
    **dict.fromkeys(("And", "Or", "Xor", "Equal", "Less", "Greater"), (1,)),
}
"""The versions of :data:`_BINARY` before 7."""
_VARIADIC = {"Sum": ((1, 6, 8, 13), "add"), "Max": ((1, 6, 8, 12, 13), "max"), "Min": ((1, 6, 8, 12, 13), "min")}


def _chain(node: OnnxNode, function: str) -> str:
    return reduce(lambda left, right: node.emit(Eltwise(function), left, right)[0], node.inputs)


def _register() -> None:
    for op_type, (since, function) in _BINARY.items():
        onnx(op_type, since=since)(lambda node, f=function: Eltwise(f))
    for op_type, before in _ALIGNED.items():
        function = _BINARY[op_type][1]
        onnx(op_type, since=before)(lambda node, f=function: node.emit(Eltwise(f), node.inputs[0], aligned(node)))
    for op_type, (since, function) in _VARIADIC.items():
        onnx(op_type, since=since)(lambda node, f=function: (_chain(node, f),))


_register()


@onnx("PRelu", since=(1, 6, 7, 9, 16))
def import_prelu(node: OnnxNode) -> Primitive | Sequence[str]:
    """Return the importer's result; before version 7 a slope of one axis has an element a channel, axis 1."""
    if node.since >= 7:
        return Eltwise("prelu")
    return node.emit(Eltwise("prelu"), node.inputs[0], *node.emit(Align(1), *node.inputs))


@onnx("Mean", since=(1, 6, 8, 13))
def import_mean(node: OnnxNode) -> Sequence[str]:
    return node.emit(Activation("linear", 1 / len(node.inputs)), _chain(node, "add"))


@onnx("Clip", since=(1, 6, 11, 12, 13))
def import_clip(node: OnnxNode) -> Primitive | Sequence[str]:
    """Return the importer's result; from version 6 on an absent bound is the largest number of the type."""
    most = np.inf if node.since < 6 else _largest(node.type_of(0))
    if node.since < 11:
        return Activation("clip", node.attribute("min", -most), node.attribute("max", most))
    names, y = dict(enumerate(node.inputs)), node.inputs[:1]
    values = [node.constant(slot) if names.get(slot) else None for slot in (1, 2)]
    if wrong := [list(v.shape) for v in values if v is not None and v.size != 1]:
        raise node.unsupported(f"a bound is one number, not a tensor of shape {wrong[0]}")
    limits = [d if v is None else v.item() for d, v in zip((-most, most), values, strict=True)]
    lower, upper = (names.get(slot, "") if values[slot - 1] is None else "" for slot in (1, 2))
    if lower:
        y = node.emit(Eltwise("max"), y[0], lower)
        limits[0] = -np.inf
    if upper:
        limits[1] = np.inf
    y = y if np.isinf(limits).all() else node.emit(Activation("clip", *limits), *y)
    return node.emit(Eltwise("min"), y[0], upper) if upper else y


def _largest(tensor: str | None) -> float:
    """Return the largest number of the type *tensor* where that is one of floats, else infinity."""
    dtype = numpy_type(tensor) if tensor else np.dtype(np.int64)
    return largest(dtype) if is_floating(dtype) else np.inf


@onnx("Mod", since=(10, 13, 28))
def import_mod(node: OnnxNode) -> Primitive:
    return Eltwise("fmod" if node.attribute("fmod", 0) else "mod")


_CODES = {"mod": 128, "fmod": 129, "and": 130, "or": 131, "xor": 132, "shift_left": 133, "shift_right": 134}
_COMPARED = {"equal": 0, "less": 1, "less_equal": 2, "greater": 3, "greater_equal": 4}


def _views(q: Query[Eltwise]) -> list[View]:
    shape = q.outputs[0].shape
    return [View.of(q.outputs[0]), View.of(q.inputs[0], shape), View.of(q.inputs[1], shape), *post_views(q)]


@implements(
    Eltwise, name="eltwise.ref", serves=Serves(dtypes=REALS | INTEGERS, mixed=True, fuses=FUSABLE), general=True
)
class EltwiseRef(General[Eltwise]):
    """One work-item an element, any rank, any broadcast; the exponent of a power may be an integer."""

    @classmethod
    def further_limits(cls, q: Query[Eltwise]) -> str | None:
        a, b, y = q.inputs[0], q.inputs[1], q.outputs[0]
        if not a.dtype.floating or y.dtype != a.dtype or (b.dtype != a.dtype and q.primitive.function != "pow"):
            return "computes floats from floats"
        if b.dtype == DType.F64 and a.dtype != b.dtype:
            return "raises doubles alone to doubles"
        if any(x.dtype != a.dtype for x in q.inputs[2:]):
            return "reads operands of one type"
        known = q.primitive.function in post_codes() or q.primitive.function in ("mod", "fmod")
        return None if known else f"has no {q.primitive.function} of floats"

    @classmethod
    def plan(cls, q: Query[Eltwise]) -> Plan:
        function, (y,), b = q.primitive.function, q.outputs, q.inputs[1]
        s = space(y.shape, _views(q))
        code = _CODES.get(function, post_codes().get(function, 0))
        jit = float_jit(y.dtype, len(s.dims))
        if b.dtype != y.dtype:
            jit = jit.define(**{"TB": b.dtype.cl, "LOAD_B(p, i)": loaded(b.dtype)})
        posts = post_arguments(q, s.views[3:], len(s.dims))
        count, dims = lines(s, q)
        numbers = table(dims, *s.views[:3], code)
        return Plan((launch("eltwise/eltwise_ref", jit, count, "in0", "in1", "out0", numbers, *posts),))


@implements(Eltwise, name="eltwise.int_ref", serves=Serves(dtypes=INTEGERS | {DType.BOOL}, mixed=True), general=True)
class EltwiseIntRef(General[Eltwise]):
    """One work-item an element, any rank, any broadcast, on integers and bools; exponents may be of another type."""

    @classmethod
    def further_limits(cls, q: Query[Eltwise]) -> str | None:
        logic = q.primitive.function in ("and", "or", "xor")
        if q.outputs[0].dtype == DType.BOOL and not logic:
            return f"has no {q.primitive.function} of bools"
        if len(q.dtypes) > 1 and (q.primitive.function != "pow" or DType.BOOL in q.dtypes):
            return "requires one element type but for powers"
        return None if q.primitive.function in ARITHMETIC else f"has no {q.primitive.function}"

    @classmethod
    def plan(cls, q: Query[Eltwise]) -> Plan:
        function, (y,), b = q.primitive.function, q.outputs, q.inputs[1]
        s = space(y.shape, _views(q))
        count, dims = lines(s, q)
        numbers = table(dims, *s.views, _CODES.get(function, post_codes().get(function, 0)))
        jit = Jit().define(RANK=len(s.dims), T=y.dtype)
        jit = jit if b.dtype == y.dtype else jit.define(TB=b.dtype)
        return Plan((launch("eltwise/eltwise_int_ref", jit, count, "in0", "in1", "out0", numbers),))


@implements(
    Eltwise,
    name="eltwise.compare_ref",
    serves=Serves(dtypes=REALS | INTEGERS | {DType.BOOL}, mixed=True),
    general=True,
)
class EltwiseCompareRef(General[Eltwise]):
    """One work-item an element, any rank, any broadcast; compares floats, integers and bools."""

    @classmethod
    def further_limits(cls, q: Query[Eltwise]) -> str | None:
        return None if q.primitive.function in _COMPARED else f"has no {q.primitive.function}"

    @classmethod
    def plan(cls, q: Query[Eltwise]) -> Plan:
        x, (y,) = q.inputs[0], q.outputs
        s = space(y.shape, _views(q))
        jit = float_jit(x.dtype, len(s.dims))
        if not x.dtype.floating:
            jit = jit.define(T=x.dtype, V=x.dtype)
        count, dims = lines(s, q)
        numbers = table(dims, *s.views, _COMPARED[q.primitive.function])
        return Plan((launch("eltwise/eltwise_compare_ref", jit, count, "in0", "in1", "out0", numbers),))
