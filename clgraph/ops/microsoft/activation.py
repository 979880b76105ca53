"""Activations with a bias in front: GELU and its approximations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.split import Split

_PLAIN = ("relu", "sigmoid", "tanh", "softplus", "softsign", "gelu")

_WITH_PARAMETERS: dict[str, tuple[Callable[..., Primitive], tuple[float, ...]]] = {
    "LeakyRelu": (lambda alpha: Activation("leaky_relu", alpha), (0.01,)),
    "Elu": (lambda alpha: Activation("elu", alpha), (1.0,)),
    "HardSigmoid": (lambda alpha, beta: Activation("hard_sigmoid", alpha, beta), (0.2, 0.5)),
    "HardSwish": (lambda alpha, beta: Activation("hard_swish", alpha, beta), (1 / 6, 0.5)),
    "ThresholdedRelu": (lambda alpha: Activation("thresholded_relu", alpha), (1.0,)),
    "QuickGelu": (lambda alpha: Activation("swish", alpha), (1.702,)),
    "Clip": (lambda low, high: Activation("clip", low, high), (float("-inf"), float("inf"))),
}
"""What makes an activation of its parameters, and their defaults."""


def emit_activation(node: OnnxNode, name: str, parameters: Sequence[float | None], x: str) -> tuple[str, ...]:
    """Emit the activation that ONNX calls *name*, ``""`` for none; missing *parameters* have their defaults.

    Raises:
        UnsupportedError: There is no such activation, or it has fewer parameters.
    """
    if not name:
        return (x,)
    if name == "Selu":
        alpha, gamma = _completed(node, name, parameters, (1.6732632, 1.0507010))
        return node.emit(Activation("linear", gamma), *node.emit(Activation("elu", alpha), x))
    if name.lower() in _PLAIN:
        return node.emit(Activation(name.lower()), x)
    if name not in _WITH_PARAMETERS:
        known = sorted([*(n.capitalize() for n in _PLAIN), *_WITH_PARAMETERS, "Selu"])
        raise node.unsupported(f"the activation {name!r} is not one of {', '.join(known)}")
    make, defaults = _WITH_PARAMETERS[name]
    return node.emit(make(*_completed(node, name, parameters, defaults)), x)


def _completed(
    node: OnnxNode, name: str, parameters: Sequence[float | None], defaults: tuple[float, ...]
) -> tuple[float, ...]:
    if any(p is not None for p in parameters[len(defaults) :]):
        raise node.unsupported(f"the activation {name} has {len(defaults)} parameters, not {len(parameters)}")
    given = (*parameters, *(None,) * len(defaults))
    return tuple(d if p is None else p for p, d in zip(given, defaults, strict=False))


@onnx("Gelu", since=(1,), domain=MICROSOFT)
def import_gelu(node: OnnxNode) -> Primitive:
    return Activation("gelu")


@onnx("QuickGelu", since=(1,), domain=MICROSOFT)
def import_quick_gelu(node: OnnxNode) -> Primitive:
    return Activation("swish", node.attribute("alpha", 1.702))


@onnx("FastGelu", since=(1,), domain=MICROSOFT)
@onnx("BiasGelu", since=(1,), domain=MICROSOFT)
def import_bias_gelu(node: OnnxNode) -> Sequence[str]:
    function = "gelu" if node.op_type == "BiasGelu" else "gelu_tanh"
    x = node.inputs[0] if len(node.inputs) < 2 else node.emit(Eltwise("add"), *node.inputs)[0]
    return node.emit(Activation(function), x)


@onnx("BiasAdd", since=(1,), domain=MICROSOFT)
def import_bias_add(node: OnnxNode) -> Sequence[str]:
    x, bias, skip = node.inputs
    return node.emit(Eltwise("add"), *node.emit(Eltwise("add"), x, bias), skip)


@onnx("BiasSplitGelu", since=(1,), domain=MICROSOFT)
def import_bias_split_gelu(node: OnnxNode) -> Sequence[str]:
    """Return the first half of x + bias along the last axis, by the GELU of the second."""
    (x,) = node.emit(Eltwise("add"), *node.inputs)
    value, gate = node.emit(Split(-1, parts=2), x, outputs=2)
    return node.emit(Eltwise("mul"), value, *node.emit(Activation("gelu"), gate))
