"""Every model by GPU kernels alone, run on PoCL: `device_class="gpu"` against ONNX Runtime."""

from __future__ import annotations

import pytest

import clgraph
from clgraph.passes.selection import InPlace, choice_of
from clgraph.selector.plan import Launch
from tests.models.test_zoo import BOUND
from tests.support.models import image, light_model, light_names
from tests.support.oracle import WHOLE_MODEL, expected, worst_error
from tests.support.zoo import ZOO, zoo_names

pytestmark = pytest.mark.opencl

GPU = {"strict": True, "device_class": "gpu"}


def agrees(name: str, device: str) -> None:
    model, feeds = ZOO[name].make()
    compiled = clgraph.compile(model, device, shapes={n: a.shape for n, a in feeds.items()}, config=GPU)
    chosen = [choice_of(node) for node in compiled.program]
    assert all("gpu" in c.implementation.serves.kinds or c.implementation is InPlace for c in chosen)
    assert all(isinstance(step, Launch) for c in chosen for step in c.plan().steps)
    assert worst_error(compiled.run(feeds), expected(model, feeds)) <= BOUND


@pytest.mark.parametrize("name", zoo_names(small=True))
def test_a_small_model_runs_on_gpu_kernels_alone(name: str, device: str) -> None:
    agrees(name, device)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo_names(small=False))
def test_a_model_runs_on_gpu_kernels_alone(name: str, device: str) -> None:
    agrees(name, device)


@pytest.mark.slow
@pytest.mark.parametrize("name", light_names())
def test_an_architecture_runs_on_gpu_kernels_alone(name: str, device: str) -> None:
    model = light_model(name)
    value = model.graph.input[0]
    feeds = {value.name: image(tuple(d.dim_value for d in value.type.tensor_type.shape.dim))}
    compiled = clgraph.compile(model, device, config=GPU)
    assert worst_error(compiled.run(feeds), expected(model, feeds)) <= WHOLE_MODEL


def test_one_process_runs_a_device_as_both_classes(device: str) -> None:
    model, feeds = ZOO["small_encoder"].make()
    wanted = expected(model, feeds)
    for _ in range(2):
        for config in ({}, GPU):
            assert worst_error(clgraph.compile(model, device, config=config).run(feeds), wanted) <= BOUND


def test_a_dry_run_may_be_for_a_gpu() -> None:
    compiled = clgraph.compile(light_model("resnet50"), "null", config={"device_class": "gpu"})
    chosen = [choice_of(node).name for node in compiled.program]
    assert chosen.count("convolution.gpu_vectors") == 52
    assert "reorder.ref" not in chosen
