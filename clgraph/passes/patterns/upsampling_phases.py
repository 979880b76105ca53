"""The phases of a transposed convolution along an axis: each is a convolution of the input."""

from __future__ import annotations

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.graph.primitive import Array


@frozen
class UpsamplingPhase:
    """The elements ``r + stride * u`` of the result: the sum over its taps of tap k times element ``u + shift`` of x.

    Attributes:
        taps: Places in the kernel, by their shifts.
        shifts: Ascending, evenly spaced; as many as taps, and none where no tap meets the phase.
    """

    taps: tuple[int, ...]
    shifts: tuple[int, ...]


def axis_phases(kernel: int, stride: int, dilation: int, before: int) -> tuple[UpsamplingPhase, ...]:
    """Return the phases r of an axis, of which there are *stride*, once *before* elements have been cut off.

    Element ``i * stride + k * dilation - before`` is where tap k of the *kernel* puts its product with element i.
    """
    phases = []
    for r in range(stride):
        steps = (divmod(r + before - k * dilation, stride) for k in range(kernel))
        met = sorted((shift, k) for k, (shift, rest) in enumerate(steps) if not rest)
        phases.append(UpsamplingPhase(tuple(k for _, k in met), tuple(shift for shift, _ in met)))
    return tuple(phases)


def may_meet_zeros(weights: Array) -> bool:
    """Whether products of *weights* with zeros beside the input are zeros, as sums over phases take for granted."""
    return bool(np.isfinite(weights).all())
