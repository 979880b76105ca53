"""How far from exact a float32 result may be: a bound for every element, by running error analysis of a program.

Each value is computed in float64 by the references; beside it goes a bound of what any order of sums, any of clgraph's
algorithms (Winograd's F(4x4, 3x3) and Strassen's among them) and any folding of constants may make of it in float32. A
rule for each primitive says what it makes of the bounds of its inputs, and what its own arithmetic adds; the model is
Higham's (Accuracy and Stability of Numerical Algorithms, chapter 3): a sum of n products is good to gamma(n) = n u / (1
- n u) of the sum of their magnitudes. Functions with steps (rounding, comparisons, casts) may be a step off where the
bound reaches across it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from numpy.typing import NDArray

from clgraph.frontend.onnx_loader import load_onnx
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import DataDependent, Primitive
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import COMPARISONS, Eltwise
from clgraph.ops.matmul import MatMul
from clgraph.ops.pad import Pad
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.resize import Resize
from clgraph.ops.softmax import Softmax
from clgraph.passes.constants.constant_programs import logical
from clgraph.passes.reference import compute
from tests.support.winograd import ROUNDINGS
from tests.support.winograd import winograd as by_winograd

Array = NDArray[Any]
Bounds = Sequence[Array]
Rule = Callable[[Node, Sequence[Array], Bounds, Sequence[Array]], "Array | list[Array] | None"]

U32 = 2.0**-24
TINY = 1e-37
"""Below this, results may be flushed or denormal."""
VANISHING = 104.0
"""Below minus this, exponentials of float32 are 0."""
FOLDED = 8
"""Roundings that folding scales, normalizations and zero points into a node's constants may add."""
FUNCTION_ULPS = 16
"""Roundings of a function of one number: kernels promise 4 ulps, some others' approximations take a few more."""

SLOPES = {"abs": 1.0, "neg": 1.0, "sin": 1.0, "cos": 1.0, "hard_swish": 1.5, "swish": 1.1, "gelu": 1.13, "mish": 1.09}
SLOPES |= {"gelu_tanh": 1.13}
"""The steepest slope of functions that are not monotone, for the parameters that ONNX's defaults give."""
PRODUCTS = ("hard_swish", "swish", "gelu", "gelu_tanh", "mish")
"""Functions that are x times another, whose error of a few ulps of 1 is as many of x."""
MOVES = (
    "concat expand flatten gather gather_elements gather_nd identity pad repeat reshape shuffle slice split squeeze "
    "transpose triangle unsqueeze"
)
"""Primitives that give elements of their first input, a concat of all, rounded nowhere."""
STEPS = "dequantize quantize reorder cast_like"
"""Monotone functions of the first input with parameters: quantization and casts."""


def bounds(program: Program, feeds: Mapping[str, Array], *, winograd: bool = True) -> dict[str, Array | None]:
    """Return for each output how far each of its elements may be from the exact value; ``None`` where no rule says.

    Args:
        program: As it was built (:func:`unfolded`), before any pass.
        feeds: Logical arrays by input name.
        winograd: Whether 3x3 convolutions may run by Winograd's algorithm and 1x1 ones by Strassen's, for some bits.
    """
    rules = RULES if winograd else RULES | {"convolution": _linear(_products)}
    exact: dict[Value, Array] = {v: _wide(feeds[v.name]) for v in program.inputs}
    found: dict[Value, Array | None] = {v: np.zeros(v.layout.shape) for v in program.inputs}
    with np.errstate(all="ignore"):
        for node in program:
            for value in node.inputs:
                if value.constant is not None and value not in exact:
                    exact[value], found[value] = _wide(logical(value)), np.zeros(value.layout.shape)
            inputs = [exact[v] for v in node.inputs]
            results = compute(node, inputs, exact=True)
            exact.update(zip(node.outputs, results, strict=True))
            made = _of_node(rules, node, inputs, [found[v] for v in node.inputs], results)
            found.update(zip(node.outputs, made, strict=True))
    return {
        name: np.zeros(value.layout.shape) if value.constant is not None else found[value]
        for name, value in program.outputs
    }


def assert_both_round(
    source: onnx.ModelProto, feeds: Mapping[str, Array], got: Mapping[str, Array], want: Mapping[str, Array]
) -> None:
    """Assert that *got* and *want* are both float32 results of a model: no further apart than twice the bounds.

    Args:
        got, want: By name; any of the model's outputs. Elements of *want* that are no numbers are not compared.
    """
    topology = load_onnx(source)
    allowed = bounds(unfolded(topology, {name: array.shape for name, array in feeds.items()}), feeds)
    for name, array in got.items():
        limit, wanted = allowed[name], want[name]
        assert limit is not None, f"no rule says how {name!r} rounds"
        assert array.shape == wanted.shape, f"{name!r} is {array.shape}, not {wanted.shape}"
        off = np.abs(array.astype(np.float64) - wanted)
        assert (off <= 2 * limit)[np.isfinite(wanted)].all(), f"{name!r}: {np.nanmax(off / limit)} of one's bound"


def unfolded(topology: Topology, shapes: Mapping[str, Sequence[int]] | None = None) -> Program:
    """Return the program of *topology* with everything of floats left to be computed: what is folded is rounded.

    Raises:
        UnsupportedError: A loop over floats is not unrolled, nor a branch taken that depends on them.
    """
    with ExitStack() as stack:
        for kind in (Primitive, DataDependent):
            stack.enter_context(patch.object(kind, "evaluate", _of_integers(kind.evaluate)))
        return topology.build(shapes)


def _of_integers(evaluate: Any) -> Any:
    def evaluated(self: Primitive, inputs: Any, values: Any) -> tuple[Array, ...] | None:
        found = evaluate(self, inputs, values)
        return None if found and inputs and any(a.dtype.kind == "f" for a in found) else found

    return evaluated


def _of_node(
    rules: Mapping[str, Rule],
    node: Node,
    inputs: Sequence[Array],
    errors: Sequence[Array | None],
    results: Sequence[Array],
) -> list[Array | None]:
    given = [e for e in errors if e is not None]
    if len(given) < len(errors):
        return [None] * len(results)
    floating = any(a.dtype.kind == "f" for a in (*inputs, *results))
    interpolated = isinstance(node.primitive, Resize) and node.primitive.mode != "nearest"
    if not inputs or (not floating and not interpolated and not any(e.any() for e in given)):
        return [np.zeros(r.shape) for r in results]
    rule = rules.get(node.primitive.kind)
    made = None if rule is None else rule(node, inputs, given, results)
    if made is None:
        return [None] * len(results)
    return [np.nan_to_num(e, nan=np.inf) + TINY * (e != 0) for e in (made if isinstance(made, list) else [made])]


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _gamma(count: float) -> float:
    return count * U32 / (1 - count * U32)


def _primitive(node: Node, kind: type[Primitive]) -> Any:
    assert isinstance(node.primitive, kind)
    return node.primitive


def _unit(result: Array) -> float:
    """Return what storing *result* adds, relative to it: nothing to integers."""
    return U32 if result.dtype.kind == "f" else 0.0


def _moved(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> list[Array] | None:
    p = node.primitive
    count = len(inputs) if isinstance(p, Concat) else 1
    if any(e.any() for e in errors[count:]):
        return None
    zeros = replace(p, value=0.0) if isinstance(p, Pad) else p
    parts = [*errors[:count], *inputs[count:]]
    return [np.abs(np.asarray(r, np.float64)) for r in zeros.reference(*parts)]


def _linear(terms: Callable[[Node, Sequence[Array], Sequence[Array]], float]) -> Rule:
    """Return the rule of sums of products, *terms* of them in each element: linear in every floating-point input."""

    def rule(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
        sizes = [np.abs(a) for a in inputs]
        (largest,) = node.reference(*(s + e for s, e in zip(sizes, errors, strict=True)))
        (size,) = node.reference(*sizes)
        return (largest - size) + _gamma(terms(node, inputs, results) + FOLDED) * largest

    return rule


def _products(node: Node, inputs: Sequence[Array], results: Sequence[Array]) -> float:
    """Return how many products a convolution or a matrix product sums, and a bias."""
    if isinstance(node.primitive, Convolution):
        return math.prod(inputs[1].shape[1:]) + 1
    return float(_primitive(node, MatMul).sizes(inputs[0].shape, inputs[1].shape)[2] + 1)


def _convolution(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
    found = _linear(_products)(node, inputs, errors, results)
    p = _primitive(node, Convolution)
    x, w = inputs[:2]
    if w.shape[2:] == (1, 1) and p.groups == 1 and not any(map(any, p.pads)) and w.shape[1] % 32 == 0:
        return np.asarray(found + _by_strassen(p, np.abs(x) + errors[0], np.abs(w) + errors[1], results[0].shape))
    tiled = x.ndim == 4 and w.shape[2:] == (3, 3) and p.strides in ((1, 1), (2, 2)) and p.dilations == (1, 1)
    if not tiled or p.groups != 1:
        return np.asarray(found)
    # The bound in the kernels' header: so many roundings of the magnitudes of all products, doubled for what is of
    # second order, and FOLDED.
    stride = p.strides[0]
    size = by_winograd(np.abs(x) + errors[0], np.abs(w) + errors[1], p.pads, magnitude=True, stride=stride)
    return np.asarray(found + _gamma(2 * (w.shape[1] + ROUNDINGS[stride]) + FOLDED) * size)


def _by_strassen(p: Convolution, x: Array, w: Array, shape: tuple[int, ...]) -> Array | float:
    """Return what seven products for eight may add to the error of a 1x1 convolution of magnitudes *x* and *w*.

    Sums of inputs are at most those of two rows and both halves of the channels, and the seven products take 8 times
    the largest weight of each channel of a half. Roundings are those of the kernel's header, doubled for what is of
    second order.
    """
    if len(shape) != 4 or shape[2] % 2:
        return 0.0
    read, half = x[:, :, :: p.strides[0], :: p.strides[1]], w.shape[1] // 2
    rows = read[:, :, ::2] + read[:, :, 1::2]
    largest = np.maximum(w[:, :half], w[:, half:]).max(0)[:, 0, 0]
    size = 8 * np.einsum("nchw,c->nhw", rows[:, :half] + rows[:, half:], largest)
    return np.asarray(_gamma(2 * (1.5 * w.shape[1] + 7) + FOLDED) * np.repeat(size, 2, axis=1)[:, None])


def _activation(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
    p, (x,), (e,), (y,) = _primitive(node, Activation), inputs, errors, results
    own = FUNCTION_ULPS * _unit(y) * (np.abs(y) + (np.abs(x) if p.function in PRODUCTS else 0))
    if p.function in ("sigmoid", "tanh", "erf", "softplus", "elu", "celu", "selu", "hard_sigmoid"):
        own = own + FUNCTION_ULPS * U32 * max(1.0, abs(p.alpha), abs(p.alpha * p.beta))  # of what is near 1
    if p.function in ("relu", "clip", "abs", "neg"):
        own = 0.0 * own
    if p.function == "linear":
        return np.asarray(np.abs(p.alpha) * e + 2 * U32 * (np.abs(p.alpha * x) + abs(p.beta)))
    if p.function == "square":
        return np.asarray(2 * np.abs(x) * e + e * e + own)
    if p.function in SLOPES:
        return np.asarray(SLOPES[p.function] * max(1.0, abs(p.alpha)) * e + own)
    if p.function == "reciprocal":
        return np.where(np.abs(x) > e, np.abs(y) * e / (np.abs(x) - e), np.inf) + own
    return _ends(node, x, e, y) + own


def _ends(node: Node, x: Array, e: Array, y: Array, *rest: Array) -> Array:
    """Return how far a monotone function moves over what its first input may be; of what is not a number, anywhere."""
    ends = [np.asarray(node.reference(x + s * e, *rest)[0], np.float64) for s in (-1, 1)]
    moved = [np.abs(end - y.astype(np.float64)) for end in ends]
    return np.asarray(np.where(np.isnan(x), np.inf, np.maximum(*moved)))


def _stepped(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    """Quantization and casts; the parameters are taken as they are, and must be exact."""
    if any(e.any() for e in errors[1:]):
        return None
    (x, *rest), (y,) = inputs, results
    if x.dtype.kind != "f" and not errors[0].any():
        return np.asarray(4 * _unit(y) * np.abs(y.astype(np.float64)))
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    reach = errors[0] + 4 * U32 * np.abs(x)
    if y.dtype.kind != "f":  # what is out of an integer's range is anybody's
        limits = np.iinfo(y.dtype) if y.dtype.kind in "iu" else None
        if limits is not None and node.primitive.kind != "quantize" and (np.abs(x) >= float(limits.max)).any():
            return None
    half = 2.0**-10 if getattr(node.primitive, "dtype", None) is not None and str(node.primitive.dtype) == "f16" else 0
    return _ends(node, x, reach, y, *rest) + (4 * _unit(y) + half) * np.abs(y.astype(np.float64))


def _eltwise(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    function, (a, b), (y,) = _primitive(node, Eltwise).function, inputs, results
    p, q = errors
    own = 2 * _unit(y) * np.abs(y.astype(np.float64))
    if function in COMPARISONS:
        return np.asarray((np.abs(a.astype(np.float64) - b) <= p + q) & ((p + q) > 0), np.float64)
    if function in ("add", "sub"):
        return np.asarray(p + q + own)
    if function == "mul":
        return np.asarray(np.abs(a) * q + np.abs(b) * p + p * q + own)
    if function == "prelu":
        return np.asarray(np.maximum(p, np.abs(a) * q + np.abs(b) * p + p * q) + own)
    if function in ("min", "max", "and", "or", "xor"):
        return np.asarray(np.maximum(p, q))
    if function == "div" and y.dtype.kind == "f":
        return np.where(np.abs(b) > q, (p + np.abs(y) * q) / (np.abs(b) - q), np.inf) + 4 * own
    return None


def _where(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
    """Return the bound of what is taken; where the condition may be another, what is between the two as well."""
    (condition, a, b), (unsure, p, q) = inputs, errors
    other = np.abs(a.astype(np.float64) - b.astype(np.float64)) + p + q
    return np.asarray(np.where(condition, p, q) + np.where(unsure > 0, other, 0))


def _reduce(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    p, x, e, (y,) = _primitive(node, Reduce), inputs[0], errors[0], results
    count = x.size // max(1, y.size)
    if p.function in ("sum", "mean"):
        return _linear(lambda *_: count)(node, inputs[:1], errors[:1], results)
    if p.function in ("max", "min"):
        largest = type(p)("max", p.axes, p.keepdims, p.spatial, p.no_axes_is_none)
        return np.abs(largest.reference(e)[0]) if x.size else np.zeros(y.shape)
    return None


def _softmax(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
    p, (x,), (e,), (y,) = _primitive(node, Softmax), inputs, errors, results
    count = math.prod(x.shape[a] for a in p.axes)
    # What is certainly so far below the largest that its exponential is 0 rounds nothing, whatever hides it.
    least = (x - e).max(axis=p.axes, keepdims=True, initial=-np.inf) - VANISHING
    seen = x + e >= least
    worst = np.where(seen, e, 0).max(axis=p.axes, keepdims=True, initial=0)
    span = np.where(seen, np.abs(x), 0).max(axis=p.axes, keepdims=True, initial=0)
    # Each exponent is off by the error of x and the rounding of x - max; each sum by gamma(count).
    off = np.expm1(2 * (worst + 4 * U32 * span)) + _gamma(count + 2 * FUNCTION_ULPS)
    return np.asarray(off + 4 * U32 * np.abs(y) if p.log else off * np.abs(y) + TINY)


def _pooling(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array:
    p = _primitive(node, Pooling)
    if p.function == "max":
        return np.abs(node.reference(errors[0])[0])
    return np.asarray(_linear(lambda *_: math.prod(p.kernel))(node, inputs, errors, results))


def _batch_normalization(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    if any(e.any() for e in errors[1:]):
        return None
    x, scale, bias, mean, variance = (a if i == 0 else _per_channel(a, inputs[0].ndim) for i, a in enumerate(inputs))
    factor = np.abs(scale) / np.sqrt(variance + getattr(node.primitive, "epsilon", 0.0))
    sizes = (np.abs(x) + errors[0] + np.abs(mean)) * factor + np.abs(bias)
    return np.asarray(errors[0] * factor + _gamma(2 * FOLDED) * sizes)


def _per_channel(a: Array, rank: int) -> Array:
    return a.reshape(1, -1, *(1,) * (rank - 2))


def _layer_normalization(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    p: Any = node.primitive
    if p.channels or any(e.any() for e in errors[1:]):
        return None
    x, e = inputs[0], errors[0]
    axes = tuple(range(p.axis % x.ndim, x.ndim))
    count = math.prod(x.shape[a] for a in axes)
    centred = x - x.mean(axes, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axes, keepdims=True) + p.epsilon)
    # What x, the mean and the centred values are off by; the deviation by no more than their root mean square.
    off = 2 * (e.max(axes, keepdims=True) + _gamma(count + FOLDED) * np.abs(x).max(axes, keepdims=True))
    relative = np.where(off < deviation, off / np.maximum(deviation - off, TINY), np.inf) + _gamma(count + 2 * FOLDED)
    scale = np.abs(inputs[1]) if len(inputs) > 1 else 1.0
    return np.asarray((1 + np.abs(centred) / deviation) * relative * scale + 4 * U32 * np.abs(results[0]))


def _resize(node: Node, inputs: Sequence[Array], errors: Bounds, results: Sequence[Array]) -> Array | None:
    """Interpolated integers are sums of floats that are cut off: what is beside a whole number may be a step lower.

    The bound is half a step, because each of two results may be as far from the other's. Weights add up to at most 1.5
    along an axis (a cubic's).
    """
    p, (x,) = _primitive(node, Resize), inputs
    if x.dtype.kind == "f" or errors[0].any():
        return None
    (exact,) = p.reference(x.astype(np.float64))
    terms = sum(p.taps(axis, size).places.shape[1] for axis, size in enumerate(x.shape))
    off = _gamma(terms + FOLDED) * 1.5**x.ndim * np.abs(x.astype(np.float64)).max(initial=0)
    return np.where(np.abs(exact - np.rint(exact)) <= off, 0.5, 0.0)


RULES: dict[str, Rule] = {
    "activation": _activation,
    "batch_normalization": _batch_normalization,
    "conv_transpose": _linear(lambda node, inputs, results: inputs[1].size + 1),
    "convolution": _convolution,
    "cumulative_sum": _linear(lambda node, inputs, results: max(inputs[0].shape, default=1)),
    "eltwise": _eltwise,
    "layer_normalization": _layer_normalization,
    "matmul": _linear(_products),
    "pooling": _pooling,
    "reduce": _reduce,
    "resize": _resize,
    "softmax": _softmax,
    "where": _where,
}
"""What a primitive makes of the bounds of its inputs, by its kind."""
RULES |= dict.fromkeys(MOVES.split(), _moved) | dict.fromkeys(STEPS.split(), _stepped)
