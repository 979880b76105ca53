"""Compute products of quantised values from their integers, where a device is faster so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from clgraph.core.frozen import frozen
from clgraph.graph.node import Node
from clgraph.graph.program import Milestone, Program
from clgraph.ops.activation import Activation
from clgraph.passes.base import Context, Pass


@frozen
class UseIntegers(Pass):
    """Make convolutions and matrix products of quantised values from integers, where that is estimated faster.

    prepare_quantization has left floats on the steps of 8 bits; weights remember the integers they were made of. A
    product whose device has more than a general kernel for integers becomes ``quantized_convolution``,
    ``quantized_conv_transpose`` or ``quantized_matmul``: exact sums in int, scaled once. Its input is rounded to I8,
    whatever the model's type and zero point: they are the same 256 steps. Weights of one scale that, less their zero
    point, reach out of I8 are shifted into it; kernels of CPUs add the shift again, elsewhere a product with ones does.
    What it makes is rounded by prepare_primitive_fusing, which fuses ``static_quantize`` behind it, so that between two
    of them there are bytes. A sum with such bytes (a residual) reads them as they are, in the order of QLinearAdd where
    it is one; other readers get a dequantize. Where bytes are U8, what elementwise operators make of one rounded value
    is a ``byte_lookup`` (``byte_tables``). Between products that stay in floats it is one, too, with a rounding in
    front and a dequantize behind it, where the operations take longer than that (``float_tables``).

    Where scales are computed in each run, see ``dynamic_products``.

    The estimate counts the products, and the roundings and dequantizes that no neighbour takes over. Counts products;
    ``Program.notes`` has the reason of every one that stays in floats.
    """

    name: ClassVar[str] = "use_integers"
    handles: ClassVar[Mapping[str, str]] = {
        "convolution": "may become quantized_convolution",
        "conv_transpose": "may become quantized_conv_transpose where its windows lie side by side",
        "matmul": "may become quantized_matmul",
        "eltwise": "a sum reads bytes",
        "quantized_sum": "a sum reads bytes",
    }
    rounds: ClassVar[bool] = True
    needs: ClassVar[Milestone] = Milestone.PLACED

    def run(self, program: Program, context: Context) -> int:
        dynamic = self._dynamic(program, context)
        if all(value.integers is None for node in program for value in node.inputs):
            return dynamic
        # Imported only where there are integers: with its operators it takes 5 ms of every start.
        from clgraph.passes.quantization.integer_choice import use_integers

        count, notes = use_integers(program, context)
        self.note(program, [f"{dynamic} products of values with computed scales from integers"] * bool(dynamic) + notes)
        return count + dynamic

    def _dynamic(self, program: Program, context: Context) -> int:
        rounding = Activation("round")
        if not any(node.primitive == rounding or _reads_bytes(node) for node in program):
            return 0
        from clgraph.passes.quantization.dynamic_products import use_dynamic_integers

        return use_dynamic_integers(program, context)


def _reads_bytes(node: Node) -> bool:
    """Whether *node* makes floats of integers that are not known."""
    return node.primitive.kind == "dequantize" and node.inputs[0].constant is None
