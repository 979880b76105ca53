"""Rewrite operators to the few spellings that later passes have rules for. clDNN does this outside its compiler."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Shape
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.ops.activation import Activation
from clgraph.ops.batch_normalization import BatchNormalization
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.rewriting import bypass
from clgraph.selector.post import keeps_its_bits

_NEUTRAL = {"add": 0.0, "sub": 0.0, "mul": 1.0, "div": 1.0, "pow": 1.0}
_COMMUTE = {"add", "mul", "min", "max"}

_RULES: Mapping[str, Sequence[str]] = {
    "shuffle": ("pixel_shuffle.spread_shuffle",),
    "conv_transpose": ("pixel_shuffle.spread_windows",),
    "matmul": ("flattened_product.spread_product",),
    "convolution": ("space_to_depth.take_pixels", "single_pixel.crop_windows"),
}
_OF_VOLUMES_ON_CPUS: Mapping[str, Sequence[str]] = {
    "convolution": ("depth_windows.spread_depth",),
    "conv_transpose": ("volume_upsampling.spread_upsampling",),
    "pooling": ("volume_pooling.spread_pooling",),
    "resize": ("volume_resizing.spread_resizing",),
}
_ON_CPUS: Mapping[str, Sequence[str]] = {
    "reduce": ("log_sum_exp.spread_log_sum_exp", "log_sum_exp.spread_log_sum", "integers_in_floats.reduce_in_doubles"),
    "matmul": ("dot_product.spread_dots", "broadcast_product.join_batches"),
    "conv_transpose": ("grouped_upsampling.spread_groups", "overlapping_windows.spread_overlaps"),
    "resize": ("integers_in_floats.resize_in_floats",),
    "top_k": ("best_element.spread_best",),
}
"""Modules beside this one with their rules, by the kinds of operators that they rewrite; each says whether it has."""


@functools.cache
def _rules(kind: str, on_cpus: bool, volumes: bool) -> tuple[Callable[[Program, Node], bool], ...]:
    """Return the rules for operators of a *kind*, imported now: a model has operators of few."""
    tables = (_RULES, *[_OF_VOLUMES_ON_CPUS] * (on_cpus and volumes), *[_ON_CPUS] * on_cpus)
    names = [name.split(".") for table in tables for name in table.get(kind, ())]
    return tuple(getattr(importlib.import_module(f"{__package__}.{module}"), rule) for module, rule in names)


class Decompose(Pass):
    """Spell operators with fewer kinds of them, and remove what changes nothing, by these rules, until none applies.

    * A batch normalisation with constant statistics is one multiplication and one addition of constants ``[C, 1, …]``,
      computed in float64 and rounded once. With statistics computed at run time it stays.
    * What returns its input is removed: ``x + 0``, ``x * 1``, ``linear(1, 0)``, a conversion to the same type.
    * The constant of a commutative operator is its second input; so is the one that is broadcast.
    * A function of one tensor and one scalar constant is an activation: ``max(x, 0)`` is relu, ``x * c + d`` linear.
      A division stays one unless the divisor is a power of two, because the reciprocal would round again. A cube is a
      product of the square, as in ONNX Runtime, a square of integers a product.
    * Channels become pixels by a transpose between reshapes (``pixel_shuffle``).
    * A transposed convolution with few outputs whose windows do not overlap is a convolution, and such a transpose.
    * On CPUs a transposed convolution with few outputs whose windows overlap is a convolution, and a transpose
      (``overlapping_windows``).
    * Slices that hold every pixel, joined for a convolution (the Focus layer of detectors), are a space to depth, which
      goes into windows of one element (``space_to_depth``).
    * Windows over a single pixel lose the weights that only pads meet (``single_pixel``).
    * On CPUs a convolution, transposed convolution, pooling or interpolation of volumes is one of their slices
      (``depth_windows``, ``volume_upsampling``, ``volume_pooling``, ``volume_resizing``).
    * On CPUs a transposed convolution with groups is a convolution for each phase, and a transpose
      (``grouped_upsampling``).
    * On CPUs a logarithm of a sum, of exponentials too, is its steps (``log_sum_exp``).
    * On CPUs the single best element is the index of an extremum, and the element there (``best_element``).
    * On CPUs a root or a logarithm of a sum of integers, and their interpolation, is one of floats between conversions
      (``integers_in_floats``).
    * On CPUs a product of one long row and one column is a product of their elements and its sum (``dot_product``).
    * On CPUs a product of more batch axes than tiles walk is one of two (``broadcast_product``).
    * A product of a flattened tensor, unflattened behind it, is one of the tensor itself (``flattened_product``).
    """

    name: ClassVar[str] = "decompose"
    handles: ClassVar[Mapping[str, str]] = {
        "batch_normalization": "becomes a product and a sum of constants where its statistics are constant",
        "eltwise": "a scalar constant becomes an activation's parameter",
        "reduce": "the logarithm of a sum, of exponentials too, becomes its steps; of integers it is computed in "
        "float64, and so is a root; of exponentials of integers over the last axes it stays",
        "matmul": "of a tensor that is flattened for it: one of the tensor itself; of one row and one column: a sum; "
        "of many batch axes: one of two",
        "shuffle": "channels to pixels: a transpose between reshapes",
        "slice": "those that hold every pixel, joined for a convolution, become a space to depth",
        "convolution": "of one element, of pixels that became channels: one of the pixels; loses weights of pads "
        "alone; over three axes: one over two",
        "conv_transpose": "with few outputs, a convolution and a transpose; with groups, a "
        "convolution for each phase; over three axes: one over two",
        "pooling": "over three axes: over two, and over slices",
        "top_k": "of one element, the index of an extremum and the element there",
        "resize": "over three axes: over one, then two; integers are mixed in floats",
    }

    def run(self, program: Program, context: Context) -> int:
        changes, pending = 0, True
        on_cpus = context.on_cpus
        while pending:
            pending = False
            for node in program:
                if isinstance(node.primitive, BatchNormalization):
                    changes += _batch_normalization(program, node)
                elif any(rule(program, node) for rule in _rules_for(node, on_cpus)):
                    changes += 1
                    pending = True
                elif _returns_input(node):
                    changes += bypass(program, node)
                elif isinstance(node.primitive, Eltwise):
                    changes += _eltwise(program, node)
        return changes


def _rules_for(node: Node, on_cpus: bool) -> tuple[Callable[[Program, Node], bool], ...]:
    return _rules(node.primitive.kind, on_cpus, node.outputs[0].layout.rank == 5)


def scalar(value: Value) -> float | None:
    """Return the number that a floating-point constant of one element holds, for all sizes, or ``None``."""
    if value.constant is None or value.sized or value.layout.count != 1 or not value.layout.dtype.floating:
        return None
    return float(value.constant.reshape(-1)[0])


def _batch_normalization(program: Program, node: Node) -> bool:
    x, *rest = node.inputs
    statistics = [v.constant.astype(np.float64) for v in rest if v.constant is not None]
    if len(statistics) < 4 or not isinstance(node.primitive, BatchNormalization) or x.layout.rank < 2:
        return False
    factor, shift = node.primitive.affine(*statistics)
    shape = (-1, *(1 for _ in x.layout.shape[2:]))

    def constant(what: str, data: Array) -> Value:
        return program.constant(f"{node.name}/{what}", data.astype(x.layout.dtype.numpy).reshape(shape))

    inputs = [x, constant("scale", factor)]
    scaled = program.insert(Eltwise("mul"), inputs, sources=[node], name=f"{node.name}/mul", before=node)
    inputs = [scaled.output, constant("shift", shift)]
    shifted = program.insert(Eltwise("add"), inputs, sources=[node], name=f"{node.name}/add", before=node)
    program.rewire(node.output, shifted.output)
    program.erase(node)
    shifted.output.name = node.output.name
    return True


def _returns_input(node: Node) -> bool:
    p, x, y = node.primitive, node.inputs[0].layout if node.inputs else None, node.output.layout
    if node.fused or x is None or x.shape != y.shape or x.dtype != y.dtype or x.format != y.format:
        return False
    if isinstance(p, Activation):
        return p.function == "linear" and (p.alpha, p.beta) == (1.0, 0.0)
    if isinstance(p, Eltwise):
        return p.function in _NEUTRAL and _all_equal(node.inputs[1], _NEUTRAL[p.function])
    return isinstance(p, Reorder) and x.halo == y.halo


def _all_equal(value: Value, number: float) -> bool:
    return value.constant is not None and value.layout.count > 0 and bool(np.all(value.constant == number))


def _eltwise(program: Program, node: Node) -> bool:
    assert isinstance(node.primitive, Eltwise)
    function, (a, b) = node.primitive.function, node.inputs
    shape = node.output.layout.shape
    if function == "pow" and _is_cube(a, b, node.output):
        square = program.insert(Activation("square"), [a], sources=[node], name=f"{node.name}/square", before=node)
        return _put(program, node, Eltwise("mul"), [square.output, a])
    if function == "pow" and _is_square_of_integers(a, b, node.output):
        return _put(program, node, Eltwise("mul"), [a, a])
    smaller = b.constant is None and a.layout.shape != shape and b.layout.shape == shape
    if function in _COMMUTE and (smaller or (a.constant is not None and b.constant is None)):
        return _put(program, node, _activation(function, b, a, 1, shape) or node.primitive, [b, a])
    slot = 0 if a.constant is None else 1
    made = _activation(function, node.inputs[slot], node.inputs[1 - slot], slot, shape)
    return made is not None and _put(program, node, made, [node.inputs[slot]])


def _is_cube(a: Value, b: Value, y: Value) -> bool:
    """Whether a power is a cube that lists of post-operations serve; of doubles it is one step as it is."""
    return a.constant is None and scalar(b) == 3 and a.layout == y.layout and y.layout.dtype != DType.F64


def _is_square_of_integers(a: Value, b: Value, y: Value) -> bool:
    """Whether a power of integers is a product of two, which wraps around alike."""
    whole = not a.layout.dtype.floating and not b.layout.dtype.floating
    return whole and a.layout == y.layout and b.constant is not None and bool(np.all(b.constant == 2))


def _put(program: Program, node: Node, primitive: Activation | Eltwise, inputs: list[Value]) -> bool:
    own = inputs if isinstance(primitive, Eltwise) else inputs[:1]
    made = program.insert(primitive, own, sources=[node], before=node)
    program.rewire(node.output, made.output)
    program.erase(node)
    made.name, made.output.name = node.name, node.output.name
    return True


def _activation(function: str, x: Value, other: Value, slot: int, shape: Shape) -> Activation | None:
    """Return what *function* with a scalar constant is to the running value *x* at input *slot*."""
    c = scalar(other)
    if c is None or not x.layout.dtype.floating or x.layout.shape != shape or x.constant is not None:
        return None
    infinity = float("inf")
    if function in ("add", "sub") and np.isfinite(c):
        forward = slot == 0 or function == "add"
        return Activation("linear", 1.0 if forward else -1.0, -c if function == "sub" and slot == 0 else c)
    if function == "mul" and np.isfinite(c):
        return Activation("linear", c, 0.0)
    if function == "div" and slot == 0 and c and abs(np.frexp(c)[0]) == 0.5 and keeps_its_bits(1 / c):
        return Activation("linear", 1 / c, 0.0)
    if function == "max" and not np.isnan(c):
        return Activation("relu") if c == 0 else Activation("clip", c, infinity)
    if function == "min" and not np.isnan(c):
        return Activation("clip", -infinity, c)
    if function == "pow" and slot == 0:
        return {2.0: Activation("square"), 0.5: Activation("sqrt"), -1.0: Activation("reciprocal")}.get(c)
    return None
