"""Models split over several devices: two parts of PoCL, two PoCL devices, and the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clgraph
from clgraph.errors import DeviceError, OptionError, UnsupportedError
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.softmax import Softmax
from tests.support.random_nets import joined, networks

FIRST, SECOND = "pocl:0/1of2", "pocl:0/2of2"
pytestmark = [
    pytest.mark.opencl,
    pytest.mark.usefixtures("several_units"),
]


def _branches() -> clgraph.Topology:
    """A stem, two branches of convolutions that are annotated, and a joined end."""
    random = np.random.default_rng(1)
    net = clgraph.Topology()
    pads = ((1, 1), (1, 1))

    def conv(name: str, x: str, channels: int, annotation: str | None = None) -> str:
        weights = random.standard_normal((channels, channels, 3, 3)).astype(np.float32) / 20
        w = net.constant(f"{name}_w", weights)
        made = net.add(name, Convolution((1, 1), (1, 1), pads), x, w, annotation=annotation)
        return net.add(f"{name}_relu", Activation("relu"), made, annotation=annotation)

    stem = conv("stem", net.input("x", (1, 24, 20, 20)), 24)
    left = conv("left1", stem, 24, "left/1")
    left = conv("left2", left, 24, "left/2")
    right = conv("right1", stem, 24, "right/1")
    end = net.add("joined", Concat(1), left, right)
    net.output("y", net.add("end", Softmax((1,)), conv("last", end, 48)))
    return net


def _feed() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(2).standard_normal((1, 24, 20, 20)).astype(np.float32)}


@pytest.fixture(scope="module")
def want() -> np.ndarray:
    return clgraph.compile(_branches(), device="pocl:0").run(_feed())["y"]


@pytest.mark.parametrize("executor", ["persistent", "stream"])
@pytest.mark.parametrize("poison", [False, True])
def test_two_parts_of_a_device_compute_what_one_does_bit_for_bit(want, executor, poison) -> None:
    config = {"executor": executor, "poison": poison}
    model = clgraph.compile(_branches(), device=FIRST, placement={"right*": SECOND}, config=config)
    placements = {n.name: n.placement for n in model.program}
    assert set(placements.values()) == {FIRST, SECOND}
    assert {n.annotation for n in model.explain().nodes if n.placement == SECOND} == {"right/1"}
    for _ in range(3):
        np.testing.assert_array_equal(model.run(_feed())["y"], want)
    assert "2 transfers" in model.program.notes["insert_transfers"]
    assert {t.placement for t in model.profile(_feed()).commands} >= {FIRST, SECOND}


def test_a_graph_input_is_laid_out_for_another_device_where_it_lives() -> None:
    model = clgraph.compile(_stem_elsewhere(), device=FIRST, placement={"stem*": SECOND})
    readers = model.program.inputs[0].readers
    assert {n.placement for n in readers if n.primitive.kind != "transfer"} == {FIRST}
    one = clgraph.compile(_stem_elsewhere(), device="pocl:0").run(_feed())
    for name, array in model.run(_feed()).items():
        np.testing.assert_array_equal(array, one[name])


def _stem_elsewhere() -> clgraph.Topology:
    """An activation of the input, in front of layers that read it in blocks."""
    net = clgraph.Topology()
    x = net.input("x", (1, 24, 20, 20))
    net.output("z", net.add("also", Activation("relu"), x))
    w = net.constant("w", np.random.default_rng(1).standard_normal((24, 24, 3, 3)).astype(np.float32))
    for i in range(2):
        net.output(f"y{i}", net.add(f"stem{i}", Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, w))
    return net


@settings(max_examples=60, deadline=None)
@given(net=st.one_of(networks(), joined()), seed=st.integers(0, 2**32), data=st.data())
def test_random_nets_compute_the_same_wherever_their_nodes_are_placed(net, seed, data) -> None:
    topology, outputs = net
    for name in outputs:
        topology.output(name)
    devices = data.draw(st.sampled_from([(FIRST, SECOND), (FIRST, SECOND, "host")]))
    placement = {layer.name: data.draw(st.sampled_from(devices)) for layer in topology.layers}
    out_of_order = data.draw(st.booleans())
    config = {"poison": data.draw(st.booleans()), "out_of_order": out_of_order}
    config["executor"] = "stream" if out_of_order else data.draw(st.sampled_from(["stream", "auto"]))
    random = np.random.default_rng(seed)
    feeds = {
        n: (random.standard_normal(s.shape) if s.dtype.floating else random.integers(0, 4, s.shape)).astype(
            s.dtype.numpy
        )
        for n, s in topology.inputs.items()
    }
    want = clgraph.compile(topology, device="pocl:0").run(feeds)
    model = clgraph.compile(topology, device=FIRST, placement=placement, config=config)
    for _ in range(2):
        for name, array in model.run(feeds).items():
            scale = max(1.0, float(np.abs(want[name]).max(initial=0)))
            # Kernels differ where nodes are fused otherwise: nine layers, each of sums of up to 260 * 9 products.
            np.testing.assert_allclose(array, want[name], rtol=0, atol=scale * 9 * 260 * 9 * 2.0**-24)


@pytest.mark.parametrize("pattern", ["left1*", "left/?", "right/1", "softmax", "stem"])
def test_the_host_runs_a_part_too(want, pattern) -> None:
    model = clgraph.compile(_branches(), device="pocl:0", placement={pattern: "host"})
    assert "host" in {n.placement for n in model.program}
    # The host's references sum in another order: 9 * 48 products of at most 1 in each of at most four layers.
    np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=4 * 9 * 48 * 2.0**-24)


def test_everything_may_go_to_one_part() -> None:
    model = clgraph.compile(_branches(), placement={"*": SECOND}, config={"strict": True})
    assert {n.placement for n in model.program} == {SECOND}
    model.run(_feed())


def test_a_model_that_is_split_can_be_saved_and_loaded(want, tmp_path) -> None:
    further = {"placement": {"left*": SECOND}}
    clgraph.compile(_branches(), device=FIRST, **further).save(tmp_path / "m.clg")
    again = clgraph.load(tmp_path / "m.clg", device=FIRST, config=further)
    np.testing.assert_array_equal(again.run(_feed())["y"], want)
    assert "compiled anew" not in " ".join(again.notes)
    other = clgraph.load(tmp_path / "m.clg", device="pocl:0")
    np.testing.assert_array_equal(other.run(_feed())["y"], want)
    assert "compiled anew" in " ".join(other.notes)


def test_what_is_refused_names_operator_and_reason_unless_a_fallback_is_given(want) -> None:
    denied = {"deny_kernels": ["softmax.rows", "softmax.planes", "softmax.ref"]}
    with pytest.raises(UnsupportedError, match=rf"'end' .*placed by 'end'.*{SECOND}: nothing serves softmax"):
        clgraph.compile(_branches(), device=FIRST, placement={"end": SECOND}, config=denied)
    model = clgraph.compile(
        _branches(), device=FIRST, placement={"end": SECOND}, placement_fallback=["host"], config=denied
    )
    assert model.program["end"].placement == "host"
    assert "end runs on host" in model.program.notes["partition"]


def test_weights_that_their_device_does_not_transform_are_computed_by_the_reference_and_the_model_says_so(want) -> None:
    denied = {"deny_kernels": ["winograd_weights.pack", "winograd_weights.ref"]}
    model = clgraph.compile(_branches(), device="pocl:0", config=denied)
    assert {n.placement for n in model.program} == {"pocl:0"}
    assert "winograd" in model.program["stem"].choice.name
    assert (
        "stem/winograd_weights is computed on the host: nothing serves" in model.program.notes["post_optimize_weights"]
    )
    # Transformed weights round at most once more than the device's: sums of 9 * 48 products in each of four layers.
    np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=4 * 9 * 48 * 2.0**-24)


def test_a_pattern_that_fits_nothing_and_a_part_that_there_is_not_are_errors() -> None:
    with pytest.raises(OptionError, match="'heda' fits no annotation"):
        clgraph.compile(_branches(), placement={"heda": "host"})
    with pytest.raises(OptionError, match="null has one placement only"):
        clgraph.compile(_branches(), device="null", placement={"stem": "host"})
    for part in ("3of2", "0of2", "half", "1of1000"):
        with pytest.raises(DeviceError):
            clgraph.compile(_branches(), device=f"pocl:0/{part}")


def test_devices_that_are_listed_share_the_model() -> None:
    model = clgraph.compile(_branches(), device=f"{FIRST},{SECOND}")
    # Equal devices: every cut costs, none pays.
    assert len({n.placement for n in model.program}) == 1


def test_the_parts_of_a_split_model_are_created_once_for_each_shape() -> None:
    net = clgraph.Topology()
    x = net.input("x", ("rows", 32))
    net.output("y", net.add("y", Softmax((1,)), net.add("h", Activation("relu"), x)))
    model = clgraph.compile(net, device=FIRST, placement={"y": SECOND})
    for rows in (2, 3, 2, 3, 2):
        array = np.random.default_rng(rows).standard_normal((rows, 32)).astype(np.float32)
        model.run({"x": array})
    # Profiling runs twice: once to warm up.
    for rows, runs in ((3, 4), (2, 5)):
        used = model.profile({"x": np.ones((rows, 32), np.float32)}).subgraphs
        assert [(s.id, s.nodes, s.created, s.runs) for s in used] == [
            (f"0@{FIRST}", 1, 1, runs),
            (f"1@{SECOND}", 2, 1, runs),
        ]
    parts = model.explain().subgraphs
    assert [(p.inputs, p.outputs) for p in parts] == [(("x",), ("h",)), (("h",), ("y",))]
    assert parts[1].attributes["y.axes"] == (1,)


def test_where_the_way_goes_back_and_forth_each_part_is_bound_by_itself_also_out_of_a_file(want, tmp_path) -> None:
    further = {"placement": {"left*": SECOND, "end": "host"}}
    model = clgraph.compile(_branches(), device=FIRST, **further)
    explained = model.explain()
    # The right branch starts before the left one is there, and what reads both waits for the transfer.
    assert [s.placement for s in explained.subgraphs] == [FIRST, SECOND, FIRST, FIRST, "host"]
    assert "right1" in "".join(explained.subgraphs[2].nodes)
    assert [n for n in explained.subgraphs[3].nodes if n.endswith("/transfer")] == [explained.subgraphs[3].nodes[0]]
    of = {name: s.id for s in explained.subgraphs for name in s.nodes}
    assert {n.name: n.subgraph for n in explained.nodes} == of
    assert f"subgraph 1@{SECOND}: {len(explained.subgraphs[1].nodes)} nodes, reads stem" in str(explained)
    assert f"  subgraph    1@{SECOND}" in str(explained["left1"]).splitlines()
    assert f"\n  subgraph 1@{SECOND}\n" in str(model.program)
    model.save(tmp_path / "m.clg")
    again = clgraph.load(tmp_path / "m.clg", device=FIRST, config=further)
    for each in (model, again):
        # The host's softmax sums in another order: 48 numbers of at most 1.
        np.testing.assert_allclose(each.run(_feed())["y"], want, rtol=0, atol=48 * 2.0**-24)
        profile = each.profile(_feed())
        assert [s.id for s in profile.subgraphs] == [s.id for s in explained.subgraphs]
        assert {c.node: c.subgraph for c in profile.commands}.items() <= of.items()
    assert [s.id for s in again.program.subgraphs] == [s.id for s in model.program.subgraphs]


def test_on_one_device_nothing_is_said_of_subgraphs() -> None:
    model = clgraph.compile(_branches(), device="pocl:0")
    (whole,) = model.explain().subgraphs
    assert whole.nodes == tuple(n.name for n in model.program)
    assert "subgraph" not in str(model.explain()) + str(model.program)


def test_two_pocl_devices_compute_what_one_does(tmp_path) -> None:
    script = (
        "import json, sys, numpy as np, clgraph\n"
        "from tests.compilation.test_placement import _branches, _feed\n"
        "one = clgraph.compile(_branches(), device='pocl:0')\n"
        "two = clgraph.compile(_branches(), device='pocl:0', placement={'left*': 'pocl:1'})\n"
        "same = bool((one.run(_feed())['y'] == two.run(_feed())['y']).all())\n"
        "print(json.dumps([same, sorted({n.placement for n in two.program})]))\n"
    )
    environment = os.environ | {"POCL_DEVICES": "pthread pthread", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [True, ["pocl:0", "pocl:1"]]


def test_one_of_two_devices_may_be_treated_as_a_gpu_and_alone_store_half() -> None:
    net, random = _branches(), np.random.default_rng(5)
    feeds = {name: random.standard_normal(spec.shape).astype(np.float32) for name, spec in net.inputs.items()}
    exact = clgraph.compile(net, FIRST).run(feeds)
    config = {"device_class": f"{SECOND}=gpu", "precision": "auto", "strict": True, "poison": True}
    config["placement"] = {"left/1": SECOND}
    model = clgraph.compile(net, FIRST, config=config)
    choices = {n.name: (n.placement, n.choice.name, str(n.output.layout.dtype)) for n in model.program}
    assert {p for p, _, _ in choices.values()} == {FIRST, SECOND}
    convolutions = {c for c in choices.values() if c[1].startswith("convolution")}
    assert {(p, "gpu" in name, dtype) for p, name, dtype in convolutions} == {
        (FIRST, False, "f32"),
        (SECOND, True, "f16"),
    }
    # Halves cross, both ways: they are narrowed on the one side and widened on the other.
    assert {dtype for _, name, dtype in choices.values() if name == "transfer.host"} == {"f16"}
    assert "other devices than GPUs store float32" in model.program.notes["convert_precision"]
    for name, array in model.run(feeds).items():
        # Each node on the GPU rounds its weights, input and result to 2^-11 of its scale; gains are below 4.
        assert abs(array - exact[name]).max() <= 12 * 2.0**-11 * abs(exact[name]).max()


def test_a_class_for_a_device_that_nothing_can_be_placed_on_is_an_error() -> None:
    with pytest.raises(DeviceError, match="device_class: nothing can be placed on pocl:0/2of2; in use are pocl:0/1of2"):
        clgraph.compile(_branches(), FIRST, config={"device_class": f"{SECOND}=gpu"})
    with pytest.raises(OptionError, match="'npu' is not one of auto, cpu, gpu, or DEVICE=one of them"):
        clgraph.compile(_branches(), FIRST, config={"device_class": "npu"})
    with pytest.raises(OptionError, match="'=gpu' is not one of"):
        clgraph.compile(_branches(), FIRST, config={"device_class": "=gpu"})
