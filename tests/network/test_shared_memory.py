"""What the specialisations of a model and its clones share: packed weights, copies of constants, the arena."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.graph.primitive import Array
from clgraph.network.addresses import LEAST_BYTES
from clgraph.passes.packed_weights import PackedWeights, Recipe
from tests.support.allocations import noted_memory
from tests.support.kept import KEPT, keeping_few
from tests.support.open_models import convolutions, shapes_of

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_no_constant_is_packed_twice(device: str, device_class: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recipe] = []
    remember = PackedWeights.remember

    def noting(self: PackedWeights, recipe: Recipe | None, array: Array, **options: Any) -> Array:
        assert recipe is not None
        made.append(recipe)
        return remember(self, recipe, array, **options)

    monkeypatch.setattr(PackedWeights, "remember", noting)
    model = clgraph.compile(convolutions(), device=device, config={"device_class": device_class})
    twin = model.clone()
    for number, shape in enumerate(shapes_of(0, 3 * KEPT)):
        (model, twin)[number % 2].prepare({"x": shape})
    assert len(made) >= (8 if device_class == "cpu" else 2)
    assert len(made) == len(set(made))


def test_large_constants_are_copied_to_a_device_once(device: str) -> None:
    """Without Winograd's weights, which some of the sizes only have."""
    model = clgraph.compile(convolutions(), device=device, config={"device_class": "gpu", "winograd": False})
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 8)).astype(np.float32)
    expected = model.run({"x": x})["y"]
    twin = model.clone()
    for shape in shapes_of(1, 4):
        twin.prepare({"x": shape})
    np.testing.assert_array_equal(twin.run({"x": x})["y"], expected)
    copies = twin._specialisations._workspace.constants._copies
    assert copies is model._specialisations._workspace.constants._copies
    large = {
        id(v.constant) for v in model.program.constants if v.constant is not None and v.layout.nbytes >= LEAST_BYTES
    }
    assert large
    assert {number for (_, number), (array, _, _) in copies.items() if array().nbytes >= LEAST_BYTES} == large


def test_the_network_of_one_more_shape_takes_little_memory(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the arena: no constants, scratch, counters or stand-ins of inputs, whose array is 300 KB here."""
    model = clgraph.compile(convolutions(), device=device)
    shapes = [(1, 3, 160 - i // 8, 160 - i % 8) for i in range(51)]
    model.prepare({"x": shapes[0]})
    workspace = model._specialisations._workspace
    held = [model._specialisations.latest]
    alive = noted_memory(monkeypatch)
    specialise = model._specialisations.specialise
    held += [specialise(model.topology, {"x": shape}, {}, workspace) for shape in shapes[1:]]
    arenas = {m for (_, what), found in workspace._held.items() if "arena" in what for m in found}
    networks = [s.network for s in held[1:] if s is not None and s.network is not None]
    taken = sum(m.nbytes for m in alive if m not in arenas)
    assert len(networks) == 50
    assert 0.9 * taken <= sum(n.nbytes for n in networks) <= taken < 50 * 4000
    first, last = (np.random.default_rng(1).standard_normal(shapes[i]).astype(np.float32) for i in (0, 50))
    want = [model.run({"x": x})["y"] for x in (first, last)]
    np.testing.assert_array_equal(networks[-1].run({"x": last})["y"], want[1])
    np.testing.assert_array_equal(model.run({"x": first})["y"], want[0])


def test_sizes_in_turn_give_what_each_gives_alone(device: str) -> None:
    source = convolutions()
    model = clgraph.compile(source, device=device)
    for batch in (1, 8, 3, 8, 1):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 20, 30)).astype(np.float32)
        alone = clgraph.compile(source, device=device)
        np.testing.assert_array_equal(model.run({"x": x})["y"], alone.run({"x": x})["y"])


def test_evicted_specialisations_give_back_their_memory_at_once(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waiting for Python's collector of cycles; what is alive belongs to the specialisations that are kept."""
    alive = noted_memory(monkeypatch)
    model = clgraph.compile(convolutions(), device=device, config=keeping_few(monkeypatch))
    gc.collect()
    gc.disable()
    try:
        counts = []
        for shape in shapes_of(2, 3 * KEPT):
            x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            model.run({"x": x})
            counts.append(len(alive) / len(model._specialisations.kept))
        each = max(counts[:KEPT])
        assert max(counts) <= each
        model.close()
        assert not [m for m in alive if m.nbytes >= LEAST_BYTES]
    finally:
        gc.enable()


def test_networks_of_one_model_share_their_arena_and_clones_have_one_of_their_own(device: str) -> None:
    model = clgraph.compile(convolutions(), device=device)
    model.prepare({"x": (1, 3, 30, 30)})
    twin = model.clone()
    model.prepare({"x": (1, 3, 29, 29)})

    def arenas(of: clgraph.Model) -> set[int]:
        networks = [s.network for s in of._specialisations.kept.values()]
        return {id(p.banks[0]) for n in networks if n is not None for p in n.bound.places.values()}

    assert len(arenas(model)) == 1
    assert arenas(model).isdisjoint(arenas(twin))


def test_networks_that_share_memory_do_not_run_at_the_same_time(device: str) -> None:
    model = clgraph.compile(convolutions(), device=device)
    inputs = [np.random.default_rng(i).standard_normal((1, 3, 40 - i, 40)).astype(np.float32) for i in range(2)]
    wanted = [model.run({"x": x})["y"] for x in inputs]
    networks = [s.network for s in model._specialisations.kept.values()]

    def runs_alike(i: int) -> bool:
        network = networks[i % 2]
        assert network is not None
        return all(np.array_equal(network.run({"x": inputs[i % 2]})["y"], wanted[i % 2]) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(runs_alike, range(4)))
