"""What fits an operator's rule about shapes fits its reference: kernels would read what is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from clgraph.compilation.sources import read_source
from clgraph.errors import ClgraphError, UnknownValueError
from clgraph.graph.program import Program
from clgraph.graph.random_numbers import RANDOM_KEY
from clgraph.graph.topology import Topology
from clgraph.passes.reference import run_reference
from tools.fuzzing.seeds import seeds

ELEMENTS_DECIDE = "updates from"
"""What TensorScatter says of places, which are elements."""


def built(topology: Topology, feeds: Mapping[str, np.ndarray]) -> Program | None:
    """Return the program for *feeds*, ``None`` where they are refused."""
    shapes = {n: a.shape for n, a in feeds.items() if n in topology.inputs}
    known: dict[str, Any] = {}
    while True:
        try:
            return topology.with_shapes(shapes, anew=True).build(shapes, known)
        except UnknownValueError as error:
            if not set(error.inputs) - set(known):
                return None
            known |= {n: feeds[n] for n in error.inputs}
        except ClgraphError:
            return None


def odd(feeds: Mapping[str, np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    """Yield *feeds* with one size of one input larger."""
    for name, array in feeds.items():
        for axis, size in enumerate(array.shape):
            for new in (size + 1, 2 * size + 3):
                shape = (*array.shape[:axis], new, *array.shape[axis + 1 :])
                yield {**feeds, name: np.resize(array, shape)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_shapes_that_a_rule_takes_the_reference_takes() -> None:
    accepted, wrong = 0, []
    for seed in seeds():
        try:
            topology = read_source(seed.model, None, None)
        except ClgraphError:
            continue  # not everything in onnx's test suite is supported: that is listed elsewhere
        if RANDOM_KEY in topology.inputs or not set(topology.inputs) <= set(seed.feeds):
            continue
        for feeds in odd({n: np.asarray(a) for n, a in seed.feeds.items()}):
            if (program := built(topology, feeds)) is None:
                continue
            accepted += 1
            try:
                found = run_reference(program, feeds, exact=False)
            except ClgraphError as error:
                if ELEMENTS_DECIDE not in str(error):
                    wrong.append(f"{seed.name}: {error}")
                continue
            wrong += [f"{seed.name}: {n}" for n, v in program.outputs if found[n].shape != v.layout.shape]
    assert not wrong
    assert accepted > 1000
