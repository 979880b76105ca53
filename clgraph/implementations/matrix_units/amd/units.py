"""AMD's matrix units: WMMA and MFMA, on tiles in local memory."""

from __future__ import annotations

from clgraph.implementations.matrix_units.units import MatrixUnits, Unit, UnitTile


def _tiles(unit: Unit) -> tuple[UnitTile, ...]:
    lanes = unit.lanes
    return tuple(
        UnitTile(
            32 * each,
            32 * each,
            (4 * lanes, 1),
            2 * 32 * each * 80,
            (("LANES", lanes), ("WORDS", unit.words), ("WAVES", 2), ("EACH", each)),
            share,
        )
        for each, share in ((4, 0.4), (2, 0.25))
    )


MATRIX = MatrixUnits(
    feature="amd_matrix",
    units=(Unit("amd_mfma", 64, 2, 8, 6.0), Unit("amd_wmma12", 32, 4, 8, 4.0), Unit("", 32, 8, 8, 2.0)),
    tiles=_tiles,
    entry="convolution_amd",
    blocks_weights=False,
)
"""MFMA of CDNA, WMMA of RDNA 4 and of RDNA 3."""
