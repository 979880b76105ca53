"""Mapped weights that are brought into large pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.core import large_pages
from clgraph.core.aligned import aligned
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.mapped import MappedFile
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network import near_constants
from clgraph.network.addresses import LEAST_BYTES
from clgraph.network.near_constants import NearConstants
from clgraph.network.network import Network
from clgraph.network.workspace import Workspace
from clgraph.ops.gather import Gather
from clgraph.ops.matmul import MatMul
from clgraph.runtime.engine import Engine
from tests.support.tiny import Scale, ScaleTile, linked, planned

COUNT = LEAST_BYTES // 4
"""Floats of each array of the file."""


@pytest.fixture(autouse=True)
def replaced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[MappedFile, int, int]]:
    """Return what is replaced in this test, of few weights."""
    found: list[tuple[MappedFile, int, int]] = []
    replace = large_pages.replace

    def noted(file: MappedFile, begin: int, end: int) -> bool:
        found.append((file, begin, end))
        return replace(file, begin, end)

    monkeypatch.setattr(near_constants, "LEAST_BYTES", 2 * 4 * COUNT)
    monkeypatch.setattr(large_pages, "has_large_pages", lambda: True)
    monkeypatch.setattr(large_pages, "replace", noted)
    return found


@pytest.fixture
def file(tmp_path: Path) -> MappedFile:
    """Return a mapped file of four arrays, each with 64 bytes behind it."""
    path = tmp_path / "weights"
    np.random.default_rng(3).standard_normal(4 * (COUNT + 16)).astype(np.float32).tofile(path)
    return MappedFile(path)


@pytest.fixture
def arrays(file: MappedFile) -> list[Array]:
    """Return the arrays."""
    return [row[:COUNT] for row in np.frombuffer(file, np.float32).reshape(4, COUNT + 16)]


def test_a_model_that_is_run_again_has_its_mapped_weights_replaced_once(
    file: MappedFile, arrays: list[Array], replaced: list[object]
) -> None:
    near, own, want = NearConstants(), np.zeros(COUNT, np.float32), arrays[1].copy()
    near.ask([*arrays[:3], own])
    near.begin()
    near.finish()
    assert not replaced, "a process that runs a model once does not pay for it"
    near.begin()
    near.ask(arrays[:3])
    near.begin()
    near.finish()
    assert len(replaced) == len(file.replaced) == 1
    np.testing.assert_array_equal(arrays[1], want)


@pytest.mark.parametrize("why", ["few", "many", "small pages"])
def test_few_weights_and_too_many_stay_in_their_file(
    arrays: list[Array], monkeypatch: pytest.MonkeyPatch, why: str, replaced: list[object]
) -> None:
    near = NearConstants()
    if why == "many":
        monkeypatch.setattr(near_constants, "MOST_BYTES", 3 * 4 * COUNT)
    if why == "small pages":
        monkeypatch.setattr(large_pages, "has_large_pages", lambda: False)
    near.ask(arrays[:1] if why == "few" else arrays)
    _run_twice(near)
    assert not replaced


def test_all_weights_of_a_model_count(
    file: MappedFile, arrays: list[Array], monkeypatch: pytest.MonkeyPatch, replaced: list[object]
) -> None:
    monkeypatch.setattr(near_constants, "MOST_BYTES", 3 * 4 * COUNT)
    near, other = NearConstants(), MappedFile(file.path)
    near.ask(arrays[:2])
    near.ask(list(np.frombuffer(other, np.float32).reshape(4, COUNT + 16)[:2, :COUNT]))
    _run_twice(near)
    assert len(replaced) == 1
    assert not other.replaced


def _run_twice(near: NearConstants) -> None:
    near.begin()
    near.begin()
    near.finish()


@pytest.mark.opencl
def test_networks_of_a_model_read_weights_that_are_replaced_where_they_lay(
    engine: Engine, file: MappedFile, arrays: list[Array]
) -> None:
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    first, second = arrays[:2]
    x = Value("x", Layout.of(first))
    a = linked(x, Scale(1.0, 1), "a", Value("k0", x.layout, constant=first))
    b = linked(a.output, Scale(-1.0, 2), "b", Value("k1", x.layout, constant=second))
    program = planned(Program([x], [("y", b.output)], [a, b]), engine.info, [ScaleTile] * 2)
    workspace, name = Workspace(), engine.info.name
    networks = [Network(program, {name: engine}, workspace=workspace) for _ in range(2)]
    array = np.random.default_rng(4).standard_normal(COUNT).astype(np.float32)
    (want,) = b.reference(a.reference(array, first)[0], second)
    for network in networks:
        np.testing.assert_array_equal(network.run({"x": array})["y"], want)
    workspace.constants.near.finish()
    assert file.replaced
    for network in networks:
        np.testing.assert_array_equal(network.run({"x": array})["y"], want)


@pytest.mark.opencl
def test_a_table_that_rows_are_picked_from_stays_in_its_file(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = clgraph.Topology()
    ids = made.input("ids", (3,), DType.I64)
    many = aligned(8 * COUNT).view(np.float32).reshape(COUNT // 16, 32)
    many[...] = np.random.default_rng(5).standard_normal(many.shape)
    many.flags.writeable = False
    table = made.constant("table", many)
    weights = made.constant("weights", np.random.default_rng(6).standard_normal((32, COUNT // 16)).astype(np.float32))
    rows = made.add("rows", Gather(0), table, ids)
    made.output("y", made.add("y", MatMul(), rows, weights))
    asked: list[int] = []
    monkeypatch.setattr(NearConstants, "ask", lambda _, arrays: asked.extend(a.size for a in arrays))
    model = clgraph.compile(made, device=device)
    model.run({"ids": np.array([0, 5, 7])})
    if "host_memory" not in model.device.features:
        pytest.skip("the device copies")
    assert asked == [-(-(COUNT // 16) // 64) * 64 * 32]
