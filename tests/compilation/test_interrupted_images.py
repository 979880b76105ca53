"""A run of an image of a network that is interrupted."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest

import clgraph
from clgraph.compilation import cache_files, keeper, model_cache
from clgraph.model.kept_model import KeptModel
from tests.support.launch_interrupts import LaunchInterrupts
from tests.support.models import image, small_model

pytestmark = pytest.mark.opencl


@pytest.mark.usefixtures("several_units")
def test_an_interrupt_behind_a_launch_leaves_nothing(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Files settle soon, models are written at once, and what other tests registered is none of these.
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", 0.03)
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    monkeypatch.setattr(model_cache, "third_party", frozenset)
    path = tmp_path / "wide.onnx"
    onnx.save(small_model(64, 112), path)  # enough for several workers
    time.sleep(0.06)

    def compiled() -> clgraph.Model:
        return clgraph.compile(path, device, cache_dir=tmp_path / "cache", config={"model_cache": 64})

    whole = [compiled(), compiled()][1]
    interrupts = LaunchInterrupts(monkeypatch)
    model = compiled()
    assert isinstance(model, KeptModel)
    picture = image((1, 3, 112, 112))
    model(picture)
    interrupts.armed = True
    with pytest.raises(KeyboardInterrupt):
        model(picture)
    assert interrupts.tiles
    assert not interrupts.leaves_counters
    assert np.array_equal(model(picture), whole(picture))
