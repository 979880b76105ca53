"""A limit of the memory that a model takes: what it will take, and what is refused before it is allocated."""

from __future__ import annotations

import re

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
        model.prepare({"x": (1, 3, 9, 8)})
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
    for said in ("x [4096, 512]", "of constants", "of activations", "a batch of about", "second device", "smaller"):
        assert said in str(refused.value)
    np.testing.assert_array_equal(model.run(_x(4))["y"], small)
    monkeypatch.undo()
    fits = re.search(r"a batch of about (\d+) in place of 4096", str(refused.value))
    assert fits is not None
    model = clgraph.compile(_products(), device=device, memory_limit="2 MiB", config=FREE)
    model.run(_x(int(fits[1])))
    assert need.total <= 2 << 20


def test_weights_alone_may_exceed_the_limit(device: str) -> None:
    with pytest.raises(MemoryLimitError, match=r"weights='int8'"):
        clgraph.compile(_products(), device=device, shapes={"x": (4, 512)}, memory_limit=1 << 20, config=FREE)


def test_clones_count_and_share_their_constants(device: str) -> None:
    model = clgraph.compile(_products(), device=device, memory_limit="5 MiB", config=FREE)
    model.run(_x(256))
    need = _need(model)
    own = need.total - need.constants
    fitting = ((5 << 20) - need.constants) // own
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
