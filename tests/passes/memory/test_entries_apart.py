"""Operators that are said to keep the entries of a batch apart do, in all cases of the onnx package."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import clgraph.ops
from clgraph.compilation.sources import read_source
from clgraph.errors import ClgraphError
from clgraph.graph.primitive import PRIMITIVES
from clgraph.graph.program import Program
from clgraph.passes.memory.entries_apart import RULES
from clgraph.passes.memory.split_batch import BatchSlice, slice_of
from clgraph.passes.reference import run_reference
from tools.fuzzing.graphs import graph
from tools.fuzzing.seeds import seeds

Feeds = Mapping[str, Any]


def test_rules_are_of_kinds_that_there_are() -> None:
    for module in pkgutil.iter_modules(clgraph.ops.__path__, "clgraph.ops."):
        importlib.import_module(module.name)
    assert set(PRIMITIVES) >= RULES.keys()


def _cases() -> Iterator[tuple[str, Any, Feeds]]:
    """Yield the cases as they are, and with a second entry where they have one, of the first input or of all."""
    random = np.random.default_rng(0)

    def more(array: Any) -> Any:
        array = np.asarray(array)
        noise = random.standard_normal(array.shape).astype(array.dtype)
        return np.concatenate([array, array + noise if array.dtype.kind == "f" else array[..., ::-1]])

    for seed in [*seeds(), *(graph(number)[0] for number in range(300))]:
        yield seed.name, seed.model, seed.feeds
        ones = [name for name, array in seed.feeds.items() if np.shape(array)[:1] == (1,)]
        if ones and ones[0] == next(iter(seed.feeds)):
            for group in (ones[:1], ones):
                yield seed.name, seed.model, {n: more(a) if n in group else a for n, a in seed.feeds.items()}


def _program(model: Any, feeds: Feeds) -> Program | None:
    try:
        topology = read_source(model, None, None)
        shapes = {n: np.shape(a) for n, a in feeds.items() if n in topology.inputs}
        return topology.with_shapes(shapes, anew=True).build()
    except ClgraphError:
        return None  # of data, or of one entry only


@pytest.mark.slow
def test_slices_of_the_cases_of_onnx_make_up_the_whole() -> None:
    seen, count = set[str](), 0
    for name, model, feeds in _cases():
        program = _program(model, feeds)
        if program is None or any(v.name not in feeds for v in program.inputs) or not program.inputs:
            continue
        entries = (program.inputs[0].layout.shape or (1,))[0]
        slices = next((n for n in (2, 3, 5, entries) if n > 1 and entries % n == 0), 0)
        found = slice_of(program, slices) if slices else ""
        if not isinstance(found, BatchSlice):
            continue
        seen |= {node.primitive.kind for node in program}
        cut = {v.name for v in program.inputs if v.layout.shape[:1] == (entries,)}
        given = {v.name: np.asarray(feeds[v.name]) for v in program.inputs}
        whole = run_reference(program, given)
        found.apply(program)
        program.batch_slices = 1  # each of them by itself
        parts = [{n: np.split(a, slices)[i] if n in cut else a for n, a in given.items()} for i in range(slices)]
        each = [run_reference(program, part) for part in parts]
        for output, wanted in whole.items():
            made = np.concatenate([results[output] for results in each])
            # The same sums, which NumPy may add up in another order for another number of rows.
            close = {"rtol": 1e-6, "atol": 1e-6} if wanted.dtype.kind in "fc" else {"rtol": 0, "atol": 0}
            np.testing.assert_allclose(made, wanted, **close, err_msg=f"{name}: {output}")
        count += 1
    assert count > 900
    assert len(seen & RULES.keys()) > 25
