"""Functions of elements as ``elements.cl`` numbers them, and a function with the types that it is computed in."""

from __future__ import annotations

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.implementations.cpu.element_types import BYTES, OWN, PAIRS, RUN, RUN_BYTES

FUNCTIONS = {
    name: code
    for code, name in enumerate(
        ("same", "add", "sub", "mul", "div", "min", "max", "equal", "less", "less_equal", "and", "or", "xor", "mod",
         "fmod", "choice", "neg", "abs", "not")
    )
}  # fmt: skip
SIGNED = {
    name: code
    for code, name in enumerate(("min", "max", "less", "less_equal", "neg", "abs", "clip"), start=len(FUNCTIONS))
}
"""Of signed numbers, in the domains ``BYTES`` and ``SHORTS``."""
UNSIGNED = {
    **{
        name: code
        for code, name in enumerate(("min", "max", "less", "less_equal", "div", "mod", "clip"), start=len(FUNCTIONS))
    },
    "shift_right": 35,
}
"""Of unsigned numbers, in the domains ``INT`` and ``LONG``."""
INTEGERS = {
    name: code for code, name in enumerate(("clip", "shift_left", "shift_right"), start=len(FUNCTIONS) + len(SIGNED))
}
"""Of integers alone; in the domains ``BYTES`` and ``SHORTS`` of unsigned ones."""
HALF = {"neg": 36, "abs": 37, "sign": 38, "clip": 39}
"""Functions of halves by their bits, in the domain ``HALVES``; ``clip`` and ``sign`` know infinity by ``second``."""
BITS = {
    name: code
    for code, name in enumerate(("bits_equal", "bits_above"), start=len(FUNCTIONS) + len(SIGNED) + len(INTEGERS))
}
"""Tests of the bits of floats under a mask."""
POW, POW_SLOW = len(FUNCTIONS) + len(SIGNED) + len(INTEGERS) + len(BITS), 100.0
"""A power, and what it takes of doubles as in ``SLOW``."""
FLOAT_POW_SLOW = 20.0
"""What a power of floats takes."""
QUANTIZE, QUANTIZE_SLOW = POW + 1, 1.0
"""Steps of floats as integers, and what they take as in ``SLOW``."""
QUANTIZED, QUANTIZED_SLOW = {"add": QUANTIZE + 1, "mul": QUANTIZE + 2}, 1.0
"""Sums and products of bytes with scales, in the domain ``PAIRS``, and what they take as in ``SLOW``."""
COMPARISONS = ("equal", "less", "less_equal")
_TESTS = frozenset(
    {*(FUNCTIONS[name] for name in COMPARISONS), UNSIGNED["less"], UNSIGNED["less_equal"], *BITS.values()}
)
POST = 64
"""From here on the codes of post-operations, of floats and doubles."""
DOUBLE_FUNCTIONS = {
    **dict.fromkeys(
        ("linear", "relu", "clip", "leaky_relu", "thresholded_relu", "square", "floor", "ceil", "round", "sign"), 0.0
    ),
    **dict.fromkeys(("hard_sigmoid", "hard_swish", "reciprocal", "softsign", "sqrt"), 8.0),
    "exp": 24.0,
    "log": 32.0,
    "elu": 32.0,
    "celu": 40.0,
    "tanh": 40.0,
    "sigmoid": 40.0,
    "swish": 40.0,
    "softplus": 64.0,
}
"""Post-operations that ``double_runs.clh`` has, with what they take as in ``SLOW``."""

ANGLES = {
    name: code
    for code, name in enumerate(
        ("tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sin", "cos"), start=40
    )
}
"""Trigonometric and hyperbolic functions, of doubles; the arc cosine and the arc tangent of floats, too."""
ANGLE_SLOW, ARC_SLOW = 64.0, 8.0
"""What they take, and what those of floats take, as in ``SLOW``."""

SLOW = {"div": 8.0, "mod": 10.0, "fmod": 10.0}
"""What integer divisions take, in the time that a vector of 16 floats takes to copy."""


@frozen
class Computation:
    """A function in the kernel's terms.

    Attributes:
        function: Code.
        domain: ``FLOAT`` to ``PAIRS``.
        slots: Of the inputs a, b and c, as many as there are.
        factors: Slots of floats that the result is multiplied by.
        read: The types in which a and b are read, ``write`` in which the result is written.
        first, second: Bits of the parameters of a post-operation, or of the bounds of a clip or a quantization
            (:func:`number_bits`).
        slow: What an element takes beside its way, in sixteenths of ``copy.vector``.
    """

    function: int
    domain: int
    slots: tuple[int, ...]
    read: DType
    write: DType
    first: int = 0
    second: int = 0
    slow: float = 0.0
    factors: tuple[int, ...] = ()

    @property
    def direct(self) -> bool:
        """Whether what is computed is the result, without a conversion."""
        return self.domain in (BYTES, PAIRS) or self.function in _TESTS or self.write == OWN[self.domain]

    @property
    def run(self) -> int:
        """Elements of a piece: as many as fit in a room; floats of pairs have two."""
        if self.domain == PAIRS:
            return 2 * RUN * RUN_BYTES // DType.F32.itemsize
        own = OWN.get(self.domain, self.read).itemsize
        return RUN * RUN_BYTES // max(self.read.itemsize, self.write.itemsize, own)
