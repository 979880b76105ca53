"""Partitioning and layout on a target without hardware."""

from __future__ import annotations

import numpy as np
import pytest

import clgraph
from clgraph.errors import RegistrationError, UnsupportedError
from clgraph.ops.activation import Activation
from clgraph.ops.concat import Concat
from clgraph.ops.convolution import Convolution
from clgraph.ops.eltwise import Eltwise
from clgraph.ops.pooling import Pooling
from clgraph.ops.reduce import Reduce
from clgraph.ops.reorder import Reorder
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Pass
from clgraph.passes.targets.target import Phase, Target, TargetPass
from tests.support.fake_target import CHANNELS_LAST, NAME, fake_target

CLAIMS = ("convolution", "activation", "pooling", "concat", "eltwise", "reduce")


def _net() -> clgraph.Topology:
    """Two joined branches of convolutions, a pool, a mean, a softmax."""
    random = np.random.default_rng(3)
    net = clgraph.Topology()

    def conv(name: str, x: str, channels: int, annotation: str | None = None) -> str:
        w = net.constant(f"{name}_w", random.standard_normal((4, channels, 3, 3)).astype(np.float32))
        made = net.add(name, Convolution((1, 1), (1, 1), ((1, 1), (1, 1))), x, w, annotation=annotation)
        return net.add(f"{name}_relu", Activation("relu"), made, annotation=annotation)

    x = conv("stem", net.input("x", (1, 3, 8, 8)), 3, "early")
    joined = net.add("joined", Concat(1), conv("left", x, 4, "early"), conv("right", x, 4, "early"))
    pooled = net.add("pool", Pooling("max", (2, 2), (2, 2), (1, 1), ((0, 0), (0, 0))), joined)
    last = conv("last", pooled, 8)
    mean = net.add("mean", Reduce("mean", (2, 3), keepdims=False), last)
    net.output("y", net.add("classes", Softmax((1,)), mean))
    return net


def _feed() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(4).standard_normal((1, 3, 8, 8)).astype(np.float32)}


@pytest.fixture(scope="module")
def want() -> np.ndarray:
    return clgraph.compile(_net(), device="host").run(_feed())["y"]


def test_the_target_gets_what_it_claims_and_the_host_the_rest(want) -> None:
    with fake_target(CLAIMS):
        model = clgraph.compile(_net(), device=NAME)
        placements = {n.name: n.placement for n in model.program}
        assert placements["classes"] == "host"
        assert {p for name, p in placements.items() if "classes" not in name} == {NAME}
        # The references sum as on the host, but for what fusing rounds otherwise: 72 products of about one.
        np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=72 * 2.0**-24)


def test_a_part_of_claimed_operators_is_channels_last_between_two_reorders(want) -> None:
    with fake_target(CLAIMS):
        program = clgraph.compile(_net(), device=NAME).program
        reorders = [n for n in program if isinstance(n.primitive, Reorder)]
        assert len(reorders) <= 2
        inside = [v for n in program if n.placement == NAME and n not in reorders for v in n.outputs]
        assert {v.layout.format for v in inside if v.layout.rank == 4} == {CHANNELS_LAST}


@pytest.mark.opencl
def test_annotated_parts_go_to_the_target_and_inserted_nodes_stay_with_their_part(want) -> None:
    with fake_target(CLAIMS):
        model = clgraph.compile(_net(), device="pocl:0", placement={"early": NAME})
        for node in model.program:
            assert node.placement == (NAME if node.partitioned_by == "early" else "pocl:0")
        assert "transfers" in model.program.notes["insert_transfers"]
        np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=72 * 2.0**-20)


def test_what_the_target_does_not_claim_is_refused_when_it_is_mapped_there() -> None:
    with fake_target(CLAIMS), pytest.raises(UnsupportedError, match=r"'classes'.*placed by 'softmax'"):
        clgraph.compile(_net(), device=NAME, placement={"softmax": NAME})


def test_the_device_is_listed_while_the_target_is_there() -> None:
    with fake_target(CLAIMS):
        assert NAME in [d.info.name for d in clgraph.devices()]
    assert NAME not in [d.info.name for d in clgraph.devices()]


class _Seen(Pass):
    name = "seen"

    def __init__(self, name: str, log: list[str]) -> None:
        object.__setattr__(self, "log", log)
        object.__setattr__(self, "name", name)

    def run(self, program, context) -> int:
        self.log.append(f"{self.name}:{program.milestone.name}")
        return 0


def test_passes_run_at_the_end_of_their_phases_in_the_order_asked_for_and_only_where_the_target_is_used() -> None:
    log: list[str] = []
    passes = (
        TargetPass(Phase.TENSOR_SELECTION, _Seen("later", log), after="sooner"),
        TargetPass(Phase.TENSOR_SELECTION, _Seen("sooner", log)),
        *(TargetPass(phase, _Seen(phase.value, log)) for phase in list(Phase)[1:]),
    )
    with fake_target(CLAIMS, passes):
        clgraph.compile(_net(), device="host")
        assert log == []
        clgraph.compile(_net(), device=NAME)
    assert log == [
        "sooner:PLACED",
        "later:PLACED",
        "layout:FORMATTED",
        "scheduling:SELECTED",
        "memory_allocation:SELECTED",
        "code_emission:PLANNED",
    ]


def test_passes_that_cannot_be_ordered_are_refused_at_once() -> None:
    circle = (
        TargetPass(Phase.LAYOUT, _Seen("a", []), after="b"),
        TargetPass(Phase.LAYOUT, _Seen("b", []), after="a"),
    )
    with (
        pytest.raises(RegistrationError, match="no order in layout fits a behind b, b behind a"),
        fake_target((), circle),
    ):
        pass
    assert Target("t", lambda d: True).at(Phase.LAYOUT) == []


@pytest.mark.opencl
def test_reorders_that_the_target_does_not_take_go_to_the_next_device_visibly(want) -> None:
    with fake_target(CLAIMS, moves=("transfer",)):
        model = clgraph.compile(_net(), device="pocl:0", placement={"early": NAME})
        assert {n.placement for n in model.program if isinstance(n.primitive, Reorder)} == {"pocl:0"}
        assert "runs on pocl:0: nothing serves reorder" in model.program.notes["confirm_placement"]
        assert "runs on pocl:0: nothing serves reorder" in str(model.explain())
        np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=72 * 2.0**-20)


class _Spelled(Pass):
    """Spell a softmax that no device took as operators that the target takes."""

    name = "spelled"

    def run(self, program, context) -> int:
        found = [n for n in program if isinstance(n.primitive, Softmax)]
        for node in found:
            axes = node.primitive.axes
            most = program.insert(Reduce("max", axes, keepdims=True), node.inputs, sources=[node], before=node)
            less = program.insert(Eltwise("sub"), [*node.inputs, most.output], sources=[node], before=node)
            exp = program.insert(Activation("exp"), [less.output], sources=[node], before=node)
            total = program.insert(Reduce("sum", axes, keepdims=True), [exp.output], sources=[node], before=node)
            made = program.insert(Eltwise("div"), [exp.output, total.output], sources=[node], before=node)
            program.rewire(node.output, made.output)
            program.erase(node)
        return len(found)


@pytest.mark.parametrize("phase", [Phase.TENSOR_SELECTION, Phase.LAYOUT])
def test_what_a_pass_of_the_target_makes_of_nodes_on_the_host_is_claimed_by_the_target(phase: Phase, want) -> None:
    with fake_target(CLAIMS, (TargetPass(phase, _Spelled()),)):
        model = clgraph.compile(_net(), device=NAME)
        assert {n.placement for n in model.program} == {NAME}
        assert f"runs on {NAME}: {NAME} takes it as it has become" in model.program.notes["confirm_placement"]
        # An exponential, a sum of 4 and a quotient beside the sums of 72 products of the net.
        np.testing.assert_allclose(model.run(_feed())["y"], want, rtol=0, atol=80 * 2.0**-24)
