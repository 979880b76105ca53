"""Compute quantised groups where they are fast. Answers clDNN's prepare_quantization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.graph.program import Program
from clgraph.passes.base import Context, Pass
from clgraph.passes.quantization.roundings import has_steps


class PrepareQuantization(Pass):
    """Let quantised groups compute in floats what their integers hold, without making the integers.

    A Quantize read by Dequantizes of the same scale and zero point alone (or by others, where its own scale is 1, with
    which QLinearConv makes integers), all 8 or 16 bits with one constant scale that float32 divides by, becomes the
    activation ``fake_quantize`` or ``fake_quantize_wide``, which prepare_primitive_fusing then applies to the result of
    the operator in front of it: the same numbers, bit by bit, but for NaN, which stays; a second one on the same steps
    goes. Where the network computes scale and zero point (DynamicQuantizeLinear), it becomes a few elementwise
    operators, the least element of what is never negative is not looked for, and exact sums of a product are read as
    the floats that they are (``dynamic_quantization``). A Dequantize moves in front of reshapes, transposes, slices,
    concatenations, maxima and picked pixels on the way there, what rounds a reshaped value rounds it before, and
    products that roundings hid from ``spread_product`` are spread. What is computed of one number between roundings to
    16 bits is a few activations, tried for all 65536 (``step_chains``). Activations between integers of 8 bits that
    stay are a ``byte_lookup``, also behind a concat, QLinearAdd and QLinearMul between them a ``quantized_pair``, and
    maxima of bytes whose channels come last those of a volume, without the transposes around them; a mean of bytes that
    were dequantized for it is a ``byte_mean``. Weights and biases behind a Dequantize are constants that fold_constants
    has computed. Convolutions and products between them sum the products in floats, by the same kernels as a model that
    is not quantised, but where use_integers finds that a device is faster from integers. What stays of integers,
    ``Program.notes`` lists with the reason.
    """

    name: ClassVar[str] = "prepare_quantization"
    handles: ClassVar[Mapping[str, str]] = {
        "quantize": "becomes an activation, with the dequantize behind it",
        "dequantize": "becomes an activation, with the quantize in front of it",
        "reshape": "a dequantize moves in front of it",
        "transpose": "a dequantize moves in front of it",
        "slice": "a dequantize moves in front of it",
        "concat": "dequantizes move in front of it",
        "resize": "a dequantize moves in front of one that picks the nearest",
        "pooling": "a dequantize moves in front of a maximum",
        "activation": "bounds of integers become bounds in front of their quantize",
        "eltwise": "reads one number alone between roundings to 16 bits",
        "matmul": "multiplies a tensor that was flattened for it as it is",
    }

    def run(self, program: Program, context: Context) -> int:
        if not any(map(has_steps, program)):
            return 0
        # Imported only where there are integers, or roundings to them: with its operators it takes 8 ms of every start.
        from clgraph.passes.quantization.float_groups import compute_in_floats

        count, lines = compute_in_floats(program)
        if lines:
            program.notes[self.name] = "\n".join(lines)
        return count
