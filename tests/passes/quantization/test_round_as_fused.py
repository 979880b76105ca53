"""Operators between DequantizeLinear and QuantizeLinear that become as ONNX Runtime's fused ones."""

from __future__ import annotations

import numpy as np

from clgraph.core.dtype import DType
from clgraph.ops.activation import Activation
from clgraph.ops.dequantize import Dequantize
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.quantize import Quantize
from clgraph.ops.quantized_product import QuantizedProduct
from clgraph.ops.quantized_sum import QuantizedSum
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context
from clgraph.passes.quantization.round_as_fused import RoundAsFused
from clgraph.selector.query import DeviceInfo
from tests.support.programs import Net, primitives, run

CPU, GPU = (Context(devices={kind: DeviceInfo(kind=kind)}) for kind in ("cpu", "gpu"))


def _between(function, dtype=DType.U8, result=DType.U8, shapes=((2, 40), (2, 40)), scales=(0.02, 0.03, 0.04)):
    """Return what *function* makes of two dequantised inputs, quantised."""
    net = Net()

    def steps(name, scale, of):
        return net.number(f"{name}_scale", scale), net.constant(f"{name}_zero", np.array(3, of.numpy))

    read = [
        net.add(f"{n}_floats", Dequantize(0), net.input(n, shape, dtype.numpy), *steps(n, scale, dtype))
        for n, shape, scale in zip("ab", shapes, scales, strict=False)
    ]
    made = net.add("made", function, *read)
    net.add("y", Quantize(0, dtype=result), made, *steps("y", scales[-1], result))
    return net


def _made(net: Net, context: Context = CPU) -> list[type]:
    kinds = (Dequantize, Quantize)
    return [
        type(p) for p in primitives(run(net.program("y"), RoundAsFused(), context=context)) if not isinstance(p, kinds)
    ]


def test_sums_and_products_of_bytes_have_the_order_of_fused_ones_on_cpus() -> None:
    assert _made(_between(Eltwise("add"))) == [QuantizedSum]
    assert _made(_between(Eltwise("mul"), DType.I8, DType.I8)) == [QuantizedProduct]
    assert _made(_between(Eltwise("add")), GPU) == [Eltwise]


def test_what_is_not_fused_keeps_its_order() -> None:
    assert _made(_between(Eltwise("sub"))) == [Eltwise]
    assert _made(_between(Eltwise("add"), DType.U8, DType.I8)) == [Eltwise]
    assert _made(_between(Eltwise("add"), DType.U16, DType.U16)) == [Eltwise]
    net = _between(Eltwise("add"))
    net.add("z", Activation("relu"), "made")
    made = primitives(run(net.program("y", "z"), RoundAsFused(), context=CPU))
    assert not any(isinstance(p, QuantizedSum) for p in made)


def test_a_broadcast_operand_keeps_its_place() -> None:
    program = run(_between(Eltwise("add"), shapes=((40,), (2, 40))).program("y"), RoundAsFused(), context=CPU)
    assert [v.layout.shape for v in program["made"].inputs] == [(40,), (2, 40)]


def test_a_softmax_has_the_scale_of_the_fused_one() -> None:
    net = _between(Softmax((-1,)), shapes=((2, 40),), scales=(0.02, 1 / 255))
    made = [p for p in primitives(run(net.program("y"), RoundAsFused())) if isinstance(p, Activation)]
    assert [(p.function, round(p.alpha * 255, 3)) for p in made] == [("linear", 254.0)]
    assert _made(_between(Softmax((-1,)), shapes=((2, 40),), scales=(0.02, 1 / 256))) == [Softmax]
