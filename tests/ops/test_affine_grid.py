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
    layouts = [Layout(DType.F32, (1, 2, 3)), Layout(DType.I64, (4,))]
    AffineGrid().inline(layouts, [None, np.array([1, 3, 2, 2])])  # what is imported first would count, too
    tracemalloc.start()
    AffineGrid().inline(layouts, [None, np.array([1, 3, 600, 800])])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two numbers a row and two times three a column, in float64 and then in float32; the rest are layers.
    assert most < (600 * 2 + 800 * 6) * (8 + 4) + 20000


def test_a_grid_of_halves_is_rounded_once(rng):
    theta = rng.standard_normal((2, 3, 4)).astype(np.float16)
    (found,) = AffineGrid(corners=True).reference(theta, np.array([2, 1, 3, 4, 21]))
    lines = [np.linspace(-1, 1, n) for n in (3, 4, 21)]
    mesh = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones((3, 4, 21))], axis=-1)
    want = np.einsum("nij,...j->n...i", theta.astype(np.float64), mesh)
    # A rounding to 11 bits, and sums in float of 4 numbers below 16.
    assert found.dtype == np.float16
    np.testing.assert_array_less(np.abs(found - want), 2.0**-11 * np.abs(want) + 8 * 16 * 2.0**-24)
