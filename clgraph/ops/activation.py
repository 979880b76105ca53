"""Unary elementwise functions. One primitive, because kernels fuse it: what fuses must be one thing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ShapeError
from clgraph.graph.importing import OnnxNode, onnx
from clgraph.graph.permute import Axes
from clgraph.graph.primitive import REFERENCE_SECONDS, Array, Permuted, PostOperation, Primitive, primitive
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
    value_words,
    words,
)
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.jit import Jit
from clgraph.selector.plan import Plan
from clgraph.selector.post import FUSABLE, post_codes
from clgraph.selector.query import Query
from clgraph.selector.views import View, space

_erf = np.vectorize(math.erf, otypes=[np.float64])

ERF_SECONDS = 5e-8
"""What the error function takes for an element: it is called for each."""


def _sigmoid(v: Array) -> Array:
    small = np.exp(-np.abs(v))
    return np.asarray(np.where(v >= 0, 1, small) / (1 + small))


def _gelu_tanh(v: Array) -> Array:
    return np.asarray(v / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * (v * v * v)))))


FUNCTIONS: dict[str, Callable[[Array, float, float], Array]] = {
    "linear": lambda v, a, b: a * v + b,
    "relu": lambda v, a, b: np.maximum(v, 0),
    "clip": lambda v, a, b: np.minimum(np.maximum(v, a), b),
    "leaky_relu": lambda v, a, b: np.where(v < 0, a * v, v),
    "thresholded_relu": lambda v, a, b: np.where(v > a, v, 0),
    "elu": lambda v, a, b: np.where(v < 0, a * np.expm1(np.minimum(v, 0)), v),
    "celu": lambda v, a, b: np.where(v < 0, a * np.expm1(np.minimum(v, 0) / a), v),
    "sigmoid": lambda v, a, b: _sigmoid(v),
    "tanh": lambda v, a, b: np.tanh(v),
    "hard_sigmoid": lambda v, a, b: np.minimum(np.maximum(a * v + b, 0), 1),
    "hard_swish": lambda v, a, b: v * np.minimum(np.maximum(a * v + b, 0), 1),
    "swish": lambda v, a, b: v * _sigmoid(a * v),
    "gelu": lambda v, a, b: v / 2 * (1 + _erf(v / math.sqrt(2))),
    "gelu_tanh": lambda v, a, b: _gelu_tanh(v),
    "exp": lambda v, a, b: np.exp(v),
    "log": lambda v, a, b: np.log(v),
    "sqrt": lambda v, a, b: np.sqrt(v),
    "reciprocal": lambda v, a, b: 1 / v,
    "neg": lambda v, a, b: -v,
    "abs": lambda v, a, b: np.abs(v),
    "square": lambda v, a, b: v * v,
    "erf": lambda v, a, b: _erf(v),
    "floor": lambda v, a, b: np.floor(v),
    "ceil": lambda v, a, b: np.ceil(v),
    "round": lambda v, a, b: np.rint(v),
    "softplus": lambda v, a, b: np.logaddexp(v, 0),
    "softsign": lambda v, a, b: v / (1 + np.abs(v)),
    "sin": lambda v, a, b: np.sin(v),
    "cos": lambda v, a, b: np.cos(v),
    "sign": lambda v, a, b: np.sign(v),
    "mish": lambda v, a, b: v * np.tanh(np.logaddexp(v, 0)),
    "fake_quantize": lambda v, a, b: a * np.minimum(np.fmax(np.rint(v / a), b), b + 255),
    "fake_quantize_wide": lambda v, a, b: a * np.minimum(np.fmax(np.rint(v / a), b), b + 65535),
    "gated_steps": lambda v, a, b: v * (a * np.minimum(np.fmax(np.rint((v + b) / a), 0), 65535)),
    "whole_steps": lambda v, a, b: np.minimum(np.fmax(np.rint(v / a), b), b + 65535),
    "scaled_sum": lambda v, a, b: a * (v + b),
    "divided": lambda v, a, b: v / a,
    "not": lambda v, a, b: np.logical_not(v),
}
"""Function by name, with parameters ``alpha`` and ``beta``; all but ``not`` have codes in ``post_codes.clh``."""


@primitive
@frozen
class Activation(Primitive):
    """``y = f(x)``, element by element.

    Attributes:
        function: A key of ``FUNCTIONS``.
        alpha, beta: Its parameters, 0 where it has none; integers for a function of integers, which floats do not hold.
    """

    function: str
    alpha: float = 0.0
    beta: float = 0.0

    kind: ClassVar[str] = "activation"
    holds_sizes: ClassVar[bool] = False
    reference_checks: ClassVar[bool] = True
    elementwise: ClassVar[bool] = True

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        if self.function not in FUNCTIONS:
            raise ShapeError(f"{self.function!r} is not an activation; there are {', '.join(FUNCTIONS)}")
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        alpha, beta = (held(v, x.dtype) for v in (self.alpha, self.beta))
        with np.errstate(all="ignore"):
            return (np.asarray(FUNCTIONS[self.function](x, alpha, beta)).astype(x.dtype),)

    def reference_seconds(self, inputs: Sequence[Layout], outputs: Sequence[Layout]) -> float:
        each = ERF_SECONDS if self.function in ("erf", "gelu") else 0.0
        return REFERENCE_SECONDS + each * inputs[0].count

    def as_post(self, slot: int) -> PostOperation | None:
        return None if self.function == "not" else PostOperation(self.function, self.alpha, self.beta)

    def permuted(self, axes: Axes, inputs: Sequence[Layout]) -> Permuted | None:
        return Permuted.along(self, axes, len(inputs))


def held(parameter: float, dtype: np.dtype[Any]) -> float:
    """Return *parameter*: for integers the nearest that *dtype* holds, unless it is a fraction."""
    if dtype.kind not in "iu" or (math.isfinite(parameter) and parameter != int(parameter)):
        return parameter
    limits = np.iinfo(dtype)
    return int(min(max(parameter, int(limits.min)), int(limits.max)))


_SIMPLE = {
    "Relu": ((1, 6, 13, 14), "relu"),
    "Sigmoid": ((1, 6, 13), "sigmoid"),
    "Tanh": ((1, 6, 13), "tanh"),
    "Exp": ((1, 6, 13), "exp"),
    "Log": ((1, 6, 13), "log"),
    "Sqrt": ((1, 6, 13), "sqrt"),
    "Reciprocal": ((1, 6, 13), "reciprocal"),
    "Neg": ((1, 6, 13), "neg"),
    "Abs": ((1, 6, 13), "abs"),
    "Erf": ((9, 13), "erf"),
    "Floor": ((1, 6, 13), "floor"),
    "Ceil": ((1, 6, 13), "ceil"),
    "Round": ((11, 22), "round"),
    "Softplus": ((1, 22), "softplus"),
    "Softsign": ((1, 22), "softsign"),
    "Sin": ((7, 22), "sin"),
    "Cos": ((7, 22), "cos"),
    "Sign": ((9, 13), "sign"),
    "Mish": ((18, 22), "mish"),
}


def _register_simple() -> None:
    for op_type, (since, function) in _SIMPLE.items():
        onnx(op_type, since=since)(lambda node, f=function: Activation(f))


_register_simple()


@onnx("LeakyRelu", since=(1, 6, 16))
def import_leaky_relu(node: OnnxNode) -> Primitive:
    return Activation("leaky_relu", node.attribute("alpha", 0.01))


@onnx("ThresholdedRelu", since=(1, 10, 22))
def import_thresholded_relu(node: OnnxNode) -> Primitive:
    return Activation("thresholded_relu", node.attribute("alpha", 1.0))


@onnx("Elu", since=(1, 6, 22))
def import_elu(node: OnnxNode) -> Primitive:
    return Activation("elu", node.attribute("alpha", 1.0))


@onnx("Selu", since=(1, 6, 22))
def import_selu(node: OnnxNode) -> Sequence[str]:
    """Return gamma times the ELU of alpha."""
    alpha, gamma = (1.6732, 1.0507) if node.since == 1 else (1.6732632, 1.0507010)
    (y,) = node.emit(Activation("elu", node.attribute("alpha", alpha)), node.inputs[0])
    return node.emit(Activation("linear", node.attribute("gamma", gamma)), y)


@onnx("Celu", since=(12, 28))
def import_celu(node: OnnxNode) -> Primitive:
    alpha: float = node.attribute("alpha", 1.0)
    if alpha <= 0:
        raise node.unsupported(
            f"CELU has an alpha above 0, not {alpha:g}: what the formula gives for others jumps or is NaN"
        )
    return Activation("celu", alpha)


@onnx("HardSigmoid", since=(1, 6, 22))
def import_hard_sigmoid(node: OnnxNode) -> Primitive:
    return Activation("hard_sigmoid", node.attribute("alpha", 0.2), node.attribute("beta", 0.5))


@onnx("HardSwish", since=(14, 22))
def import_hard_swish(node: OnnxNode) -> Primitive:
    return Activation("hard_swish", 1 / 6, 0.5)


@onnx("Gelu", since=(20,))
def import_gelu(node: OnnxNode) -> Primitive:
    return Activation("gelu_tanh" if node.attribute("approximate", "none") == "tanh" else "gelu")


@onnx("Not", since=(1,))
def import_not(node: OnnxNode) -> Primitive:
    return Activation("not")


@onnx("Swish", since=(24,))
def import_swish(node: OnnxNode) -> Primitive:
    return Activation("swish", node.attribute("alpha", 1.0))


@implements(Activation, name="activation.ref", serves=Serves(dtypes=REALS, fuses=FUSABLE), general=True)
class ActivationRef(General[Activation]):
    """One work-item an element, any rank."""

    @classmethod
    def further_limits(cls, q: Query[Activation]) -> str | None:
        return None if q.primitive.function in post_codes() else f"has no {q.primitive.function} of floats"

    @classmethod
    def plan(cls, q: Query[Activation]) -> Plan:
        (y,), x, f = q.outputs, q.inputs[0], q.primitive
        s = space(y.shape, [View.of(y), View.of(x), *post_views(q)])
        count, dims = lines(s, q)
        numbers = table(
            dims, *s.views[:2], [post_codes()[f.function], *words(f.alpha, y.dtype), *words(f.beta, y.dtype)]
        )
        posts = post_arguments(q, s.views[2:], len(s.dims))
        jit = float_jit(y.dtype, len(s.dims))
        return Plan((launch("activation/activation_ref", jit, count, "in0", "out0", numbers, *posts),))


_NOT = 133
_INTEGER = {"relu", "clip", "neg", "abs", "square", "sign", "floor", "ceil", "round", "not"}


@implements(Activation, name="activation.int_ref", serves=Serves(dtypes=INTEGERS | {DType.BOOL}), general=True)
class ActivationIntRef(General[Activation]):
    """One work-item an element, any rank; the functions that keep integers integers."""

    @classmethod
    def further_limits(cls, q: Query[Activation]) -> str | None:
        function = q.primitive.function
        return None if function in _INTEGER else f"has no {function} of {q.inputs[0].dtype}"

    @classmethod
    def plan(cls, q: Query[Activation]) -> Plan:
        (y,), x, f = q.outputs, q.inputs[0], q.primitive
        s = space(y.shape, [View.of(y), View.of(x)])
        bounds = [held(v, y.dtype.numpy) for v in (f.alpha, f.beta)] if f.function == "clip" else [0, 0]
        words = [w for v in bounds for w in value_words(v, y.dtype)]
        count, dims = lines(s, q)
        numbers = table(dims, *s.views, [post_codes().get(f.function, _NOT), *words])
        jit = Jit().define(RANK=len(s.dims), T=y.dtype)
        return Plan((launch("activation/activation_int_ref", jit, count, "in0", "out0", numbers),))
