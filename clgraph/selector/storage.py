"""How kernels read and write elements of every type: what a type adds to a kernel is a row here.

A kernel computes in one type, float mostly, and reads and writes memory of another by its ``LOAD`` and ``STORE``.
Conversions that OpenCL C does not have are functions of ``storage.clh``.
"""

from __future__ import annotations

from clgraph.core.conversion import ROUND_MODES
from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen


@frozen
class FewBits:
    """A float of a sign, an exponent and a fraction in 8 bits or less.

    Attributes:
        sign: The bit of the sign.
        mantissa: Bits of the fraction.
        bias: Of the exponent.
        top: The largest number, without its sign.
        nan: The code of NaN; the bit of the sign alone where there is no -0.
        beyond: What is beyond the largest number, where it does not saturate: the code of infinity or of NaN.
    """

    sign: int
    mantissa: int
    bias: int
    top: int
    nan: int
    beyond: int

    def __str__(self) -> str:
        return f"{self.sign}, {self.mantissa}, {self.bias}, {self.top}, {self.nan}, {self.beyond}"


FEW_BITS = {
    DType.F8E4M3FN: FewBits(0x80, 3, 7, 0x7E, 0x7F, 0x7F),
    DType.F8E4M3FNUZ: FewBits(0x80, 3, 8, 0x7F, 0x80, 0x80),
    DType.F8E5M2: FewBits(0x80, 2, 15, 0x7B, 0x7E, 0x7C),
    DType.F8E5M2FNUZ: FewBits(0x80, 2, 16, 0x7F, 0x80, 0x80),
    DType.F4E2M1: FewBits(0x08, 1, 1, 0x07, 0x00, 0x07),
}
"""https://onnx.ai/onnx/technical/float8.html and float4.html. No code of F4E2M1 is NaN: that becomes 0."""


def loaded(dtype: DType) -> str:
    """Return the expression of an element ``(p)[i]`` of *dtype* as a float; an integer of 2 or 4 bits as an int."""
    if dtype in FEW_BITS:
        return f"few_bits_value((p)[i], {FEW_BITS[dtype]})"
    return _LOADED.get(dtype, "((p)[i])" if dtype.floating else "((float)(p)[i])")


def computed_in(dtype: DType) -> str:
    """Return the OpenCL C type that holds every element of *dtype*: float, double, long or ulong."""
    if dtype.floating or dtype in FEW_BITS or dtype == DType.F8E8M0:
        return "double" if dtype == DType.F64 else "float"
    return "ulong" if dtype == DType.U64 else "long"


def stored(dtype: DType, *, saturate: bool = True, round_mode: str = "up") -> str:
    """Return the statement that makes element ``(p)[i]`` of *dtype* of a value v of another type.

    Args:
        saturate: Floats of 8 bits: what is beyond the largest number becomes that number.
        round_mode: Of F8E8M0, one of ``ROUND_MODES``.
    """
    if dtype in FEW_BITS:
        return f"((p)[i] = few_bits_of((float)(v), {FEW_BITS[dtype]}, {int(saturate)}))"
    if dtype == DType.F8E8M0:
        return f"((p)[i] = exponent_of((float)(v), {int(saturate)}, {ROUND_MODES.index(round_mode)}))"
    if dtype.bits < 8:
        return f"((p)[i] = (uchar)((long)(v) & {(1 << dtype.bits) - 1}))"
    return _STORED.get(dtype, f"((p)[i] = ({dtype.cl})(v))")


_LOADED = {
    DType.F16: "vload_half(i, p)",
    DType.BF16: "bfloat16_value((p)[i])",
    DType.F8E8M0: "exponent_value((p)[i])",
    DType.U4: "((int)(p)[i])",
    DType.U2: "((int)(p)[i])",
    DType.I4: "(((int)(p)[i] ^ 8) - 8)",
    DType.I2: "(((int)(p)[i] ^ 2) - 2)",
}
_STORED = {
    DType.F16: "vstore_half_rte(v, i, p)",
    DType.BF16: "((p)[i] = bfloat16_of(v))",
    DType.BOOL: "((p)[i] = (v) != 0)",
}
