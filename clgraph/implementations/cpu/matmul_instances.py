"""Instances of the micro-kernel that multiplies a block of rows by packed columns on CPU devices."""

from __future__ import annotations

from clgraph.core.frozen import frozen
from clgraph.selector.micro_kernels import Micro, micro_family
from clgraph.selector.query import DeviceInfo

GROUP = 64
"""Columns of a packed group."""

_FILE = "matmul/micro_matmul.cl"

SHAPES = {16: (4, 6), 8: (1, 6)}
"""Vectors of 16 columns and most rows of an instance, by SIMD width."""

NARROW_ROWS = 6
"""Rows of the narrow instance."""

_NARROW = Micro.of(_FILE, NB=2, UR=NARROW_ROWS)
"""The narrow instance: at most 32 columns where the others compute 64."""

_TALL = Micro.of(_FILE, NB=2, UR=2 * NARROW_ROWS)
"""The same, of twice the rows."""

SLIM_ROWS = 2 * NARROW_ROWS
"""Rows of the slim instance: fewer sums than these wait for each other."""

_SLIM = Micro.of(_FILE, NB=1, UR=SLIM_ROWS)
"""The slim instance: at most 16 columns."""

MICROS = micro_family(
    "micro_matmul",
    {
        simd: [Micro.of(_FILE, NB=nb, UR=ur) for ur in range(1, most + 1)] + [_NARROW, _TALL, _SLIM] * (nb > 2)
        for simd, (nb, most) in SHAPES.items()
    },
)


@frozen
class Widest:
    """The largest instance of a device: vectors of 16 columns, rows; the id of the one with one row.

    Attributes:
        narrow_id: Of the instance of 6 rows and 32 columns, before those of 12 rows and 32 and 16 columns; -1 where the
            largest is no wider.
    """

    nb: int
    rows: int
    first_id: int
    narrow_id: int


def register_block(device: DeviceInfo) -> tuple[int, int]:
    """Return the vectors of 16 columns and the rows of the largest instance of *device*."""
    return SHAPES[16 if device.simd >= 16 else 8]


def widest_instance(device: DeviceInfo) -> Widest:
    """Return the instance that products of many rows use; those with fewer rows are its neighbours."""
    nb, rows = register_block(device)
    narrow = MICROS.id(device.simd, _NARROW) if nb > 2 else -1
    return Widest(nb, rows, MICROS.id(device.simd, Micro.of(_FILE, NB=nb, UR=1)), narrow)
