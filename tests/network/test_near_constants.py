"""Copies of mapped weights in large pages."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import clgraph
from clgraph.core.aligned import aligned
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.core.mapped import MappedFile
from clgraph.graph.node import Value
from clgraph.graph.primitive import Array
from clgraph.graph.program import Program
from clgraph.network import near_constants
from clgraph.network.borrowing import LEAST_BYTES, address_of, left_at, suits_all
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
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_constants, "LEAST_BYTES", 2 * 4 * COUNT)
    monkeypatch.setattr(near_constants, "has_large_pages", lambda: True)


@pytest.fixture
def arrays(tmp_path: Path) -> list[Array]:
    """Return four arrays of a mapped file, each with 64 bytes behind it."""
    path = tmp_path / "weights"
    np.random.default_rng(3).standard_normal(4 * (COUNT + 16)).astype(np.float32).tofile(path)
    whole = np.frombuffer(MappedFile(path), np.float32).reshape(4, COUNT + 16)
    return [row[:COUNT] for row in whole]


def test_arrays_of_a_mapped_file_are_copied_once_so_that_any_kernel_can_read_them(arrays: list[Array]) -> None:
    near, own = NearConstants(), np.zeros(COUNT, np.float32)
    own.flags.writeable = False
    found = near.of([*arrays[:3], own])
    assert set(found) == {id(a) for a in arrays[:3]}, "what is not mapped stays"
    for array in arrays[:3]:
        copy = found[id(array)]
        np.testing.assert_array_equal(copy, array)
        assert not np.shares_memory(copy, array)
        address = left_at(copy)
        assert address is not None
        assert suits_all(copy, address)
    again = near.of(arrays)
    assert all(again[key] is copy for key, copy in found.items())
    assert id(arrays[3]) not in again, "one more is too little for a copy"


@pytest.mark.parametrize("why", ["few", "many", "small pages"])
def test_few_weights_and_too_many_stay_in_their_file(
    arrays: list[Array], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "many":
        monkeypatch.setattr(near_constants, "MOST_BYTES", 4 * 4 * COUNT)
    if why == "small pages":
        monkeypatch.setattr(near_constants, "has_large_pages", lambda: False)
    assert not NearConstants().of(arrays[:1] if why == "few" else arrays)


def test_copies_live_as_long_as_they_are_used_and_count_so_long(
    arrays: list[Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_constants, "MOST_BYTES", 3 * 4 * COUNT)
    near = NearConstants()
    found = near.of(arrays[:2])
    assert len(found) == 2
    assert not near.of(arrays[2:]), "there is no room for two more"
    near._copies[id(arrays[2])] = near._copies[id(arrays[0])]
    assert not near.of(arrays[2:3]), "an id is given again when its array is gone"
    del found
    gc.collect()
    assert len(near.of(arrays[2:])) == len(near._copies) == 2


@pytest.mark.opencl
def test_networks_of_a_model_read_the_same_copies(engine: Engine, arrays: list[Array]) -> None:
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    second, first = arrays[:2]  # copied in the order of the nodes
    x = Value("x", Layout.of(first))
    a = linked(x, Scale(1.0, 1), "a", Value("k0", x.layout, constant=first))
    b = linked(a.output, Scale(-1.0, 2), "b", Value("k1", x.layout, constant=second))
    program = planned(Program([x], [("y", b.output)], [a, b]), engine.info, [ScaleTile] * 2)
    workspace, name = Workspace(), engine.info.name
    networks = [Network(program, {name: engine}, workspace=workspace) for _ in range(2)]
    array = np.random.default_rng(4).standard_normal(COUNT).astype(np.float32)
    (want,) = b.reference(a.reference(array, first)[0], second)
    copies = workspace.constants.near.of(arrays[:2])
    begin = min(address_of(copy) for copy in copies.values())
    for network in networks:
        np.testing.assert_array_equal(network.run({"x": array})["y"], want)
        places = [network._places[name].at(node.inputs[1])[1] for node in (a, b)]
        assert places == [address_of(copies[id(k)]) - begin for k in (first, second)]
    del networks, network
    gc.collect()
    np.testing.assert_array_equal(copies[id(first)], first)


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
    monkeypatch.setattr(NearConstants, "of", lambda _, arrays: asked.extend(a.size for a in arrays) or {})
    model = clgraph.compile(made, device=device)
    model.run({"ids": np.array([0, 5, 7])})
    if "host_memory" not in model.device.features:
        pytest.skip("the device copies")
    assert asked == [-(-(COUNT // 16) // 64) * 64 * 32]
