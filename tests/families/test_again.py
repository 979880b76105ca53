"""Members keep what runs them, and no nodes: those are bound again for who looks at them."""

from __future__ import annotations

import gc
from collections import Counter
from weakref import ref

import numpy as np
import pytest

import clgraph
from clgraph.graph.node import Node
from clgraph.graph.primitive import Array
from clgraph.network.commands import Command
from clgraph.passes.chosen import choice_of
from clgraph.selector.choose import Choice
from clgraph.selector.query import query_of
from tests.support.open_models import convolutions, reshaping, shapes_of

pytestmark = pytest.mark.opencl

FIRST, SECOND = (2, 3, 20, 30), (1, 3, 17, 9)


@pytest.fixture
def model(device: str) -> clgraph.Model:
    """A model of open sizes that has run in two."""
    model = clgraph.compile(convolutions(), device)
    for shape in (FIRST, SECOND):
        model.run({"x": image(shape)})
    return model


def image(shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def test_the_program_of_a_member_is_gone_when_another_one_is_bound(model: clgraph.Model) -> None:
    gc.disable()
    try:
        held = ref(model.program)
        model.run({"x": image((2, 3, 31, 11))})
        assert held() is None
        first = next(iter(model._specialisations.kept.values()))
        assert first.bound
        assert len(first.kept) == 0
    finally:
        gc.enable()


def test_members_that_are_kept_have_no_nodes_and_commands(model: clgraph.Model) -> None:
    """Python's collector would walk through all of them; there are those of representatives, and of who looks."""

    def count() -> Counter[type]:
        gc.collect()
        return Counter(type(o) for o in gc.get_objects() if isinstance(o, Node | Choice | Command))

    before = count()
    prepared = [model.prepare({"x": shape}) for shape in shapes_of(3, 6)]
    assert before[Node] > 0
    assert count() == before
    assert all(program.notes["family"].startswith("bound") for program in prepared)
    assert count() == before
    nodes = len(prepared[0])
    assert count()[Node] == before[Node] + nodes


def test_a_program_that_is_bound_again_is_the_same(model: clgraph.Model) -> None:
    text, notes = str(model.program), model.program.notes
    model.run({"x": image(FIRST)})
    assert str(model.program) != text
    model.run({"x": image(SECOND)})
    again = model.program
    assert str(again) == text
    assert again.notes == notes
    assert model.program is again


def test_the_problem_of_each_node_is_that_of_its_own_layouts(device: str) -> None:
    model = clgraph.compile(reshaping(), device)
    for rows in (4, 10):
        model.run({"x": image((rows, 6)), "shape": np.array([rows // 2, 12])})
        nodes = list(model.program)
        assert any(node.in_place for node in nodes)
        for node in nodes:
            assert choice_of(node).query == query_of(node, choice_of(node).query.device)


def test_members_are_profiled_watched_and_cloned_as_whole_programs_are(model: clgraph.Model) -> None:
    x = image(FIRST)
    want = model.run({"x": x})["y"]
    seen: list[str] = []

    class Noting:
        def before(self, node: Node, inputs: tuple[Array, ...]) -> None:
            seen.append(node.name)

        def after(self, node: Node, outputs: tuple[Array, ...]) -> None:
            pass

    np.testing.assert_array_equal(model.watch({"x": x}, Noting())["y"], want)
    assert seen == [node.name for node in model.program]
    assert {c.node for c in model.profile({"x": x}).commands} <= set(seen)
    np.testing.assert_array_equal(model.clone().run({"x": x})["y"], want)
    np.testing.assert_array_equal(model.run({"x": x})["y"], want)


@pytest.mark.parametrize("device_class", ["auto", "gpu"])
def test_kernels_keep_the_memory_that_they_read(device: str, device_class: str) -> None:
    """What a launch refers to lives as long as the network, when the commands are gone that it was bound by."""
    model = clgraph.compile(convolutions(), device, config={"device_class": device_class})
    x = image(FIRST)
    want = model.run({"x": x})["y"]
    for shape in shapes_of(4, 6):
        model.run({"x": image(shape)})
    gc.collect()
    np.testing.assert_array_equal(model.run({"x": x})["y"], want)


def test_a_clone_binds_the_members_that_it_is_asked_for(model: clgraph.Model) -> None:
    want = [model.run({"x": image(shape)})["y"] for shape in (FIRST, SECOND)]
    twin = model.clone()
    assert str(twin.program) == str(model.program)
    assert len(twin.compiled) == 1
    for shape, y in zip((FIRST, SECOND), want, strict=True):
        np.testing.assert_array_equal(twin.run({"x": image(shape)})["y"], y)
    assert len(twin.compiled) == 2
