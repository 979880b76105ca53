"""Fitting a cost model to samples."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from clgraph.selector.costs import CostModel
from clgraph.selector.implementation import IMPLEMENTATIONS
from clgraph.selector.tuning import Tuning
from clgraph.tuner.measure import Sample

PRODUCTS = ("convolution.fsv16", "matmul.rows", "matmul.gpu_tiled", "convolution.gpu_tiled")
"""Implementations whose time is that of their products: they show the peak."""

_LONG = 3.0e-5
"""Seconds beyond which the begin of a step does not count."""

_SCALES = (0.05, 20.0)
"""Least and largest scale; beyond them the cost is wrong, not the device."""


def fit(model: CostModel, samples: Sequence[Sample]) -> CostModel:
    """Return *model* with figures that fit *samples*; what they do not show stays as it is.

    The begin of a step is the shortest sample, the memory's rate that of the sample that moves most beyond the shared
    cache, a worker's peak what makes the products' estimates right in the median. What is left of each
    implementation's error is its scale: the median of measured by estimated time beyond the begin.
    """
    samples = [s for s in samples if s.right]
    if not samples:
        return model
    begin = min(model.step_seconds, *(s.seconds for s in samples))
    model = replace(model, origin="fitted", scales={}, step_seconds=begin)
    far = [s for s in samples if _moved(s) > 4 * model.cache_bytes]
    if far and model.bytes_a_flop is None:
        most = max(far, key=_moved)
        model = replace(model, bytes_per_second=_moved(most) / most.seconds)
    long = [s for s in samples if s.implementation in PRODUCTS and s.seconds > _LONG]
    if long and model.flops_a_cycle is None:
        ratio = statistics.median(_ratio(model, s) for s in long)
        model = replace(model, worker_flops=model.worker_flops / ratio)
    ratios: dict[str, list[float]] = {}
    for s in samples:
        if s.seconds > 2 * begin:
            ratios.setdefault(s.implementation, []).append(_ratio(model, s))
    low, high = _SCALES
    scales = {name: min(max(statistics.median(found), low), high) for name, found in ratios.items()}
    return replace(model, scales={name: float(f"{scale:.3g}") for name, scale in sorted(scales.items())})


def _ratio(model: CostModel, s: Sample) -> float:
    cost = estimate_by(model, s)
    return max(s.seconds - model.step_seconds, 1e-9) / max(cost - model.step_seconds, 1e-9)


def estimate_by(model: CostModel, s: Sample) -> float:
    """Return the seconds that *model* gives for the problem of a sample, with the workers it was measured with."""
    laid_out = replace(s.query, device=replace(s.query.device, tuning=Tuning(model)))
    return IMPLEMENTATIONS[s.implementation].predicted(laid_out)


def _moved(s: Sample) -> float:
    return float(sum(x.nbytes for x in (*s.query.inputs, *s.query.outputs)))
