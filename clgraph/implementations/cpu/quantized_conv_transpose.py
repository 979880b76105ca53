"""Transposed convolutions of bytes in blocks on CPU devices: a product for each element of a window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import operand_proposals, square
from clgraph.implementations.cpu.byte_ends import end_of, lookup_of, packed_operands
from clgraph.implementations.cpu.byte_operands import BYTE_TILE, packed_weights, parameters_refusal
from clgraph.implementations.cpu.byte_products import FLOAT_SCRATCH, ConvBytesDesc, products
from clgraph.implementations.cpu.byte_sizes import byte_sizes, products_seconds
from clgraph.implementations.cpu.fused_operations import operand_pitches, post_refusal
from clgraph.implementations.cpu.geometry import LANES, PACKED_BIAS, both_blocked_refusal, planes
from clgraph.ops.quantized_conv_transpose import QuantizedConvTranspose, one_element
from clgraph.ops.quantized_convolution import TERMS
from clgraph.selector.descriptor import Ref
from clgraph.selector.implementation import Formats, Implementation, implements
from clgraph.selector.plan import Plan, Tile
from clgraph.selector.query import Query


@implements(QuantizedConvTranspose, name="quantized_conv_transpose.bytes_fsv16", serves=BYTE_TILE)
class QuantizedConvTransposeBytes(Implementation[QuantizedConvTranspose]):
    """A pointwise convolution a window's element, whose pixels it writes a stride apart."""

    @classmethod
    def limits(cls, q: Query[QuantizedConvTranspose]) -> str | None:
        x, (y,) = q.inputs[0], q.outputs
        if x.dtype != DType.U8:
            return f"multiplies u8 by i8, not {x.dtype}"
        if x.shape[1] > TERMS:
            return f"adds up to {TERMS} products in int"
        refused = (
            both_blocked_refusal(q)
            or parameters_refusal(q, y.shape[1])
            or (None if 2 in q.constant else "requires constant starts")
            or post_refusal(q)
        )
        if refused is not None:
            return refused
        operands = [q.inputs[s] for s in q.post_slots if s != lookup_of(q)]
        if any(operand_pitches(v, y)[2:4] != (0, 0) for v in operands):
            return "meets its results with numbers of channels alone"
        return end if isinstance(end := end_of(one_element(q)), str) else None

    @classmethod
    def formats(cls, q: Query[QuantizedConvTranspose]) -> tuple[Formats, ...]:
        blocked = feature_blocked(q.outputs[0].rank)
        own = (blocked, *(None,) * (q.arity - 1))
        if q.outputs[0].rank not in (3, 4):
            return ()
        return operand_proposals(q, own, range(q.arity, len(q.inputs)), blocked, q.outputs[0])

    @classmethod
    def weights(cls, q: Query[QuantizedConvTranspose]) -> Mapping[int, Format | Primitive]:
        packed = packed_weights(q, byte_sizes(one_element(q)).block.nb, 1, 2)
        parameters = {2: Format((0, 1), ((1, LANES),)), 3: PACKED_BIAS, 4: PACKED_BIAS}
        return {**packed, **parameters, **packed_operands(q, end_of(one_element(q)))}

    @classmethod
    def cost(cls, q: Query[QuantizedConvTranspose]) -> float:
        return prod(q.primitive.kernel) * products_seconds(one_element(q))

    @classmethod
    def plan(cls, q: Query[QuantizedConvTranspose]) -> Plan:
        one, y, kernel = one_element(q), planes(q.outputs[0]), square(q.primitive.kernel)
        s, (tile,) = byte_sizes(one), products(one).steps
        assert isinstance(tile, Tile)
        desc, steps = tile.descriptor, list[Tile]()
        assert isinstance(desc, ConvBytesDesc)
        for element, (row, column) in enumerate(product(*map(range, kernel))):
            of_element = {
                "weights": Ref("in1", element * s.group_bytes * s.groups),
                "start": Ref("in2", element * s.blocks * LANES * 4),
                "out": y.at("out0", row, column),
                "out_x": kernel[1] * LANES,
                "spread": 1,
            }
            scratch = tile.scratch + FLOAT_SCRATCH * s.block.nb
            steps.append(replace(tile, descriptor=ConvBytesDesc(**(desc.by_name() | of_element)), scratch=scratch))
        return Plan(tuple(steps))
