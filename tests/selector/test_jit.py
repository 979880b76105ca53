"""The preamble is exact and byte-stable."""

import pytest

from clgraph.core.dtype import DType
from clgraph.selector.jit import Jit, literal


def test_macros_come_out_in_order_with_exact_floats() -> None:
    jit = Jit().define(TYPE=DType.F16, RANK=4).define(LOW=0.1, HIGH=float("inf"), LAST=True)
    assert str(jit) == (
        "#define TYPE half\n#define RANK 4\n#define LOW (0x1.999999999999ap-4f)\n"
        "#define HIGH INFINITY\n#define LAST 1\n"
    )


def test_a_macro_keeps_its_first_value() -> None:
    assert Jit().define(A=1).define(A=1) == Jit().define(A=1)
    with pytest.raises(ValueError, match="A is already 1"):
        Jit().define(A=1).define(A=2)


def test_negative_infinity_is_spelled_so_that_it_can_be_negated() -> None:
    assert literal(float("-inf")) == "(-INFINITY)"
