"""What implementations on tensors of blocked channels share: what they serve, and the formats they propose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
from clgraph.implementations.cpu.geometry import LANES, PACKED_BIAS
from clgraph.selector.implementation import Formats, Serves
from clgraph.selector.post import FUSABLE, NOTING
from clgraph.selector.query import Query

TILE = Serves(
    dtypes=frozenset({DType.F32}),
    kinds=frozenset({"cpu"}),
    formats=True,
    fuses=FUSABLE | NOTING,
    operands=8,
    halos=True,
)
"""What tiles of float32 tensors with a full post-operation list serve."""

Weights = Callable[[Query[Any]], Mapping[int, Format]]
"""The formats that an implementation asks for, by slot."""


def square(values: tuple[int, ...]) -> tuple[int, int]:
    """Return (y, x) of a value an axis; 1 for the missing y of one spatial axis."""
    return (values[0], values[1]) if len(values) == 2 else (1, values[0])


def square_pads(pads: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return ((top, bottom), (left, right)) of what is around one or two spatial axes."""
    (top, bottom), (left, right) = ((0, 0), *pads)[-2:]
    return (top, bottom), (left, right)


@cache
def packed_blocks(rank: int, nb: int) -> Format:
    """Return the format of weights for *nb* blocks of output channels at a time."""
    return Format(tuple(range(rank)), ((1, LANES), (0, LANES * nb)))


@cache
def packed_for(format: Format) -> int:
    """Return for how many blocks of output channels at a time weights of *format* are packed, 0 for none."""
    nb = format.block(0) // LANES
    return nb if nb and format == packed_blocks(len(format.order), nb) else 0


def weights_refusal(q: Query[Any], what: str) -> str | None:
    """Say why weights and bias cannot be packed beforehand, or return ``None``."""
    moving = set(range(1, q.arity)) - q.constant
    return f"requires constant weights and bias for {what}" if moving else None


def packing_refusal(q: Query[Any], weights: Weights) -> str | None:
    """Say why weights and bias that are no constants cannot be read as they lie, or return ``None``."""
    moving = [slot for slot in range(1, q.arity) if slot not in q.constant]
    if not moving:
        return None
    asked = weights(q)
    odd = [slot for slot in moving if q.inputs[slot].format != asked[slot]]
    return f"requires constants, or {asked[odd[0]]} for {q.inputs[odd[0]]}" if odd else None


def packed_at_runs(q: Query[Any], weights: Weights) -> tuple[Format | None, ...]:
    """Return the formats of weights and bias: what is asked for of constants for those that are none, too.

    Args:
        weights: ``Implementation.weights``, which finds the first input and the result as the kernel reads them.
    """
    served = q.outputs[0].rank in (3, 4) and all(0 not in x.shape for x in q.own)
    asked = weights(q) if served and set(range(1, q.arity)) - q.constant else {}
    return tuple(asked.get(slot) for slot in range(1, q.arity))


def with_bias(q: Query[Any], packed: Format) -> dict[int, Format]:
    """Return what is asked for of weights, the format *packed*, and of a bias behind them."""
    return {1: packed, **bias_alone(q)}


def bias_alone(q: Query[Any]) -> dict[int, Format]:
    """Return what is asked for of a bias behind the weights, which are transformed or stay as they are."""
    return {2: PACKED_BIAS} if q.arity > 2 else {}


def wanted_formats(q: Query[Any], weights: Weights = lambda _: {}) -> tuple[Formats, ...]:
    """Return the proposals of blocked operators: input, result and operands of its shape blocked, the rest as it is.

    A broadcast operand with the result's channels is read in both formats; the second proposal has it blocked too.

    Args:
        weights: Of implementations that weights computed at run time are packed for, in each run.
    """
    blocked, out = feature_blocked(q.outputs[0].rank), q.outputs[0]
    laid_out = q.with_layouts((q.inputs[0].with_format(blocked), *q.inputs[1:]), (out.with_format(blocked),))
    own = (blocked, *packed_at_runs(laid_out, weights))
    return operand_proposals(q, own, range(q.arity, len(q.inputs)), blocked, out)


def plain_input_formats(q: Query[Any], weights: Weights) -> tuple[Formats, ...]:
    """Return the proposals of those that make blocks of a plain input; *weights* as for :func:`wanted_formats`."""
    own, out = (Format.plain(q.inputs[0].rank), *packed_at_runs(q, weights)), q.outputs[0]
    return operand_proposals(q, own, range(q.arity, len(q.inputs)), feature_blocked(out.rank), out)


def operand_proposals(
    q: Query[Any], own: tuple[Format | None, ...], slots: Iterable[int], blocked: Format, out: Layout
) -> tuple[Formats, ...]:
    """Return one or two proposals: *own*, then the inputs in *slots*, those broadcast over pixels blocked or not."""
    operands = [q.inputs[s] for s in slots]
    plain = tuple(blocked if x.shape == out.shape else None for x in operands)
    either = tuple(blocked if x.rank == out.rank and x.shape[1] == out.shape[1] else None for x in operands)
    return tuple(Formats((*own, *which), (blocked,)) for which in dict.fromkeys((either, plain)))
