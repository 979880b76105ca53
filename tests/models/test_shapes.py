"""The PP-OCRv4 models at many sizes: against ONNX Runtime, against models compiled for one size, and their memory."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import clgraph
from clgraph.graph.buffer import Buffer
from clgraph.graph.node import Node, Value
from clgraph.graph.program import Program
from clgraph.network.buffer_table import BufferTable
from clgraph.network.network import Network
from tests.support.kept import KEPT, keeping_few, resident_bytes
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl

TOLERANCE = 1e-3
"""Of the scale of the results, which are probabilities: 1. Whole models add up in another order, see ``oracle``."""

SIZES = {
    "ocr-det": [(1, 32, 32), (1, 1, 1), (1, 2, 31), (1, 64, 96), (2, 96, 64), (1, 160, 32), (3, 29, 62), (0, 32, 32)],
    "ocr-rec": [(1, 48, 1), (1, 48, 7), (2, 48, 33), (1, 32, 64), (1, 47, 100), (3, 48, 160), (6, 49, 81)],
    "ocr-cls": [(1, 48, 192), (1, 1, 1), (2, 17, 131), (3, 49, 108), (7, 32, 32), (1, 60, 250)],
}


def runs(name: str, fetched: Callable[[str], Path], device: str, sizes: list[tuple[int, int, int]]) -> None:
    path = fetched(name)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    model = clgraph.compile(path, device)
    for number, (batch, height, width) in enumerate(sizes):
        x = image((batch, 3, height, width), number)
        (wanted,) = session.run(None, {"x": x})
        found = model(x)
        assert found.shape == wanted.shape
        assert np.abs(found - wanted).max(initial=0) <= TOLERANCE, (batch, height, width)


@pytest.mark.parametrize("name", SIZES)
def test_text_models_agree_with_onnxruntime_at_any_size(name: str, fetched: Callable[[str], Path], device: str) -> None:
    runs(name, fetched, device, SIZES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_text_models_agree_with_onnxruntime_at_random_sizes(
    name: str, fetched: Callable[[str], Path], device: str
) -> None:
    random = np.random.default_rng(0)
    unit, least = {"ocr-det": (32, 1), "ocr-rec": (1, 30), "ocr-cls": (1, 16)}[name]
    sizes = [
        [int(random.integers(1, 4)), *(unit * int(d) for d in random.integers(least, 9 * 32 // unit, 2))]
        for _ in range(40)
    ]
    runs(name, fetched, device, [(b, h if name != "ocr-rec" else 48, w) for b, h, w in sizes])


@pytest.mark.parametrize("name", ["ocr-cls", "ocr-rec"])
def test_batches_in_turn_have_bits_that_no_turn_changes(name: str, fetched: Callable[[str], Path], device: str) -> None:
    path, images = fetched(name), {n: image((n, 3, 48, 64), n) for n in (1, 8, 3)}
    other = clgraph.compile(path, device)
    wanted = {n: other(images[n]) for n in (3, 1, 8)}
    model = clgraph.compile(path, device)
    for batch in (1, 8, 3, 8, 1):
        np.testing.assert_array_equal(model(images[batch]), wanted[batch])
    # A shape that is given has kernels chosen for it alone, in which sums may be taken in another order.
    for batch, x in images.items():
        alone = clgraph.compile(path, device, shapes={"x": x.shape})(x)
        assert np.abs(alone - wanted[batch]).max() <= TOLERANCE


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell how much memory is used")
def test_memory_stays_flat_over_a_thousand_sizes(fetched: Callable[[str], Path], device: str) -> None:
    """The memos of choices fill up over the first sizes; from then on nothing may stay behind.

    A specialisation, its nodes and descriptors without the shared weights and arena, takes a tenth of a megabyte at
    least, so that 500 left behind would take 50 MB.
    """
    model = clgraph.compile(fetched("ocr-det"), device)
    random = np.random.default_rng(0)
    model(np.zeros((3, 3, 256, 512), np.float32))
    seen = []
    for number in range(1000):
        height, width = (32 * int(d) for d in (random.integers(1, 9), random.integers(1, 17)))
        model(np.zeros((int(random.integers(1, 4)), 3, height, width), np.float32))
        if number % 50 == 49:
            gc.collect()
            seen.append(resident_bytes())
    assert max(seen[10:]) - max(seen[8:10]) <= 25e6, seen


def test_no_more_is_alive_than_belongs_to_the_specialisations_that_are_kept(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a search for cyclic garbage."""
    model = clgraph.compile(small_model(size="n"), device, config=keeping_few(monkeypatch))
    made: list[weakref.ref[Program] | weakref.ref[Network] | weakref.ref[BufferTable]] = []
    nodes = []
    gc.collect()
    gc.disable()
    try:
        for number, size in enumerate(range(2, 2 + 10 * KEPT)):
            model(np.zeros((1, 3, size, size // 2 + 1), np.float32))
            network = model._specialisations.latest.network
            made += map(weakref.ref, (network.program, network, *network.bound.places.values()))
            if number in (KEPT, 10 * KEPT - 1):
                nodes.append(sum(isinstance(o, Node | Value | Buffer) for o in gc.get_objects()))
    finally:
        gc.enable()
    del network
    alive = Counter(type(o) for ref in made if (o := ref()) is not None)
    assert KEPT / 2 < len(model.compiled) <= KEPT
    assert alive == dict.fromkeys((Program, Network, BufferTable), len(model.compiled))
    first, last = nodes
    assert last <= 2 * first


def test_a_model_that_nobody_holds_gives_back_its_weights_at_once(device: str) -> None:
    gc.collect()
    gc.disable()
    try:
        model = clgraph.compile(small_model(size="n"), device)
        model(np.zeros((1, 3, 20, 20), np.float32))
        weights = [weakref.ref(v.constant) for v in model.program.constants]
        assert any(ref() is not None for ref in weights)
        del model
        assert not [ref() for ref in weights if ref() is not None]
    finally:
        gc.enable()
