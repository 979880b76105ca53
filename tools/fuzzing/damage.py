"""Bytes of a file changed at random: flipped, cut, repeated, put in, taken out."""

from __future__ import annotations

import numpy as np

_NUMBERS = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff" * 9 + b"\x01",
    b"\xff\xff\xff\xff\x07",
    b"\x00" * 8,
    b"\xff" * 8,
)
"""Bytes that lengths, offsets and variable-length numbers are broken by."""


def damaged(data: bytes, random: np.random.Generator) -> bytes:
    """Return *data* after one change."""
    if not data:
        return b"\x00"
    at = int(random.integers(len(data)))
    size = int(min(len(data) - at, 2 ** random.integers(0, 9)))
    match int(random.integers(8)):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + size :]
        case 2:
            return data[: at + size] + data[at : at + size] + data[at + size :]
        case 3:
            return data[:at] + random.bytes(size) + data[at:]
        case 4:
            return data[:at] + _NUMBERS[random.integers(len(_NUMBERS))] + data[at:]
        case 5:
            new = _NUMBERS[random.integers(len(_NUMBERS))]
            return data[:at] + new + data[at + len(new) :]
        case 6:
            return data[:at] + random.bytes(size) + data[at + size :]
        case _:
            return data[:at] + bytes([data[at] ^ 1 << int(random.integers(8))]) + data[at + 1 :]
