"""The places of a grid: those of a mesh, in memory for them alone."""

import tracemalloc

import numpy as np
import pytest

from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.ops.affine_grid import AffineGrid


@pytest.mark.parametrize("spatial", [(4, 5), (1, 1), (3, 4, 5)])
def test_each_pixel_is_moved_from_its_centre(spatial, rng):
    rank = len(spatial)
    theta = rng.standard_normal((2, rank, rank + 1)).astype(np.float32)
    (found,) = AffineGrid().reference(theta, np.array([2, 3, *spatial]))
    lines = [(np.arange(n) * 2 + 1) / n - 1 for n in spatial]
    mesh = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(spatial)], axis=-1)
    # Sums of 3 or 4 products of numbers near 1.
    np.testing.assert_allclose(found, np.einsum("nij,...j->n...i", theta, mesh), rtol=0, atol=1e-5)


def test_a_grid_is_made_in_memory_for_its_places_alone():
    """Families of shapes build grids of the largest sizes, which nobody runs."""
    size = np.array([1, 3, 600, 800])
    tracemalloc.start()
    AffineGrid().inline([Layout(DType.F32, (1, 2, 3)), Layout(DType.I64, (4,))], [None, size])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Three floats a place; the rest are lines and layers.
    assert most < 1.1 * 600 * 800 * 3 * 4
