from __future__ import annotations

import numpy as np
import pytest

from clgraph.debugging.bisection import bisect
from clgraph.debugging.compare import compare, relative_distance, relative_error
from clgraph.engines.opening import options_of
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.network.network import Network
from clgraph.ops.pooling import Pooling
from clgraph.passes.base import Context
from clgraph.passes.memory.plan_memory import PlanMemory
from tests.support.models import image
from tests.support.planted import wrong_kernel, wrong_pass
from tests.support.programs import ADD, RELU, Net

pytestmark = pytest.mark.opencl

FEEDS = {"x": image((1, 16, 12, 12))}


def net() -> Topology:
    made = Net()
    h = made.add("r", RELU, made.conv("a", made.input("x", (1, 16, 12, 12)), 16, 24, kernel=3))
    p = made.add("p", Pooling("average", (2, 2), (2, 2)), h)
    q = made.add("q", RELU, made.conv("b", p, 24, 24))
    made.add("s", ADD, q, p)
    made.output("y", made.conv("c", "s", 24, 8))
    return made


def test_device_and_references_agree_on_every_node(device: str) -> None:
    found = compare(net(), FEEDS, options_of(device))
    assert found.agrees
    assert {n.node for n in found.nodes} >= {"a", "p", "b", "c"}
    # Sums of at most 16 x 9 + 1 products: sqrt(145) roundings of 2^-24, a hundred times that for the worst of 3456.
    assert all(n.own <= 100 * 145**0.5 * 2**-24 for n in found.nodes)
    assert "agree" in found.verdict()


def test_a_wrong_kernel_is_named_with_its_node(device: str) -> None:
    with wrong_kernel():
        found = bisect(net(), FEEDS, options_of(device))
    assert (found.rewrite, found.node, found.kernel) == (None, "p", "pooling.wrong")
    assert "kernel 'pooling.wrong' is wrong at node 'p'" in str(found)
    errors = {n.node: n for n in found.comparison.nodes}
    assert list(errors).index("a") < list(errors).index("p")
    # What reads the wrong result is right itself, and far from what it would be.
    assert errors["c"].own <= 1e-5
    assert errors["c"].total >= 1e-2
    tried = [line.partition(":")[0] for line in found.log if line.startswith("without ")]
    assert tried[:2] == ["without optional passes", "without pooling.wrong"]


@pytest.mark.parametrize(
    "behind", ["init", "decompose", "prepare_primitive_fusing", "prepare_padding", "add_required_reorders"]
)
def test_a_wrong_pass_is_named(behind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with wrong_pass(monkeypatch, behind):
        found = bisect(net(), FEEDS, options_of(device))
    assert found.rewrite == "plant_a_fault"
    assert found.kernel is None
    assert found.comparison.first is None
    assert "pass 'plant_a_fault' changes what the model computes" in str(found)


def test_a_pass_that_only_brings_in_a_wrong_kernel_is_named_beside_it(device: str) -> None:
    """The wrong kernel wants blocked tensors, which nothing asks for before formats are chosen."""
    with wrong_kernel():
        found = bisect(net(), FEEDS, options_of(device))
    assert found.pass_ == "reorder_inputs"
    assert "only with pass 'reorder_inputs'" in str(found)


def test_a_value_that_is_overwritten_too_early_is_named(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Net()
    p = made.conv("p", made.input("x", (1, 16, 12, 12)), 16, 16)
    made.add("sum", ADD, made.conv("c", made.conv("b", p, 16, 16), 16, 16), p)
    made.output("y", made.conv("d", "sum", 16, 8))
    plan = PlanMemory.run

    def careless(self: PlanMemory, program: Program, context: Context) -> int:
        saved = plan(self, program, context)
        buffers = {v.name: v.buffer for v in program.values if v.buffer is not None}
        if {"b", "p"} <= buffers.keys():
            buffers["b"].offset = buffers["p"].offset
        return saved

    monkeypatch.setattr(PlanMemory, "run", careless)
    found = bisect(made, FEEDS, options_of(device))
    assert found.comparison.first is not None
    assert found.comparison.first.overwritten == ("p",)
    assert "p is overwritten before node 'c' reads it" in found.comparison.verdict()
    assert found.kernel is None


def test_an_executor_that_is_wrong_while_every_node_is_right_is_named(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Network.run

    def careless(self: Network, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        results = run(self, feeds)
        return (
            results
            if self._binding.executor == "stream" or "y" not in results
            else {"y": results["y"] * np.float32(1.01)}
        )

    monkeypatch.setattr(Network, "run", careless)
    found = bisect(net(), FEEDS, options_of(device))
    assert found.comparison.torn
    assert found.executor
    assert (found.node, found.kernel, found.pass_, found.rewrite) == (None, None, None, None)
    assert "executor=stream gives the right results" in str(found)
    assert "the executor is wrong" in found.comparison.verdict()


def test_the_outputs_of_another_runtime_may_be_compared_with(device: str) -> None:
    right = compare(net(), FEEDS, options_of(device))
    other = {"y": np.full((1, 8, 6, 6), 7, np.float32)}
    wrong = compare(net(), FEEDS, options_of(device), expected=other, against="a fake")
    assert right.agrees
    assert not wrong.agrees
    assert wrong.first is None
    assert "a fake computes something else" in wrong.verdict()


def test_errors_are_relative_to_the_scale_and_see_what_is_no_number() -> None:
    a = np.array([1, -200, np.inf, np.nan], np.float32)
    assert relative_error(a, a) == 0
    assert relative_error(a + np.float32([0, 2, 0, 0]), a) == pytest.approx(0.01)
    assert relative_error(a, np.float32([1, -200, np.inf, 0])) == np.inf
    assert relative_error(np.float32([0]), np.float32([0])) == 0
    assert relative_error(np.int64([1]), np.int64([2])) == np.inf
    assert relative_error(np.float32([1]), np.float32([[1]])) == np.inf
    assert relative_distance(np.uint8([1, 250]), np.uint8([3, 200])) == pytest.approx(0.25)
    assert relative_distance(np.uint8([1]), np.uint8([[1]])) == np.inf


def test_a_model_in_half_precision_differs_by_its_rounding_only(device) -> None:
    options = options_of(device, config={"precision": "f16", "device_class": "gpu"})
    found = compare(net(), FEEDS, options)
    assert found.agrees, found.verdict()
    assert not compare(net(), FEEDS, options, tolerance=1e-3).agrees
