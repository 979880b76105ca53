"""Which operators keep the entries of a batch apart, and what they are on a part of the batch; by their kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from clgraph.core.layout import Shape
from clgraph.errors import ShapeError

Rule = Callable[[Any, Sequence[Shape], Shape, Sequence[bool]], bool]
"""Of a primitive, the shapes of its inputs and of its first result, uncut, and which of the inputs are cut."""

# Kinds rather than classes: a start loads no operators that the model does not have.
RULES: dict[str, Rule] = {}


def keeps_apart(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    """Whether entry i of the first axis of the results is known to depend on entries i of the *cut* inputs alone.

    Args:
        inputs, out: Shapes of the inputs and of the first result, before they are cut.
    """
    rule = RULES.get(primitive.kind)
    return rule is not None and rule(primitive, inputs, out, cut)


def of_slice(primitive: Any, slices: int) -> Any:
    """Return *primitive* as it is for one of so many slices of the batch; raises ``ShapeError`` where there is none."""
    if primitive.kind in ("reshape", "expand", "resize"):
        return replace(primitive, shape=divided(primitive.shape, slices))
    if primitive.kind == "slice":
        return replace(primitive, ends=divided(primitive.ends, slices))
    return primitive


def divided(shape: Shape, slices: int) -> Shape:
    """Return *shape* with so many times fewer entries; raises ``ShapeError`` where that is not a whole number."""
    if not shape or shape[0] % slices:
        raise ShapeError(f"{list(shape)} is not cut into {slices}")
    return (shape[0] // slices, *shape[1:])


def _of(*kinds: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


@_of("activation", "eltwise", "is_special", "reorder", "rotation", "trigonometry", "where")
def _broadcast(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(len(s) == len(out) if c else len(s) < len(out) or s[0] == 1 for s, c in zip(inputs, cut, strict=True))


@_of("batch_normalization", "conv_transpose", "convolution", "image_planes", "integer_convolution", "lrn", "pooling")
@_of("shuffle")
def _images(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return cut[0] and not any(cut[1:])


@_of("grid_sample", "nv12_to_rgb")
def _all_cut(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut)


@_of("concat", "gather_elements", "split")
def _all_cut_along(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut) and primitive.axis % len(inputs[0]) > 0


@_of("arg", "cumulative_product", "cumulative_sum", "top_k")
def _along(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return primitive.axis is not None and primitive.axis % len(inputs[0]) > 0 and not any(cut[1:])


@_of("resize")
def _resize(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return out[0] == inputs[0][0] and primitive.scales[0] == 1 and not any(cut[1:])


@_of("layer_normalization")
def _layer_normalization(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    whole = all(len(s) < len(out) or s[0] == 1 for s in inputs[1:])
    return cut[0] and not any(cut[1:]) and primitive.axis % len(out) > 0 and (primitive.channels or whole)


@_of("softmax")
def _softmax(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(axis % len(out) > 0 for axis in primitive.axes) and not primitive.flatten


@_of("reduce")
def _reduce(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return 0 not in primitive.reduced(len(inputs[0]))


@_of("slice")
def _slice(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return (primitive.starts[0], primitive.ends[0], primitive.steps[0]) == (0, inputs[0][0], 1)


@_of("pad")
def _pad(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return bool(primitive.pads[0] == (0, 0))


@_of("transpose")
def _transpose(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return bool(primitive.axes) and primitive.axes[0] == 0


@_of("reshape")
def _reshape(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(out) > 0


@_of("expand")
def _expand(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(inputs[0]) == len(out) and inputs[0][0] == out[0]


@_of("repeat")
def _repeat(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return bool(primitive.repeats) and primitive.repeats[0] == 1


@_of("inverse")
def _matrices(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(out) > 2


@_of("gather")
def _gather(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    axis = primitive.axis % len(inputs[0])
    return (cut == [True, False] and axis > 0) or (cut == [False, True] and axis == 0)


@_of("gather_nd")
def _gather_nd(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return all(cut) if primitive.batch else cut == [False, True] and len(inputs[1]) > 1


@_of("dequantize", "quantize")
def _quantize(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    if primitive.block:
        return all(cut) and primitive.axis > 0
    return cut[0] and not any(cut[1:]) and (prod(inputs[1]) == 1 or primitive.axis > 0)


@_of("matmul")
def _matmul(primitive: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    a, b, *bias = inputs
    if any(cut[2:]) or any(len(s) == len(out) and s[0] != 1 for s in bias):
        return False
    if cut[0] and cut[1]:
        return len(a) == len(b) > 2
    one, other, transposed = (a, b, primitive.transpose_a) if cut[0] else (b, a, True)
    alone = len(other) < 3 or len(other) < len(one) or other[0] == 1
    return len(one) == len(out) and alone and (len(one) > 2 or (len(one) == 2 and not transposed))


@_of("integer_matmul")
def _integer_matmul(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    a, b, a_zero, b_zero = inputs
    alone = prod(a_zero) == 1 and (len(b_zero) < 3 or len(b_zero) < len(out) or b_zero[0] == 1)
    if not alone or any(cut[2:]) or not cut[0]:
        return False
    return len(a) == len(b) > 2 if cut[1] else len(a) == len(out) and (len(b) < 3 or len(b) < len(a) or b[0] == 1)


@_of("block_matmul")
def _block_matmul(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return cut[0] and not any(cut[1:]) and all(len(s) < len(out) or s[0] == 1 for s in inputs[2:])


@_of("attention")
def _attention(_: Any, inputs: Sequence[Shape], out: Shape, cut: Sequence[bool]) -> bool:
    return len(out) > 2 and _broadcast(_, inputs, out, cut)
