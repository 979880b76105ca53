"""What a user may change about compiling never changes results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import clgraph
from clgraph.errors import UnsupportedError
from clgraph.passes.pipeline import default_pipeline
from tests.support.models import image, light_model, small_model, without_repeats
from tests.support.oracle import expected, worst_error

pytestmark = pytest.mark.opencl

PASSES = [p.name for p in default_pipeline()]
OPTIONAL = [p.name for p in default_pipeline() if not p.required]

# Sums of at most 33 x 9 products of values around 1: far below 1e-5 of the largest in any order.
BOUND = 1e-5


def run(device: str, **config: Any) -> clgraph.Model:
    """Compile with options, compare, and return the model. The channels leave tail lanes, the size a cut window."""
    model = small_model(channels=33, size=11)
    feeds = {"x": image((1, 3, 11, 11))}
    compiled = clgraph.compile(model, device, config=config)
    assert worst_error(compiled.run(feeds), expected(model, feeds)) <= BOUND
    return compiled


@pytest.mark.parametrize("name", OPTIONAL)
def test_any_optional_pass_may_be_left_out(name: str, device: str) -> None:
    assert name not in [p.name for p in run(device, disable_passes=frozenset({name})).passes]


def test_annotations_change_nothing_on_one_device(device: str) -> None:
    """A model annotated by operator is the same nodes and bits, where its hints are retired."""
    plain, annotated = (without_repeats(light_model("resnet50")) for _ in range(2))
    for node in annotated.graph.node:
        node.metadata_props.add(key="layer_ann", value=node.op_type)
    feeds = {plain.graph.input[0].name: image((1, 3, 224, 224))}
    expected, got = (clgraph.compile(m, device) for m in (plain, annotated))
    kept = clgraph.compile(annotated, device, config={"disable_passes": frozenset({"remove_layering_annotations"})})
    assert len(got.program) == len(expected.program) < len(kept.program)
    want, found = expected.run(feeds), got.run(feeds)
    assert {name: y.tobytes() for name, y in found.items()} == {name: y.tobytes() for name, y in want.items()}


def test_all_optional_passes_may_be_left_out(device: str) -> None:
    ran = run(device, disable_passes=frozenset(OPTIONAL)).passes
    assert [p.name for p in ran] == [name for name in PASSES if name not in OPTIONAL]


@pytest.mark.parametrize("name", PASSES)
def test_passes_may_stop_anywhere(name: str, device: str) -> None:
    behind = PASSES[PASSES.index(name) + 1 :]
    assert not {p.name for p in run(device, stop_after=name).passes} & set(behind) & set(OPTIONAL)


def test_every_pass_may_be_verified(device: str) -> None:
    run(device, verify_passes=True)


def test_an_out_of_order_queue_gives_the_same_result(device: str) -> None:
    run(device, out_of_order=True)


def test_a_node_that_was_fused_is_explained_where_it_went(device: str) -> None:
    node = run(device).explain()["relu"]
    assert node.name == "first"
    assert node.fused == ("activation(function=relu)",)
    assert node.origin == ("first", "relu")


def test_a_forced_kernel_is_used_and_says_so(device: str) -> None:
    node = run(device, force_kernels=(("second", "convolution.ref"),)).explain()["second"]
    assert (node.implementation, node.because) == ("convolution.ref", "forced")


def test_a_denied_kernel_is_not_used_and_says_so(device: str) -> None:
    node = run(device, deny_kernels=frozenset({"convolution.fsv16"})).explain()["second"]
    assert node.implementation != "convolution.fsv16"
    assert node.refusals["convolution.fsv16"] == "denied by an option"


def test_what_no_kernel_serves_runs_on_the_host_and_says_so(device: str) -> None:
    denied = frozenset(n for n in _names() if n.startswith("pooling."))
    report = run(device, deny_kernels=denied).explain()
    assert report["pool"].placement == "host"
    assert "pool runs on host" in report.notes["partition"]
    with pytest.raises(UnsupportedError, match="'pool'"):
        run(device, deny_kernels=denied, strict=True)


def test_one_thread_gives_the_same_result(device: str) -> None:
    used = run(device, threads=1).device
    assert used.kind != "cpu" or used.workers == 1


def test_what_passes_make_is_dumped_once_a_family_with_the_list_of_its_members(tmp_path: Path, device: str) -> None:
    model = clgraph.compile(small_model(size="n"), device, config={"dump_graphs": tmp_path})
    for size in (6, 8):
        model(image((1, 3, size, size)))
    (folder,) = {p.parent for p in tmp_path.rglob("*.dot")}
    found = sorted(p.stem for p in folder.glob("*.dot"))
    assert found == sorted([*(f"{i:02}_{name}" for i, name in enumerate(PASSES)), "built"])
    members = (folder / "members.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in members if "[1, 3, 6, 6]" in line]
    assert [line for line in members if "[1, 3, 8, 8]" in line]


def test_whole_compilations_are_dumped_into_folders_of_their_own(tmp_path: Path, device: str) -> None:
    for size in (6, 8):
        folder = tmp_path / str(size)
        model = clgraph.compile(
            small_model(size="n"), device, {"x": (1, 3, size, size)}, config={"dump_graphs": folder}
        )
        assert model.is_compiled
        found = sorted(p.stem for p in folder.glob("*.dot"))
        assert found == sorted([*(f"{i:02}_{name}" for i, name in enumerate(PASSES)), "built"])


def _names() -> list[str]:
    from clgraph.selector.implementation import IMPLEMENTATIONS

    return list(IMPLEMENTATIONS)
