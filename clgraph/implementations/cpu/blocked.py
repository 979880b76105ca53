"""What implementations on tensors of blocked channels share: what they serve, and the formats they propose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from clgraph.core.dtype import DType
from clgraph.core.format import Format, feature_blocked
from clgraph.core.layout import Layout
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
NOTING_TILE = replace(TILE, fuses=FUSABLE | NOTING)
"""The same of those that apply the list to rows long enough for an extreme of one to cost little."""


def square(values: tuple[int, ...]) -> tuple[int, int]:
    """Return (y, x) of a value an axis; 1 for the missing y of one spatial axis."""
    return (values[0], values[1]) if len(values) == 2 else (1, values[0])


def weights_refusal(q: Query[Any], what: str) -> str | None:
    """Say why weights and bias cannot be packed beforehand, or return ``None``."""
    moving = set(range(1, q.arity)) - q.constant
    return f"requires constant weights and bias for {what}" if moving else None


def wanted_formats(q: Query[Any]) -> tuple[Formats, ...]:
    """Return the proposals of blocked operators: input, result and operands of its shape blocked, the rest as it is.

    A broadcast operand with the result's channels is read in both formats; the second proposal has it blocked too.
    """
    blocked, out = feature_blocked(q.outputs[0].rank), q.outputs[0]
    own = (blocked, *(None,) * (q.arity - 1))
    return operand_proposals(q, own, range(q.arity, len(q.inputs)), blocked, out)


def operand_proposals(
    q: Query[Any], own: tuple[Format | None, ...], slots: Iterable[int], blocked: Format, out: Layout
) -> tuple[Formats, ...]:
    """Return one or two proposals: *own*, then the inputs in *slots*, those broadcast over pixels blocked or not."""
    operands = [q.inputs[s] for s in slots]
    plain = tuple(blocked if x.shape == out.shape else None for x in operands)
    either = tuple(blocked if x.rank == out.rank and x.shape[1] == out.shape[1] else None for x in operands)
    return tuple(Formats((*own, *which), (blocked,)) for which in dict.fromkeys((either, plain)))
