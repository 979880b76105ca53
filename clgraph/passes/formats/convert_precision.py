"""Store in half precision what the model computes in single. OpenVINO's ConvertPrecision; clDNN has no such pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.graph.node import Node, Value
from clgraph.graph.primitive import Array, Primitive
from clgraph.graph.program import Milestone, Program
from clgraph.ops.matmul import MatMul
from clgraph.ops.reorder import Reorder
from clgraph.passes.base import Context, Pass
from clgraph.passes.kept import check_kept
from clgraph.passes.selection import unserved
from clgraph.selector.query import Query
from clgraph.settings import PRODUCT_PRECISIONS

_DELICATE: Mapping[str, frozenset[str]] = {
    "activation": frozenset({"exp", "log", "sqrt", "reciprocal", "square", "softplus"}),
    "eltwise": frozenset({"pow", "div", "rdiv", "mod", "fmod"}),
    "reduce": frozenset({"sum", "prod", "l1", "l2", "sum_square", "log_sum", "log_sum_exp"}),
    "cumulative_sum": frozenset({""}),
}
"""Functions by kind of primitive whose results or arguments easily leave what half precision holds."""
_NAMED_TYPES = frozenset({"reorder", "fill", "quantized_convolution", "quantized_matmul", "quantized_conv_transpose"})
"""Kinds of primitives that name the type of their results, as ``dtype``."""
_SPELLED = {DType.F16: "float16", DType.BF16: "bfloat16"}
_MATRIX = 1
"""The slot of a product's matrix."""


class ConvertPrecision(Pass):
    """Let operators read and write float16 where the options say so; kernels still add up in float32.

    Precision ``f32`` changes nothing, nor do ``tf32x3`` and ``f16x3``, which are about kernels. ``f16`` turns every
    float32 value between operators, and the constants, into float16, but for nodes on CPUs, whose tiles compute in
    float32: there it does so with the constant matrices of products, which are as fast to read or faster. ``bf16`` is
    about those alone, in bfloat16. ``auto``
    does so for nodes placed on a GPU, but for functions whose results easily leave the range of float16. Inputs and
    outputs of the graph keep their types. In any case float32 stay the nodes that ``keep_f32`` names, those with a
    constant that float16 cannot hold, those whose result becomes integers, those that read and make nothing but results
    of the graph, and those that nothing serves in float16; a note lists them. Between the two stand reorders: halves
    cross between devices where either side has them. Counts the nodes turned.
    """

    name: ClassVar[str] = "convert_precision"
    rounds: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        auto, narrow = context.precision == "auto", DType.BF16 if context.precision == "bf16" else DType.F16
        if context.precision in ("f32", *PRODUCT_PRECISIONS) or (
            auto and not any(d.kind == "gpu" for d in context.devices.values())
        ):
            return 0
        check_kept(program, context)
        wide = {v for v in program.values if v.layout.dtype == DType.F32}
        results = [(name, v) for name, v in program.outputs if v in wide and v.producer is not None]
        leaving = {v for _, v in results}
        cast = _Casts(program, context)
        turned, narrowed, elsewhere, kept = 0, 0, 0, list[str]()
        for node in program:
            if not any(v in wide for v in (*node.inputs, *node.outputs)):
                continue
            kind = context.device(node).kind
            wants = kind == "gpu" if auto else kind != "cpu" and narrow == DType.F16
            reason = _why_kept(context, node, wide, leaving) if wants else None
            elsewhere += auto and not wants
            if reason is not None:
                kept.append(f"{node.name}: {reason}")
            target = DType.F16 if wants and reason is None else DType.F32
            for slot, value in enumerate(node.inputs):
                if value in wide and value.layout.dtype != target and slot not in _exact(node):
                    program.rewire(value, cast.of(value, target, node), uses=((node, slot),))
            if kind == "cpu" and not auto and _reads(context, node, narrow):
                matrix = node.inputs[_MATRIX]
                program.rewire(matrix, cast.of(matrix, narrow, node), uses=((node, _MATRIX),))
                narrowed += 1
            if target == DType.F16:
                turned += 1
                node.primitive = _turned(node.primitive)
                layouts = node.primitive.infer([v.layout for v in node.inputs])
                for value, layout in zip(node.outputs, layouts, strict=True):
                    value.layout = layout
        for name, value in results:
            if value.layout.dtype != DType.F32 and value.producer is not None:
                made = cast.of(value, DType.F32, value.producer)
                program.outputs = [(n, made if n == name else v) for n, v in program.outputs]
        stay = f"; {len(kept)} stay float32:\n" + "\n".join(kept) if kept else ""
        others = f"; {elsewhere} on other devices than GPUs store float32" if elsewhere else ""
        products = f"; {narrowed} products on CPUs read matrices of {_SPELLED[narrow]}" if narrowed else ""
        if narrowed and narrow == DType.BF16 and not any("bf16" in d.features for d in context.devices.values()):
            products += ", which become float32 as they are read: no device here multiplies bfloat16"
        program.notes[self.name] = f"{turned} nodes store float16{products}{others}{stay}"
        return turned + narrowed


class _Casts:
    """Conversions of values to another type, one a device: narrowed on the producer's, widened on the reader's."""

    def __init__(self, program: Program, context: Context) -> None:
        self._program, self._packed = program, context.packed
        self._made: dict[tuple[Value, DType, str | None], Value] = {}

    def of(self, value: Value, dtype: DType, reader: Node) -> Value:
        beside = reader if value.producer is None or dtype == DType.F32 else value.producer
        key = (value, dtype, None if value.constant is not None else beside.placement)
        if key not in self._made:
            if value.constant is not None:
                array = value.constant
                rounded = self._packed.once(("rounded", dtype), [array], lambda: _rounded(array, dtype))
                made = self._program.conversion(value, rounded)
            else:
                source = value.producer if value.producer and value.producer.placement == beside.placement else beside
                made = self._program.insert(Reorder(dtype), [value], sources=[source]).output
            self._made[key] = made
        return self._made[key]


def _reads(context: Context, node: Node, dtype: DType) -> bool:
    """Whether *node* is a product that may read its constant matrix in *dtype*, and a kernel is there for that."""
    if not isinstance(node.primitive, MatMul) or context.kept_by(node) is not None:
        return False
    matrix = node.inputs[_MATRIX]
    if matrix.constant is None or matrix.layout.dtype != DType.F32 or not fits(matrix.constant, dtype):
        return False
    q = context.query(node)
    inputs = tuple(replace(x, dtype=dtype) if slot == _MATRIX else x for slot, x in enumerate(q.inputs))
    return unserved(context, node, q.with_layouts(inputs, q.outputs)) is None


def _floating(node: Node) -> bool:
    return node.output.layout.dtype.floating


def _why_kept(context: Context, node: Node, wide: set[Value], leaving: set[Value]) -> str | None:
    if (pattern := context.kept_by(node)) is not None:
        return f"{pattern} is kept"
    function = getattr(node.primitive, "function", "")
    if context.precision == "auto" and function in _DELICATE.get(node.primitive.kind, ()):
        return f"{function or node.primitive.kind} easily leaves the range of float16"
    if any(isinstance(n.primitive, Reorder) and not _floating(n) for v in node.outputs for n in v.readers):
        return "its result becomes an integer"
    turned = [v in wide and slot not in _exact(node) for slot, v in enumerate(node.inputs)]
    read = [v for v, narrow in zip(node.inputs, turned, strict=True) if narrow]
    if len(read) == 1 and read[0] in leaving and all(v in leaving and not v.uses for v in node.outputs):
        return "what it reads and makes are results in float32"
    for value, narrow in zip(node.inputs, turned, strict=True):
        if narrow and value.constant is not None and not fits(value.constant):
            return f"float16 does not hold {value.name}"
    primitive = _turned(node.primitive)
    inputs = [_narrow(v.layout) if narrow else v.layout for v, narrow in zip(node.inputs, turned, strict=True)]
    outputs = primitive.infer(inputs)
    constant = frozenset(i for i, v in enumerate(node.inputs) if v.constant is not None)
    query = Query(primitive, tuple(inputs), outputs, context.device(node), node.arity, node.fused, constant)
    reason = unserved(context, node, query)
    return None if reason is None else f"no kernel serves it in float16: {reason}"


def _exact(node: Node) -> frozenset[int]:
    """Return the inputs that keep their type: parameters that must be exact, and memory that a run updates."""
    return node.primitive.exact_inputs | node.updates


def fits(constant: Array, dtype: DType = DType.F16) -> bool:
    """Whether *dtype* holds *constant*: no number becomes infinite, and a single one not zero."""
    rounded = _rounded(constant, dtype)
    lost = constant.size == 1 and bool((rounded == 0).any()) and bool((constant != 0).any())
    return not lost and bool((np.isfinite(rounded) | ~np.isfinite(constant)).all())


def _rounded(constant: Array, dtype: DType) -> Array:
    with np.errstate(over="ignore"):
        return constant.astype(dtype.numpy)


def _narrow(layout: Layout) -> Layout:
    return replace(layout, dtype=DType.F16)


def _turned(primitive: Primitive) -> Primitive:
    """Return the primitive for results in float16: changed if its result type is an attribute, else as it is."""
    if primitive.kind in _NAMED_TYPES and getattr(primitive, "dtype", None) == DType.F32:
        return cast(Primitive, replace(cast(Any, primitive), dtype=DType.F16))
    return primitive
