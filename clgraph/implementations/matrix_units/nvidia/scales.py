"""What scales the products of ``F16X3``: the largest magnitudes of a product's factors, by entries."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from clgraph.core.dtype import DType
from clgraph.core.frozen import frozen
from clgraph.core.layout import Layout
from clgraph.implementations.gpu.vectors import LANES, vector_jit
from clgraph.ops.matmul import MatrixProduct
from clgraph.selector.plan import Launch, Table
from clgraph.selector.query import DeviceInfo
from clgraph.selector.views import Space, View, space

_GROUP = 256
_PARTS = 256
"""Parts that entries are searched in, of all of them, where there are not more entries; and of one entry at most."""
_SHORT = 1 << 13
"""Elements of an entry for which 32 work-items are enough."""
_BANDWIDTH = 0.7
"""Share of the memory's rate. An estimate."""


@frozen
class ScaledEntries:
    """The entries of a factor, each of which has a scale of its own.

    Attributes:
        axes: Those that count the entries, then those in an entry, the innermost contiguous.
    """

    axes: Space

    @staticmethod
    def of(dims: Sequence[int], view: View, outer: int) -> ScaledEntries:
        """Return the entries along the first *outer* axes of *dims*; what lies in one is read in memory's order."""
        inner = sorted(range(outer, len(dims)), key=lambda axis: -view.pitches[axis])
        return ScaledEntries(space(tuple(dims), [view], [range(outer), inner]))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.axes.counts[0]

    @property
    def team(self) -> int:
        """Work-items that search a part."""
        return 32 if self.axes.counts[1] < _SHORT else _GROUP

    @property
    def parts(self) -> int:
        """Parts of an entry, a power of two."""
        wanted = min(_PARTS // self.count, self.axes.counts[1] // (LANES * self.team))
        return 1 << max(wanted, 1).bit_length() - 1

    @property
    def nbytes(self) -> int:
        """Bytes that are read."""
        return 4 * prod(self.axes.dims)

    @property
    def groups(self) -> int:
        """Groups that search all parts."""
        return -(-self.count * self.parts // (_GROUP // self.team))

    def numbers(self, outer: int, inner: int) -> list[int]:
        """Return what the kernel is told, on so many axes that count entries, and that are in one."""
        s, first = self.axes, self.axes.groups[0]
        dims = (*s.dims[:-1], s.dims[-1] // LANES)
        missing = (outer - first, inner - s.groups[1])
        (view,) = s.views
        return [
            *(self.team, self.parts, self.count * self.parts),
            *((1,) * missing[0] + dims[:first] + (1,) * missing[1] + dims[first:]),
            prod(dims[first:]),
            view.origin,
            *((0,) * missing[0] + view.pitches[:first] + (0,) * missing[1] + view.pitches[first:]),
        ]


@frozen
class Scales:
    """The factors of a product that is scaled: *a* by entries of some rows, *b* by one or by those of the batch."""

    a: ScaledEntries
    b: ScaledEntries

    @property
    def scratch_bytes(self) -> int:
        """Of what is found."""
        return 4 * sum(e.count * e.parts for e in (self.a, self.b))

    @property
    def numbers(self) -> tuple[int, int, int]:
        """What the kernels of products are told: parts of an entry of a, where those of b begin, parts of one."""
        return self.a.parts, self.a.count * self.a.parts, self.b.parts

    def seconds(self, device: DeviceInfo) -> float:
        """Return the time of :meth:`step`."""
        return device.launch_seconds + (self.a.nbytes + self.b.nbytes) / (device.bytes_per_second * _BANDWIDTH)

    def step(self, scratch: str) -> Launch:
        """Return the launch that finds the largest magnitudes, in a *scratch* of that role."""
        both = (self.a, self.b)
        outer, inner = (max(e.axes.groups[i] for e in both) for i in (0, 1))
        numbers = [self.a.groups, *(n for e in both for n in e.numbers(outer, inner))]
        entry, jit = "matmul_gpu_largest", vector_jit(DType.F32, outer + inner).define(OUTER=outer)
        arguments = ("in0", "in1", scratch, Table(tuple(numbers)))
        grid = ((self.a.groups + self.b.groups) * _GROUP,)
        return Launch(f"matmul/{entry}.cl", entry, jit, grid, (_GROUP,), arguments)


def scales_of_images(x: Layout, w: Layout) -> Scales:
    """Return those of a convolution: an image has a scale, and the weights."""
    return Scales(ScaledEntries.of(x.shape, View.of(x), 1), ScaledEntries.of((1, *w.shape), _one(View.of(w)), 1))


def scales_of_matrices(p: MatrixProduct) -> tuple[Scales, tuple[int, int]]:
    """Return those of a matrix product, the rows of an entry of a, and whether each matrix has a b of its own.

    A row of a single product has a scale of its own, because it may be one of a batch; of a batch of products each has.
    """
    *batch, m, n = p.dims
    several, own = prod(batch) > 1, any(pitch for pitch in p.b.pitches[:-2])
    a = ScaledEntries.of((*batch, m, p.k), View(p.a.origin, (*p.a.pitches[:-1], 1)), len(batch) + (not several))
    b_dims, b_pitches = (batch, p.b.pitches[:-2]) if own else ([1], (0,))
    b = ScaledEntries.of((*b_dims, n, p.k), View(p.b.origin, (*b_pitches, p.b.pitches[-1], 1)), len(b_dims))
    return Scales(a, b), (m if several else 1, int(own))


def _one(view: View) -> View:
    """Return the view with an axis of one entry in front."""
    return View(view.origin, (0, *view.pitches))
