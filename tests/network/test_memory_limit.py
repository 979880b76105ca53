"""A limit of the memory that a model takes: what it will take, and what is refused before it is allocated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import clgraph
from clgraph.errors import MemoryLimitError, OptionError
from clgraph.network.memory_need import MemoryNeed, memory_needs, spelled
from tests.support.allocations import noted_allocations
from tests.support.graphs import FLOAT
from tests.support.open_models import convolutions, open_model

pytestmark = pytest.mark.opencl

FREE = {"model_cache": 0}


def _products():
    """A product whose weights take 1 MiB, of rows of 2 KiB."""
    weights = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    return open_model(nodes, {"x": (FLOAT, ("n", 512))}, {"w": weights})


def _need(model: clgraph.Model) -> MemoryNeed:
    (need,) = memory_needs(model.program, model._specialisations.latest.devices)
    return need


def _x(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.ones((rows, 512), np.float32)}


def test_a_need_is_what_a_clone_allocates(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for constants, which it shares, results, which a run allocates, and the error word of each table."""
    for device_class in ("cpu", "gpu"):
        config = {"device_class": device_class, "winograd": False, **FREE}
        model = clgraph.compile(convolutions(), device=device, config=config)
        model.prepare({"x": (1, 3, 97, 96)})  # enough for all workers
        need, taken = _need(model), noted_allocations(monkeypatch)
        clone = model.clone()
        own = need.activations + need.inputs + need.scratch + need.tables
        assert own <= sum(taken) <= own + 64, (device_class, str(need), taken)
        assert need.constants >= sum(v.layout.nbytes for v in model.program.constants if v.uses)
        monkeypatch.undo()
        clone.close()


def test_what_exceeds_the_limit_is_refused_before_anything_is_allocated(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = clgraph.compile(_products(), device=device, memory_limit="2 MiB", config=FREE)
    small = model.run(_x(4))["y"]
    need = _need(model)
    allocated = noted_allocations(monkeypatch)
    with pytest.raises(MemoryLimitError, match=r"memory_limit allows 2\.0 MiB") as refused:
        model.run(_x(4096))
    assert not allocated
    for said in ("x [4096, 512]", "of constants", "of activations", "a memory_limit of 33.1 MiB"):
        assert said in str(refused.value), (said, str(refused.value))
    np.testing.assert_array_equal(model.run(_x(4))["y"], small)
    monkeypatch.undo()
    found = re.search(r"a batch of (\d+) in place of 4096", str(refused.value))
    assert found is not None
    most = int(found[1])
    assert most > 4
    with pytest.raises(MemoryLimitError, match=rf"a batch of {most} in place of {most + 1}"):
        model.run(_x(most + 1))
    model.run(_x(most))
    assert need.total <= 2 << 20


def test_weights_alone_may_exceed_the_limit(device: str) -> None:
    """Each way out that the message counts out is one: what it says is taken is."""
    shapes, floats = {"x": (4, 512)}, 1 << 20
    with pytest.raises(MemoryLimitError, match=r"memory_limit allows 1\.0 MiB") as found:
        clgraph.compile(_products(), device=device, shapes=shapes, memory_limit=floats, config=FREE)
    few = clgraph.estimate(_products(), device, shapes, weights="int8").total
    assert f"--weights int8 (in Python, weights='int8'): {spelled(few)} in place of 1.0 MiB" in str(found.value)
    clgraph.compile(_products(), device=device, shapes=shapes, weights="int8", memory_limit=few, config=FREE)
    assert "smaller inputs" not in str(found.value), "the weights alone are too much"
    with pytest.raises(MemoryLimitError, match=r"int8[^;]*, which alone is too much still; a memory_limit of"):
        clgraph.compile(_products(), device=device, shapes=shapes, memory_limit=few - 1, config=FREE)


def test_parts_on_several_devices_are_counted_out(device: str) -> None:
    """As many as it takes, with what each takes: that budgets of that share it out so."""
    weights = {f"w{i}": np.random.default_rng(i).standard_normal((256, 256)).astype(np.float32) for i in range(6)}
    names = ["x", *(f"h{i}" for i in range(1, 6)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(6)]
    model = open_model(nodes, {"x": (FLOAT, (1, 256))}, weights)
    with pytest.raises(MemoryLimitError, match=r"3 such devices, in parts of 5\d\d\.\d KiB, 5\d\d") as found:
        clgraph.compile(model, device=device, memory_limit="600 KiB", config=FREE)
    if clgraph.devices()[0].info.compute_units < 2:
        return
    told = re.search(r"in parts of ([^(]+) \(", str(found.value))
    assert told is not None
    one, two = "pocl:0/1of2", "pocl:0/2of2"
    made = clgraph.compile(model, f"{one},{two}", config={"placement_budget": {one: "600 KiB"}, **FREE})
    taken = {n.placement: n.total for n in memory_needs(made.program, made._specialisations.latest.devices)}
    assert abs(float(told[1].split()[0]) - taken[one] / 1024) < 1, "half the workers have fewer counters"


def test_a_saved_model_is_refused_with_the_same_numbers(device: str, tmp_path: Path) -> None:
    path = tmp_path / "model.clg"
    clgraph.compile(_products(), device=device, config=FREE).save(path)
    said = []
    for source in (_products(), path):
        with pytest.raises(MemoryLimitError) as found:
            clgraph.compile(source, device=device, memory_limit="2 MiB", config=FREE).run(_x(4096))
        said.append(str(found.value))
    assert said[0] == said[1]


def test_clones_count_and_share_their_constants(device: str) -> None:
    model = clgraph.compile(_products(), device=device, memory_limit="7 MiB", config=FREE)
    model.run(_x(256))
    need = _need(model)
    own = need.total - need.constants
    fitting = ((7 << 20) - need.constants) // own
    assert fitting >= 2
    clones = [model.clone() for _ in range(fitting - 1)]
    with pytest.raises(MemoryLimitError, match="of clones and other shapes"):
        clones.append(model.clone())
    del clones
    model.clone()


def test_a_limit_is_a_number_of_bytes() -> None:
    for text in ("much", "12 parsecs", "-1", "nan"):
        with pytest.raises(OptionError, match="memory_limit"):
            clgraph.compile(_products(), device="null", memory_limit=text)
    assert [spelled(n) for n in (3, 2048, 3 << 19)] == ["3 B", "2.0 KiB", "1.5 MiB"]
