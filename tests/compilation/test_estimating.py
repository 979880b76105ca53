"""What a model will take of a device's memory, known without running anything, beside what is allocated then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.compilation.batches import largest_batch
from clgraph.errors import DeviceError, InputError, MemoryLimitError, OptionError, UnsupportedError
from clgraph.graph.topology import Topology
from clgraph.network.constants import SLACK, UNIT
from clgraph.network.memory_need import memory_needs
from clgraph.ops.activation import Activation
from clgraph.runtime.engine import Engine
from tests.support.allocations import noted_allocations
from tests.support.graphs import FLOAT
from tests.support.open_models import convolutions, open_model

FREE = {"model_cache": 0}
X = {"x": (2, 3, 39, 38)}


def _products(rows: int | str = "n"):
    """A product whose weights take 1 MiB, of rows of 2 KiB."""
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return open_model(nodes, {"x": (FLOAT, (rows, 512))}, {"w": weights})


@pytest.mark.opencl
def test_a_saved_model_takes_what_is_estimated(device: str, tmp_path: Path) -> None:
    found = clgraph.estimate(convolutions(), device, X, config=FREE)
    clgraph.compile(convolutions(), device, X, config=FREE).save(tmp_path / "m.clg")
    loaded = clgraph.load(tmp_path / "m.clg", device, config=FREE)
    loaded.run({name: np.zeros(shape, np.float32) for name, shape in X.items()})
    assert memory_needs(loaded.program, loaded._specialisations.latest.devices) == found.needs


@pytest.mark.opencl
@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
def test_an_estimate_is_what_is_allocated(
    device: str, device_class: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = {"device_class": device_class, **FREE}
    for source, shapes in ((convolutions(), X), (_products(), {"x": (64, 512)})):
        found = clgraph.estimate(source, device, shapes, config=config)
        model = clgraph.compile(source, device, shapes, config=config)
        made = model._specialisations.latest
        assert found.needs == memory_needs(model.program, made.devices)
        (need,) = found.needs

        # A clone takes all but constants, results, and an error word of each table.
        taken = noted_allocations(monkeypatch)
        clone = model.clone()
        monkeypatch.undo()
        own = need.activations + need.inputs + need.scratch + need.tables
        assert own <= sum(taken) <= own + 64, (str(need), taken)

        # Copied or left where it lies alone, a constant has neither slack nor rounding.
        laid = model._specialisations.workspace.laid(need.placement).latest
        assert laid is not None
        copied, where = {id(m) for m in laid.copies}, [laid.banks[bank - laid.front] for bank, _ in laid.places]
        left = sum(a.nbytes for a, bank in zip(laid.arrays, where, strict=True) if id(bank) not in copied)
        lying = sum(m.nbytes for m in laid.copies) + left
        assert need.constants - len(laid.arrays) * (SLACK + UNIT) <= lying <= need.constants

        results = model.run({"x": np.zeros(shapes["x"], np.float32)})
        assert model._specialisations.workspace.results.nbytes == need.results
        assert found.outputs == sum(a.nbytes for a in results.values())
        assert found.inputs == 4 * np.prod(shapes["x"])
        clone.close()


@pytest.mark.opencl
def test_an_estimate_allocates_nothing(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = noted_allocations(monkeypatch)
    clgraph.estimate(convolutions(), device, X, memory_limit="4 MiB")
    assert not taken


@pytest.mark.opencl
def test_a_device_that_is_written_down_stands_for_the_one_that_is_there(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choices go by what is known of the device: the whole program is the same, and needs no OpenCL."""
    from clgraph.cli.output import json_value
    from clgraph.runtime.device import find_device

    there = find_device(device)
    path = tmp_path / "machine.json"
    path.write_text(json.dumps([{"auto": False, "info": json_value(there.info)}]))
    here = clgraph.estimate(convolutions(), device, X)
    monkeypatch.setattr(Engine, "__init__", lambda *_, **__: pytest.fail("the device was opened"))
    assert clgraph.estimate(convolutions(), f"null:{path}#{device}", X) == here
    with pytest.raises(DeviceError, match="has no device ''; there are pocl"):
        clgraph.estimate(convolutions(), f"null:{path}", X)


def test_the_largest_batch_fits_and_one_more_does_not() -> None:
    limit = 4 << 20
    found = clgraph.estimate(_products(), "null:avx2", {"x": (4, 512)}, memory_limit=limit, threads=2)
    assert found.batch == 4
    assert found.largest_batch is not None
    assert found.largest_batch > 4
    for rows, fits in ((found.largest_batch, True), (found.largest_batch + 1, False)):
        need = clgraph.estimate(_products(), "null:avx2", {"x": (rows, 512)}, threads=2)
        assert (need.total <= limit) == fits
    assert clgraph.estimate(_products(4), "null:avx2", memory_limit=limit, threads=2).largest_batch is not None


def test_where_nothing_fits_the_largest_batch_is_none() -> None:
    found = clgraph.estimate(_products(), "null:avx2", {"x": (4, 512)}, memory_limit="1 MiB")
    assert found.largest_batch == 0
    assert "largest batch 0 within 1.0 MiB" in str(found)
    assert clgraph.estimate(_products(), "null:avx2", {"x": (4, 512)}).largest_batch is None, "nobody said a limit"


def test_the_largest_batch_that_is_tried_is_told_as_one_of_more() -> None:
    topology = Topology()
    topology.output(topology.add("y", Activation("relu"), topology.input("x", (1, 4))))
    found = clgraph.estimate(topology, "null:avx2", memory_limit="1 GiB")
    assert found.largest_batch == 65_536
    assert "largest batch 65536 or more within 1.0 GiB" in str(found)


def test_a_search_ends_at_the_first_number_that_does_not_fit() -> None:
    for most in (0, 1, 2, 3, 7, 8, 9, 1000, 65_535, 65_536, 100_000):
        for start in (1, 3, 8, 5000):
            for bend in (1, 40):  # bytes an entry below and above 500 entries
                tried: list[int] = []

                def takes(entries: int, bend: int = bend, tried: list[int] = tried) -> float:
                    tried.append(entries)
                    return 9 + 8 * (entries + bend * max(entries - 500, 0))

                limit = 9 + 8 * (most + bend * max(most - 500, 0))
                assert largest_batch(takes, limit, start) == min(most, 65_536)
                assert len(tried) <= 34 + 1, "bits of the number twice: to find its end, and it"
                if bend == 1 and most < 1000:
                    assert len(tried) <= 20


def test_what_cannot_be_estimated_is_said() -> None:
    with pytest.raises(InputError, match="dynamic dimensions"):
        clgraph.estimate(_products(), "null")
    dependent = open_model(
        [helper.make_node("NonZero", ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=FLOAT)],
        {"x": (FLOAT, (2, 3))},
    )
    with pytest.raises(UnsupportedError, match=r"depends on data.*memory_limit"):
        clgraph.estimate(dependent, "null")
    reshaped = open_model(
        [helper.make_node("Reshape", ["x", "s"], ["y"])], {"x": (FLOAT, (2, 6))}, {"s": np.array([3, 4])}
    )
    assert "takes no other batch than 2" in clgraph.estimate(reshaped, "null", memory_limit=1 << 20).why


def test_an_instruction_set_or_a_list_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"null:avx3.*avx2"):
        clgraph.estimate(_products(4), "null:avx3")
    with pytest.raises(DeviceError, match="cannot be read: No such file"):
        clgraph.estimate(_products(4), f"null:{tmp_path / 'no.json'}")
    path = tmp_path / "list.json"
    for text in ("[", "{}", "[3]", '[{"auto": true}]', '[{"auto": true, "info": {"name": "a", "simd": "16"}}]'):
        path.write_text(text)
        with pytest.raises(DeviceError, match=r"list of devices|has no device"):
            clgraph.estimate(_products(4), f"null:{path}")
    with pytest.raises(OptionError, match="one class"):
        clgraph.estimate(_products(4), "null:avx2", config={"device_class": "null=gpu"})


def test_other_workers_and_classes_of_a_written_device_are_estimated() -> None:
    few, many = (clgraph.estimate(convolutions(), "null:avx2", X, threads=n).needs[0] for n in (2, 8))
    assert many.scratch > few.scratch > 0
    assert many.tables > few.tables
    gpu = clgraph.estimate(convolutions(), "null:avx2", X, config={"device_class": "gpu"}).needs[0]
    assert gpu.scratch == gpu.tables == 0


@pytest.mark.opencl
def test_weights_of_few_bits_take_what_is_estimated(device: str) -> None:
    floats, few = (clgraph.estimate(_products(4), device, weights=w).needs[0] for w in (None, "int8"))
    assert few.constants < floats.constants / 3
    with pytest.raises(MemoryLimitError):
        clgraph.compile(_products(4), device, weights="int8", memory_limit=few.total - 1, config=FREE)
    clgraph.compile(_products(4), device, weights="int8", memory_limit=few.total, config=FREE).run(
        {"x": np.zeros((4, 512), np.float32)}
    )
