"""Intel's matrix units: DPAS, in sub-groups that read blocks without local memory."""

from __future__ import annotations

from clgraph.implementations.matrix_units.units import MatrixUnits, Unit, UnitTile


def _tiles(unit: Unit) -> tuple[UnitTile, ...]:
    lanes = unit.lanes
    return tuple(
        UnitTile(
            32 * rows,
            lanes * columns,
            (lanes, 4),
            0,
            (("LANES", lanes), ("ROWS", rows), ("COLUMNS", columns), ("SUB_GROUP_COUNT", 4)),
            share,
        )
        for rows, columns, share in ((2, 4, 0.3), (1, 4, 0.2), (1, 2, 0.12))
    )


DPAS = MatrixUnits(
    feature="intel_dpas",
    units=(Unit("intel_dpas16", 16, 0, 16, 6.0), Unit("", 8, 0, 16, 6.0)),
    tiles=_tiles,
    entry="convolution_intel",
    blocks_weights=True,
)
"""Of Xe HPC and Xe2, and of Xe HPG."""
