"""Every model by GPU kernels alone, run on PoCL: `device_class="gpu"` against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.network.node_steps import steps_of
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.matmul import MatMul
from clgraph.ops.transpose import Transpose
from clgraph.passes.chosen import InPlace, choice_of
from clgraph.passes.reference import run_reference
from clgraph.selector.plan import Launch
from tests.models.test_precision import bound
from tests.models.test_zoo import BOUND
from tests.support.models import FEW, image, light_model, light_names, without_repeats
from tests.support.oracle import WHOLE_MODEL, expected, worst_error
from tests.support.programs import RELU, Net
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
    compiled = clgraph.compile(light_model("resnet50", drawn=FEW), "null", config={"device_class": "gpu"})
    chosen = [choice_of(node).name for node in compiled.program]
    direct, transformed = (chosen.count(f"convolution.{name}") for name in ("gpu_vectors", "gpu_winograd"))
    assert direct + transformed == 52
    # Of 3x3 convolutions without stride there are 13.
    assert 0 < transformed <= 13
    assert "reorder.ref" not in chosen


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_siblings_that_are_one_node_compute_what_they_do_apart(device: str, device_class: str, precision: str) -> None:
    topology, feeds = siblings()
    config = {"device_class": device_class, "precision": precision, "poison": True}
    together = clgraph.compile(topology, device, config=config)
    apart = clgraph.compile(topology, device, config={**config, "disable_passes": "fuse_siblings"})
    assert "joined" in together.program.notes["fuse_siblings"].splitlines()[-1]
    assert sum(len(steps_of(n)) for n in together.program) < sum(len(steps_of(n)) for n in apart.program)
    # Each sum has at most 64 terms of at most |x| |w| < 16 in the first node and 96 in the second, added in any order:
    # (64 + 96) * 2^-24 relative to the sums of absolute values, which stay below 100 times the results here.
    bound = 160 * 2.0**-24 * 100 if precision == "f32" else 2.0**-7
    assert worst_error(together.run(feeds), apart.run(feeds)) <= bound


def siblings() -> tuple[clgraph.Topology, dict[str, np.ndarray]]:
    """Four 1x1 convolutions on 64 channels, as a block of GoogLeNet has them."""
    random = np.random.default_rng(3)
    net = clgraph.Topology()
    x, parts = net.input("x", (1, 64, 14, 14)), []
    point = Convolution((1, 1), (1, 1), ((0, 0), (0, 0)))
    for i, channels in enumerate((32, 64, 32, 96)):
        w = net.constant(f"w{i}", random.standard_normal((channels, 64, 1, 1)).astype(np.float32) / 8)
        b = net.constant(f"b{i}", random.standard_normal(channels).astype(np.float32))
        made = net.add(f"relu{i}", Activation("relu"), net.add(f"c{i}", point, x, w, b))
        last = net.constant(f"v{i}", random.standard_normal((16, channels, 1, 1)).astype(np.float32) / 8)
        parts.append(net.add(f"d{i}", point, made, last))
    net.output(net.add("y", Concat(1), *parts))
    return net, {"x": random.standard_normal((1, 64, 14, 14)).astype(np.float32)}


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_an_encoder_runs_no_transpose_on_a_gpu(device: str, precision: str) -> None:
    model, feeds = ZOO["small_encoder"].make()
    shapes = {n: a.shape for n, a in feeds.items()}
    compiled = clgraph.compile(model, device, shapes=shapes, config={**GPU, "precision": precision, "poison": True})
    ran = [choice_of(n).name for n in compiled.program if steps_of(n)]
    assert not [name for name in ran if name.startswith(("transpose", "reshape", "split"))]
    assert worst_error(compiled.run(feeds), expected(model, feeds)) <= (
        BOUND if precision == "f32" else bound(len(compiled.program))
    )


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "densenet121", "yolov8n_320", *zoo_names(small=True)])
def test_channels_lie_last_from_end_to_end(name: str) -> None:
    """In half precision one reorder an input and output, in single precision none: convolutions read either order.

    An output that is made of another one alone needs none.
    """
    model, feeds = ZOO[name].make() if name in ZOO else (light_model(name, drawn=FEW), {})
    model = without_repeats(model) if name == "resnet50" else model
    shapes = {n: a.shape for n, a in feeds.items()}
    for precision in ("f32", "f16"):
        config = {"device_class": "gpu", "precision": precision}
        program = clgraph.compile(model, "null", shapes=shapes, config=config).program
        floats = [n for n in program if n.primitive.kind == "reorder" and n.inputs[0].layout.dtype.floating]
        reorders = [n for n in floats if steps_of(n)]
        if precision == "f32":
            assert not reorders
            continue
        results = [v for _, v in program.outputs]
        ends = [v for v in program.inputs if v.layout.dtype.floating]
        ends += [v for v in results if v.producer.inputs[0] not in results]
        assert len(reorders) == len(ends)
        assert all(n.inputs[0] in program.inputs or program.is_output(n.output) for n in reorders)


def test_a_function_of_a_transposed_view_reads_every_element_where_it_is(device: str) -> None:
    """The view's elements are 32 apart along the axis that the result has its vectors along."""
    net = Net()
    x = net.input("x", (2, 8, 16))
    both = net.add("c", Concat(2), net.add("a", MatMul(), x, net.data("w", 16, 16)), net.add("u", RELU, x))
    net.output("y", net.add("s", Activation("sigmoid"), net.add("t", Transpose((0, 2, 1)), both)))
    model = clgraph.compile(net, device, config=GPU)
    (source,) = [n.inputs[0] for n in model.program if n.name == "s"]
    assert source.layout.pitches[-1] == 32
    (wanted,) = run_reference(net.build(), feeds := {"x": image((2, 8, 16))}, exact=True).values()
    # 16 products and a sigmoid, whose slope is at most 1/4.
    np.testing.assert_allclose(model.run(feeds)["y"], wanted, atol=1e-5)
