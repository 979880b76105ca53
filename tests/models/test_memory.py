"""Memory of whole models: poisoned runs, any valid order of execution, and how close the arena is to its bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import clgraph
from clgraph.debugging.compare import compare
from clgraph.engines.opening import options_of
from clgraph.frontend.onnx_loader import load_onnx
from tests.support.matrix import load, model_names
from tests.support.models import FEW, HEAVY
from tests.support.poisoned import any_order, run_in_order, same_bits
from tests.support.zoo import ZOO, zoo_names

pytestmark = pytest.mark.opencl


def poisoned_like_plain(name: str, device: str, out_of_order: bool, orders: int = 0) -> None:
    source, feeds = load(name)
    shapes = {n: a.shape for n, a in feeds.items()}
    config = {"out_of_order": out_of_order, "executor": "stream"}
    model = clgraph.compile(source, device, shapes=shapes, config=config)
    wanted = model.run(feeds)
    if not out_of_order:
        assert same_bits(clgraph.compile(source, device, shapes=shapes).run(feeds), wanted)
    poisoned = clgraph.compile(source, device, shapes=shapes, config=config | {"poison": True})
    for _ in range(2):
        assert same_bits(poisoned.run(feeds), wanted)
    for seed in range(orders):
        assert same_bits(run_in_order(model, feeds, any_order(model.program, seed)), wanted), seed


@pytest.mark.parametrize("out_of_order", [False, True])
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "ocr-rec"])
def test_a_model_gives_the_same_bits_on_poisoned_memory_and_in_any_order(
    name: str, out_of_order: bool, device: str, fetched: Callable[[str], Path]
) -> None:
    if name.startswith("ocr"):
        fetched(name)
    poisoned_like_plain(name, device, out_of_order, orders=2 if out_of_order else 0)


@pytest.mark.slow
@pytest.mark.parametrize("out_of_order", [False, True])
@pytest.mark.parametrize("name", model_names())
def test_every_model_gives_the_same_bits_on_poisoned_memory_and_in_any_order(
    name: str, out_of_order: bool, device: str, fetched: Callable[[str], Path]
) -> None:
    if name.startswith("ocr"):
        fetched(name)
    poisoned_like_plain(name, device, out_of_order, orders=5 if out_of_order else 0)


@pytest.mark.parametrize("name", zoo_names(small=True))
def test_other_families_give_the_same_bits_on_poisoned_memory_and_agree_with_their_references(
    name: str, device: str
) -> None:
    model, feeds = ZOO[name].make()
    shapes = {n: a.shape for n, a in feeds.items()}
    wanted = clgraph.compile(model, device, shapes=shapes, config={"executor": "stream"}).run(feeds)
    assert same_bits(clgraph.compile(model, device, shapes=shapes, config={"poison": True}).run(feeds), wanted)
    found = compare(load_onnx(model), feeds, options_of(device))
    assert found.agrees, found.verdict()


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in HEAVY)) for n in model_names()])
def test_the_arena_is_at_most_a_tenth_above_the_most_bytes_alive(name: str, fetched: Callable[[str], Path]) -> None:
    if name.startswith("ocr"):
        fetched(name)
    source, feeds = load(name, hidden=256, drawn=FEW)
    model = clgraph.compile(source, "null", shapes={n: a.shape for n, a in feeds.items()})
    for arena in model.program.arenas.values():
        assert arena.lower_bound <= arena.nbytes <= 1.10 * arena.lower_bound
