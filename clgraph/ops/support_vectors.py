"""What both support vector machines of ai.onnx.ml have: the kernel of two vectors, and how a node gives both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.errors import ModelError, ShapeError
from clgraph.graph.importing import OnnxNode
from clgraph.graph.primitive import Array

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")

PACKED = 3
"""Slot of what devices read."""

LANES = 16
"""Vectors that a CPU device computes at once."""

WHOLE_POWERS = (1, 2, 3)
"""Degrees whose powers are products: NumPy's function takes thirty times as long."""

_BLOCK_NUMBERS = 1 << 15
"""Kernels that are computed at once."""


@frozen
class KernelFunction:
    """A kernel of two vectors: a function, and its gamma, first coefficient and degree."""

    function: str = "LINEAR"
    gamma: float = 0.0
    coefficient: float = 0.0
    degree: float = 0.0

    def of(self, x: Array, y: Array) -> Array:
        """Return the kernel of each row of x with each of y."""
        if self.function == "RBF":
            squares = (-2 * x) @ y.T
            squares += np.einsum("ij,ij->i", x, x)[:, np.newaxis]
            squares += np.einsum("ij,ij->i", y, y)
            np.maximum(squares, 0, out=squares)
            squares *= -self.gamma
            return np.asarray(np.exp(squares, out=squares))
        product = x @ y.T
        if self.function == "LINEAR":
            return np.asarray(product)
        product *= self.gamma
        if self.coefficient or self.degree < 0:  # of which alone 0.0 and -0.0 have other powers
            product += self.coefficient
        if self.function == "SIGMOID":
            return np.asarray(np.tanh(product, out=product))
        if self.degree not in WHOLE_POWERS:
            return np.asarray(product**self.degree)
        power = product
        for _ in range(int(self.degree) - 1):
            power = power * product
        return np.asarray(power)


def in_blocks(x: Array, vectors: Array, of: Callable[[Array], Sequence[Array]]) -> tuple[Array, ...]:
    """Return what *of* makes of runs of rows of x, in order, whose kernels with *vectors* stay in a cache."""
    rows = max(1, _BLOCK_NUMBERS // max(len(vectors), 1))
    if len(x) <= rows:
        return tuple(of(x))
    return tuple(map(np.concatenate, zip(*(of(x[i : i + rows]) for i in range(0, len(x), rows)), strict=True)))


def packed(vectors: Array, weights: Array) -> Array:
    """Return float32 ``[blocks, features + pairs, LANES]`` as ``support_vector_rows.cl`` reads them, 0 behind the last.

    Args:
        vectors: ``[vectors, features]``, float32 numbers as in a model; of none, devices read nothing.
        weights: Of each pair of classes ``[pairs, vectors]``, float32 numbers.
    """
    if not vectors.size:
        return np.zeros((0, 0, LANES), np.float32)
    made = np.concatenate([vectors.T, weights]).astype(np.float32)
    made = np.pad(made, ((0, 0), (0, -len(vectors) % LANES)))
    return np.ascontiguousarray(made.reshape(len(made), -1, LANES).transpose(1, 0, 2))


def checked_rows(x: Layout, features: int) -> int:
    """Return the number of rows of x; raise ``ShapeError`` unless each has as many features as the vectors."""
    if x.rank != 2 or x.shape[1] != features:
        raise ShapeError(f"{list(x.shape)} is not [rows, {features} features], as the vectors are")
    return x.shape[0]


def floats(node: OnnxNode, name: str) -> Array:
    """Return the numbers of an attribute; none if it is absent."""
    return np.array(node.attribute(name, ()), np.float32)


def table(numbers: Array, rows: int, name: str) -> Array:
    """Return the *numbers* of the attribute *name* as a matrix of so many rows; without rows, an empty one."""
    if rows and numbers.size % rows:
        raise ModelError(f"the {numbers.size} numbers of {name} do not make {rows} rows")
    return numbers.reshape(rows, -1) if rows else np.zeros((0, 0), np.float32)


def kernel_of(node: OnnxNode) -> tuple[str, tuple[float, ...]]:
    """Return the function and the parameters of a :class:`KernelFunction`, as the node gives them."""
    function, parameters = node.attribute("kernel_type", "LINEAR"), node.attribute("kernel_params", ())
    if function not in KERNELS or len(parameters) not in (0, 3):
        raise node.unsupported(f"kernel_type {function!r} with {len(parameters)} kernel_params is not defined by ONNX")
    return function, parameters
