"""What gates what in newer decoders: GatedRMSNorm, GatedAdd, LinearAttentionGate, ScaledSiLU and SwiGLU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.errors import ShapeError
from clgraph.graph.composite import Composite, Composition
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import primitive
from clgraph.ops.activation import Activation
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.layer_normalization import LayerNormalization
from clgraph.ops.moment_normalization import in_float32, in_type_of
from clgraph.ops.reshape import Reshape
from clgraph.ops.split import Split

_GATES = {
    "silu": Activation("swish", 1.0),
    "swish": Activation("swish", 1.0),
    "sigmoid": Activation("sigmoid"),
}


@primitive
@frozen
class GatedNormalization(Composite):
    """RMSNormalization of each group of C features of x ``[..., H * C]`` by scale ``[C]``, times an activated gate.

    Inputs: x, scale, gate like x. What is computed in between is float32.

    Attributes:
        gate: The activation: silu, swish or sigmoid.
    """

    gate: str = "silu"
    epsilon: float = 1e-5

    kind: ClassVar[str] = "gated_normalization"

    def compose(self, c: Composition) -> Sequence[str]:
        x, scale, gate = c.inputs
        shape, size = c.layout(x).shape, c.layout(scale).count
        if not shape or not size or shape[-1] % size or c.layout(gate).shape != shape:
            raise ShapeError(f"{list(shape)} has no groups of {size} features for a gate {list(c.layout(gate).shape)}")
        exact, factors = (in_float32(c, name) for name in (x, scale))
        groups = c.add(Reshape((*shape[:-1], shape[-1] // size, size), zero_is_zero=True), exact)
        y = c.add(LayerNormalization(-1, self.epsilon, centred=False), groups, factors)
        y = c.add(Reshape(shape, zero_is_zero=True), y)
        opened = c.add(_GATES[self.gate], in_float32(c, gate))
        return (in_type_of(c, c.add(Eltwise("mul"), y, opened), x),)


@primitive
@frozen
class SwiGLU(Composite):
    """``G * sigmoid(alpha * G) * (value + beta)``, gate G and value clamped to *limit*, the gate from above alone."""

    alpha: float = 1.0
    beta: float = 0.0
    limit: float | None = None

    kind: ClassVar[str] = "swiglu"
    holds_sizes: ClassVar[bool] = False

    def compose(self, c: Composition) -> Sequence[str]:
        gate, value = c.inputs
        if self.limit is not None:
            gate = c.add(Activation("clip", float("-inf"), self.limit), gate)
            value = c.add(Activation("clip", -self.limit, self.limit), value)
        if self.beta:
            value = c.add(Activation("linear", 1.0, self.beta), value)
        return (c.add(Eltwise("mul"), c.add(Activation("swish", self.alpha), gate), value),)


@onnx("GatedRMSNorm", since=(1,), domain=MICROSOFT)
def import_gated_rms_norm(node: OnnxNode) -> GatedNormalization:
    gate = node.attribute("activation", "silu")
    if gate not in _GATES:
        raise node.unsupported(f"activation is one of {', '.join(_GATES)}, not {gate!r}")
    return GatedNormalization(gate, node.attribute("epsilon", 1e-5))


@onnx("GatedAdd", since=(1,), domain=MICROSOFT)
def import_gated_add(node: OnnxNode) -> Sequence[str]:
    """Return ``x + y * gate``."""
    if len(node.inputs) > 3:
        raise node.unsupported(
            "gate_weight, a projection of the gate, is not supported: ONNX Runtime's CPU has none, too"
        )
    x, y, gate = node.inputs
    return node.emit(Eltwise("add"), x, *node.emit(Eltwise("mul"), y, gate))


@onnx("LinearAttentionGate", since=(1,), domain=MICROSOFT)
def import_linear_attention_gate(node: OnnxNode) -> Sequence[str]:
    """Return ``decay_scale * softplus(a + dt_bias)``, and ``sigmoid(b)``."""
    a, bias, scale, *b = node.inputs
    decay = node.emit(Activation("softplus"), *node.emit(Eltwise("add"), a, bias))
    made = node.emit(Eltwise("mul"), *decay, scale)
    return (*made, *(node.emit(Activation("sigmoid"), *b) if b else ()))


@onnx("ScaledSiLU", since=(1,), domain=MICROSOFT)
def import_scaled_silu(node: OnnxNode) -> Sequence[str]:
    x, *scale = node.inputs
    if scale:
        (x,) = node.emit(Eltwise("mul"), x, *scale)
    elif (alpha := node.attribute("alpha", 1.0)) != 1:
        (x,) = node.emit(Activation("linear", alpha), x)
    return node.emit(Activation("swish", 1.0), x)


@onnx("SwiGLU", since=(1,), domain=MICROSOFT)
def import_swiglu(node: OnnxNode) -> Sequence[str]:
    """Return the gated value; where there is none, the gate's second half is it."""
    gate, *value = node.inputs if len(node.inputs) > 1 else node.emit(Split(-1, parts=2), *node.inputs, outputs=2)
    limit = node.attribute("limit", 0.0)
    gated = SwiGLU(
        node.attribute("activation_alpha", 1.0), node.attribute("activation_beta", 0.0), limit if limit > 0 else None
    )
    return node.emit(gated, gate, *value)
