"""What a user states of an operator: its shape rule, kernel and examples, and the tensors as these see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape


@frozen
class TensorSpec:
    """Shape and element type of a tensor, as shape rules see it."""

    shape: Shape
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


Rule = Callable[..., TensorSpec | Sequence[TensorSpec]]
Numbers = Callable[..., Sequence[float]]


@dataclass(frozen=True, slots=True, repr=False)
class CustomOperator:
    """What ``clgraph.custom_op`` was given.

    Attributes:
        kind: The name in files, dumps and options: domain and operator type.
        examples: Input shapes that ``clgraph check-op`` tries, each a list with one shape an input.
    """

    kind: str
    op_type: str
    domain: str
    rule: Rule
    kernel: str
    entry: str
    work_size: Numbers
    arguments: Numbers | None
    group: Numbers | None
    local_bytes: Numbers | None
    reference: Callable[..., Any] | None
    dtypes: frozenset[DType]
    examples: tuple[tuple[Shape, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"that of {self.rule.__module__}.{self.rule.__qualname__}"


@overload
def spec_of(layout: Layout) -> TensorSpec: ...


@overload
def spec_of(layout: None) -> None: ...


def spec_of(layout: Layout | None) -> TensorSpec | None:
    """Return a tensor as the user's functions see it; ``None`` for an input that a node leaves out."""
    return None if layout is None else TensorSpec(layout.shape, layout.dtype.numpy)
