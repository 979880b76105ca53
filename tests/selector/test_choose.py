"""Selection is a pure function with reasons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from clgraph.core.dtype import DType
from clgraph.core.format import feature_blocked
from clgraph.core.layout import Layout
from clgraph.errors import OptionError, UnsupportedError
from clgraph.graph.node import Fused
from clgraph.graph.primitive import Array, Primitive
from clgraph.ops.activation import Activation
from clgraph.ops.matmul import MatMul, MatMulRef
from clgraph.ops.softmax import Softmax, SoftmaxRef
from clgraph.selector.choose import Choice, candidates, choose, taken_over
from clgraph.selector.implementation import IMPLEMENTATIONS, Implementation, Serves, implements, refused
from clgraph.selector.plan import Launch, Plan
from clgraph.selector.query import DeviceInfo, Query


@dataclass(frozen=True, slots=True)
class Probe(Primitive):
    kind: ClassVar[str] = "choose_probe"

    def infer(self, inputs: Sequence[Layout]) -> tuple[Layout, ...]:
        return (inputs[0].plain(),)

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        return (inputs[0],)


F32 = Layout(DType.F32, (1, 32, 4, 4))
QUERY = Query(Probe(), (F32,), (F32,), DeviceInfo(), 1)


@pytest.fixture(autouse=True)
def implementations() -> Iterator[None]:
    saved = IMPLEMENTATIONS.snapshot()

    def add(name: str, seconds: float, general: bool = False, **serves: Any) -> None:
        class One(Implementation[Probe]):
            @classmethod
            def limits(cls, q: Query[Probe]) -> str | None:
                return "takes no batch" if q.inputs[0].shape[0] > 1 and not cls.general else None

            @classmethod
            def cost(cls, q: Query[Probe]) -> float:
                return seconds

            @classmethod
            def plan(cls, q: Query[Probe]) -> Plan:
                return Plan(())

        implements(Probe, name=name, serves=Serves(dtypes=frozenset({DType.F32}), **serves), general=general)(One)

    add("choose_probe.ref", 1e-9, general=True, fuses=frozenset({"activation"}))
    add("choose_probe.fast", 1e-6)
    add("choose_probe.slow", 1e-3, formats=True)
    add("choose_probe.gpu", 1e-9, kinds=frozenset({"gpu"}))
    yield
    IMPLEMENTATIONS.restore(saved)


def test_tensors_without_elements_are_for_general_implementations() -> None:
    empty = Layout(DType.F32, (1, 32, 0, 4))
    choice = choose(replace(QUERY, inputs=(empty,), outputs=(empty,)))
    assert choice.implementation.name == "choose_probe.ref"
    assert choice.refusals["choose_probe.fast"] == "serves no tensors without elements"


def test_the_cheapest_special_implementation_wins_over_the_general_one() -> None:
    choice = choose(QUERY)
    assert str(choice) == "choose_probe.fast (cheapest)"
    assert choice.refusals == {}
    assert choice.slower == {"choose_probe.slow": 1e-3, "choose_probe.ref": 1e-9}


def test_a_device_of_another_kind_gets_another_implementation() -> None:
    assert choose(replace(QUERY, device=DeviceInfo(kind="gpu"))).implementation.name == "choose_probe.gpu"


def test_the_general_one_serves_what_the_others_refuse() -> None:
    batch = Layout(DType.F32, (2, 32, 4, 4))
    choice = choose(QUERY.with_layouts((batch,), (batch,)))
    assert str(choice) == "choose_probe.ref (general)"
    assert choice.refusals["choose_probe.fast"] == "takes no batch"


def test_a_format_that_is_not_declared_is_refused() -> None:
    blocked = F32.with_format(feature_blocked(4))
    choice = choose(QUERY.with_layouts((blocked,), (blocked,)))
    assert choice.implementation.name == "choose_probe.slow"
    assert choice.refusals["choose_probe.fast"] == "serves plain formats, not b_fs_yx_fsv16"


def test_a_fused_operation_that_is_not_declared_is_refused() -> None:
    choice = choose(replace(QUERY, fused=(Fused(Activation("relu")),)))
    assert choice.implementation.name == "choose_probe.ref"
    assert choice.refusals["choose_probe.fast"] == "cannot apply activation to its result"


def test_a_halo_that_nobody_writes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"choose_probe\.fast: writes no halo"):
        choose(QUERY.with_layouts((F32,), (F32.with_halo(((0, 0), (0, 0), (1, 1), (1, 1))),)))


def test_an_unserved_query_lists_every_reason() -> None:
    half = Layout(DType.F16, (1, 32, 4, 4))
    with pytest.raises(UnsupportedError) as error:
        choose(QUERY.with_layouts((half,), (half,)), denied=frozenset({"choose_probe.fast"}))
    assert str(error.value).split("\n  ")[1:] == [
        "choose_probe.fast: denied by an option",
        "choose_probe.ref: serves f32, not f16",
        "choose_probe.slow: serves f32, not f16",
    ]


def test_a_device_that_nothing_is_written_for_hears_what_there_is_for_others() -> None:
    with pytest.raises(UnsupportedError) as error:
        choose(replace(QUERY, device=DeviceInfo(kind="npu")))
    assert str(error.value).split("\n  ")[1:] == [
        "choose_probe.fast: is written for cpu, gpu devices, not for a npu",
        "choose_probe.gpu: is written for gpu devices, not for a npu",
        "choose_probe.ref: is written for cpu, gpu devices, not for a npu",
        "choose_probe.slow: is written for cpu, gpu devices, not for a npu",
    ]


def test_forcing_takes_the_named_one_or_says_why_not() -> None:
    assert str(choose(QUERY, forced="choose_probe.slow")) == "choose_probe.slow (forced)"
    with pytest.raises(UnsupportedError, match="is written for gpu"):
        choose(QUERY, forced="choose_probe.gpu")
    with pytest.raises(OptionError, match=r"there are choose_probe\.fast"):
        choose(QUERY, forced="choose_probe.fats")


def test_a_denied_implementation_is_not_chosen() -> None:
    choice = choose(QUERY, denied=frozenset({"choose_probe.fast"}))
    assert choice.implementation.name == "choose_probe.slow"
    assert choice.refusals["choose_probe.fast"] == "denied by an option"


def test_a_denied_tag_denies_what_has_it() -> None:
    @implements(Probe, name="choose_probe.rough", serves=Serves(dtypes=frozenset({DType.F32})), tags={"rough"})
    class Rough(IMPLEMENTATIONS["choose_probe.fast"]):
        @classmethod
        def cost(cls, q: Query[Probe]) -> float:
            return 1e-8

    assert choose(QUERY).name == "choose_probe.rough"
    choice = choose(QUERY, denied=frozenset({"rough", "choose_probe.slow"}))
    assert choice.name == "choose_probe.fast"
    assert choice.refusals == dict.fromkeys(("choose_probe.rough", "choose_probe.slow"), "denied by an option")


def test_the_host_runs_the_reference() -> None:
    assert choose(replace(QUERY, device=DeviceInfo("host", "host"))).implementation.name == "host.reference"


def test_an_implementation_from_outside_may_have_any_name() -> None:
    implements(Probe, name="acme.probe", serves=Serves(dtypes=frozenset()))(type("One", (Implementation,), {}))
    assert "acme.probe" in [c.name for c in candidates(QUERY)]


def test_a_choice_is_planned_once_and_that_for_another_query_anew() -> None:
    choice = choose(QUERY)
    plan = choice.plan()
    assert choice.plan() is plan
    larger = choice.with_query(replace(QUERY, inputs=(Layout(DType.F32, (1, 64, 4, 4)),)))
    assert larger._plan is None
    assert choice.with_query(QUERY) is choice
    assert choice == replace(choice)
    assert "_plan" not in repr(choice)


def test_what_is_refused_for_its_traits_is_what_each_implementation_refuses() -> None:
    f16, relu = Layout(DType.F16, F32.shape), (Fused(Activation("relu")),)
    asked = [
        QUERY,
        replace(QUERY, fused=relu),
        replace(QUERY, inputs=(F32,) * 6, fused=relu),
        replace(QUERY, inputs=(f16,), outputs=(f16,)),
        replace(QUERY, inputs=(f16,)),
        replace(QUERY, device=DeviceInfo(kind="gpu")),
        replace(QUERY, device=DeviceInfo(features=frozenset())),
    ]
    among = IMPLEMENTATIONS.of("choose_probe")
    found = []
    for q in (*asked, *asked):
        found.append({c.name: reason for c, reason in refused(among, q.traits).items()})
        alone = {c.name: reason for c in among if (reason := c.serves.refusal(q)) is not None}
        assert found[-1] == alone
    assert len({str(reasons) for reasons in found}) == 5


@pytest.mark.parametrize(
    ("kind", "fused", "without"),
    [("cpu", (), (True, True)), ("cpu", (Fused(Activation("relu")),), (False, False)), ("gpu", (), (True, False))],
)
def test_kernels_are_compiled_without_the_list_of_fused_operations_where_there_are_none(
    kind: str, fused: tuple[Fused, ...], without: tuple[bool, bool]
) -> None:
    """Of a softmax and of a product, which networks run on GPUs with fused operations and without."""
    x = Layout(DType.F32, (8, 8))
    softmax = Query(Softmax((1,)), (x,), (x,), DeviceInfo(kind=kind), 1, fused)
    product = Query(MatMul(), (x, x), (x,), DeviceInfo(kind=kind), 2, fused)
    for q, implementation, wanted in zip((softmax, product), (SoftmaxRef, MatMulRef), without, strict=True):
        for choice in (Choice(q, implementation, 0.0, "forced"), taken_over(q, implementation, 0.0, "family")):
            (step,) = choice.plan().steps
            assert isinstance(step, Launch)
            assert (dict(step.jit.macros).get("NO_POSTS") == "1") == wanted
