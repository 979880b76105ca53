"""What a model declares about an input or output, and which shapes fit that."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout, Shape
from clgraph.errors import DeviceMemoryError, InputError
from clgraph.graph.host_types import tensor_type

S = TypeVar("S")
Dimension = int | str | None
"""A size, the name of a symbolic size, or unknown. A repeated name is no constraint."""

MOST_ELEMENTS = 1 << 48
"""Tensors of more are refused when shapes are bound: no device holds one, and sums of offsets stay within 64 bits."""


@frozen
class Signature:
    """Type and shape of an input or output as declared; what is not a tensor of numbers has a ``host_type``, no dtype.

    Attributes:
        sparse: Declared as a sparse tensor; it is fed and held as a dense one.
    """

    name: str
    dtype: DType | None
    shape: tuple[Dimension, ...] | None
    host_type: str = ""
    sparse: bool = False

    @property
    def type(self) -> str | None:
        """The type as ONNX spells it: ``tensor(float)``, ``seq(tensor(int64))``; ``None`` if undeclared."""
        if self.dtype is None:
            return self.host_type or None
        return f"sparse_{tensor_type(self.dtype)}" if self.sparse else tensor_type(self.dtype)

    @property
    def is_fixed(self) -> bool:
        """Whether the shape has no open dimension that a program would be compiled for."""
        return bool(self.host_type) or (self.shape is not None and all(isinstance(d, int) for d in self.shape))

    def reshaped(self, given: Sequence[Dimension], *, anew: bool) -> Signature:
        """Return the same input with another shape, where a dimension may stay open.

        Args:
            anew: Sizes take the place of those that are declared; without, they fill what is open.

        Raises:
            InputError: *given* does not fit the axes or sizes, or has a negative size.
        """
        declared, what = self.shape, f"input {self.name!r} has shape {_spell(self.shape)}"
        try:
            dims = tuple(d if d is None or isinstance(d, str) else operator.index(d) for d in given)
        except TypeError as error:
            raise InputError(f"input {self.name!r}: a shape is sizes, names and None, not {given!r}") from error
        if any(isinstance(d, int) and d < 0 for d in dims):
            raise InputError(f"input {self.name!r}: a size in {_spell(dims)} is negative; None leaves one open")
        if declared is not None and len(dims) != len(declared):
            raise InputError(f"{what}; {_spell(dims)} does not fit it: it has another number of axes")
        if declared is not None and not anew:
            dims = tuple(
                w if isinstance(w, int) and not isinstance(d, int) else d for d, w in zip(dims, declared, strict=True)
            )
            if any(isinstance(w, int) and w != d for d, w in zip(dims, declared, strict=True)):
                way = "in Python, Model.reshape replaces declared sizes"
                raise InputError(f"{what}; {_spell(dims)} does not fit it ({way})")
        return replace(self, shape=dims)

    def bound(self, given: Sequence[int] | None) -> Shape:
        """Return the shape with every size: *given*, or where there is none the one that is declared.

        Raises:
            InputError: The rank or a fixed size differs, or a dimension stays open.
            DeviceMemoryError: No device holds that many elements.
        """
        declared = self.shape
        if given is None:
            if declared is None or not self.is_fixed:
                what = f"input {self.name!r} has shape {_spell(declared)}"
                ways = f"--shape {self.name}=SIZES, or shapes={{{self.name!r}: (...)}}"
                raise InputError(f"{what}; give its sizes: {ways}")
            given = [d for d in declared if isinstance(d, int)]
        try:
            sizes = tuple(operator.index(d) for d in given)
        except TypeError as error:
            raise InputError(f"input {self.name!r}: a shape is a tuple of whole numbers, not {given!r}") from error
        if declared is not None and (
            len(sizes) != len(declared)
            or any(isinstance(d, int) and d != b for d, b in zip(declared, sizes, strict=True))
        ):
            raise InputError(f"input {self.name!r} has shape {_spell(declared)}; {list(sizes)} does not fit it")
        if any(d < 0 for d in sizes):
            raise InputError(f"input {self.name!r}: a size in {list(sizes)} is negative")
        if is_absurd(sizes):
            what = f"input {self.name!r}: {list(sizes)}"
            raise DeviceMemoryError(f"{what} is more than 2^48 elements, which no device holds")
        return sizes

    def layout(self, given: Sequence[int] | None) -> Layout:
        """Return the layout with the shape *given*. Raises as :meth:`bound`, and where no element type is declared."""
        if self.dtype is None:
            raise InputError(f"input {self.name!r} has no element type: {self.host_type or 'it is undeclared'}")
        return Layout(self.dtype, self.bound(given))

    @property
    def stacks_keys(self) -> bool:
        """Whether the shape is that of keys and values in one tensor, ``[2, batch, heads, tokens, D]``."""
        return self.shape is not None and len(self.shape) == 5 and self.shape[0] == 2

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        shape = "" if self.host_type and self.shape is None else f" {_spell(self.shape)}"
        sparse = "sparse " if self.sparse else ""
        return f"{self.name} {sparse}{self.host_type or self.dtype or 'unknown type'}{shape}"


def is_absurd(shape: Shape) -> bool:
    """Whether a tensor has more than ``MOST_ELEMENTS``."""
    return max(shape, default=0) > MOST_ELEMENTS or prod(shape) > MOST_ELEMENTS


def _spell(shape: tuple[Dimension, ...] | None) -> str:
    return "unknown" if shape is None else "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"
