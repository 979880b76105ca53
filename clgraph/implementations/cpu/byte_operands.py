"""What tiles of bytes serve on CPU devices, and how their operands lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.graph.primitive import Primitive
from clgraph.implementations.cpu.blocked import operand_proposals
from clgraph.implementations.cpu.byte_ends import end_of
from clgraph.implementations.cpu.fused_operations import post_refusal
from clgraph.implementations.cpu.geometry import LANES, PACKED_BIAS, both_blocked_refusal
from clgraph.ops.quantized_convolution import ROUNDED, QuantizedConvolution
from clgraph.selector.implementation import Formats, Serves
from clgraph.selector.post import NOTING
from clgraph.selector.query import Query

_FUSES = ROUNDED | NOTING | {"byte_lookup"}
BYTE_TILE = Serves(
    dtypes=frozenset({DType.U8, DType.I8, DType.I16, DType.I32, DType.F32}),
    mixed=True,
    kinds=frozenset({"cpu"}),
    formats=True,
    fuses=_FUSES,
    operands=8,
    either=frozenset({"byte_pairs", "short_pairs"}),
)
"""What tiles of bytes serve."""
BYTE_CONVOLUTION = replace(BYTE_TILE, fuses=_FUSES | {"quantize"})
"""What convolutions of bytes serve: they round by steps that the network computes, too."""
BLOCK_WORDS = 4
"""Words of a block of channels."""


def byte_formats(q: Query[QuantizedConvolution]) -> tuple[Formats, ...]:
    """Return the proposals of blocked operators on bytes."""
    blocked = feature_blocked(q.outputs[0].rank)
    own = (blocked, *(None,) * (q.arity - 1))
    return operand_proposals(q, own, range(q.arity, len(q.inputs)), blocked, q.outputs[0])


def parameters_refusal(q: Query[Any], outputs: int) -> str | None:
    """Say why weights, start, scale and bias are not read as they are, or return ``None``."""
    if not q.constant >= {1, 3, 4}:
        return "requires constant weights, scale and bias"
    plain = 2 in q.constant or (q.inputs[2].is_dense_plain and outputs % LANES == 0)
    return None if plain else f"reads starts that the network computes in whole vectors of {LANES}"


def blocks_refusal(q: Query[QuantizedConvolution]) -> str | None:
    """Say why tensors, parameters or operations are none of a convolution of bytes in blocks, or return ``None``."""
    refused = both_blocked_refusal(q) or parameters_refusal(q, q.outputs[0].shape[1]) or post_refusal(q)
    if refused is not None:
        return refused
    return end if isinstance(end := end_of(q), str) else None


def packed_parameters(q: Query[Any]) -> dict[int, Format | Primitive]:
    """Return the formats of the constants that each output has one of."""
    return dict.fromkeys([slot for slot in (2, 3, 4) if slot in q.constant], PACKED_BIAS)


def packed_weights(q: Query[Any], nb: int, outputs: int = 0, channels: int = 1) -> dict[int, Format | Primitive]:
    """Return how weights are packed for *nb* blocks of output channels at a time, a word of input channels a lane.

    Args:
        outputs, channels: The axes.
    """
    order = tuple(range(q.inputs[1].rank)) if outputs < channels else (outputs, channels)
    return {1: Format(order, ((outputs, LANES * nb), (channels, LANES // BLOCK_WORDS)))}
