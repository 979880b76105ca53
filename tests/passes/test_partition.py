from __future__ import annotations

import pytest

from clgraph.errors import UnsupportedError
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context
from clgraph.passes.confirm_placement import ConfirmPlacement
from clgraph.passes.partition import Partition
from clgraph.passes.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.selector.query import DeviceInfo
from tests.support.programs import RELU, Net, compile_all, run

CPU, GPU, HOST = DeviceInfo("pocl:0"), DeviceInfo("gpu:0", "gpu"), DeviceInfo("host", "host")
NO_SOFTMAX = frozenset({"softmax.slow"})


def _net(annotation: str | None = None) -> Net:
    net = Net()
    h = net.add("relu", RELU, net.input("x", (1, 8)), annotation=annotation)
    net.add("y", Softmax((1,)), h)
    return net


def _context(*devices: DeviceInfo, denied: frozenset[str] = frozenset()) -> Context:
    return Context(devices={d.name: d for d in devices}, denied=denied)


def _placements(program) -> list[str | None]:
    return [n.placement for n in program]


def test_everything_goes_to_the_first_device() -> None:
    program = run(_net().program("y"), Partition(), context=_context(CPU, GPU))
    assert _placements(program) == ["pocl:0", "pocl:0"]
    assert "partition" not in program.notes


@pytest.mark.parametrize("annotation", ["gpu:0", "gpu:0:layer3"])
def test_an_annotation_names_a_device(annotation: str) -> None:
    program = run(_net(annotation).program("y"), Partition(), context=_context(CPU, GPU))
    assert _placements(program) == ["gpu:0" if annotation == "gpu:0" else "pocl:0", "pocl:0"]


def test_what_no_device_serves_goes_to_the_host_visibly() -> None:
    program = run(_net().program("y"), Partition(), context=_context(CPU, HOST, denied=NO_SOFTMAX))
    assert _placements(program) == ["pocl:0", "host"]
    assert program.notes["partition"].startswith("y runs on host: nothing serves softmax")
    assert "softmax.slow: denied by an option" in program.notes["partition"]


def test_without_the_host_all_of_them_are_listed_at_once() -> None:
    net = _net()
    net.add("z", Softmax((1,)), "relu")
    with pytest.raises(UnsupportedError, match=r"2 of 3 nodes have no implementation on pocl:0(.|\n)*'y'(.|\n)*'z'"):
        Partition().run(net.program("y", "z"), _context(CPU, denied=NO_SOFTMAX))


def test_a_program_across_device_and_host_compiles_to_one_arena_and_nothing_fuses_on_the_host() -> None:
    net = _net()
    net.add("z", RELU, "y")
    program = compile_all(net.program("z"), _context(CPU, HOST, denied=NO_SOFTMAX))
    assert _placements(program) == ["pocl:0", "host", "pocl:0"]
    assert {v.buffer.placement for v in program.values if v.buffer} == {"pocl:0"}


def test_the_annotation_is_kept_as_the_reason_of_the_placement() -> None:
    program = run(_net("gpu:0").program("y"), Partition(), RemoveLayeringAnnotations(), context=_context(CPU, GPU))
    assert (program["relu"].annotation, program["relu"].partitioned_by) == (None, "gpu:0")
    assert RemoveLayeringAnnotations().run(program, Context()) == 0


def test_confirming_reports_every_node_that_cannot_run_where_it_stands() -> None:
    program = _net().program("y")
    context = _context(CPU, GPU)
    Partition().run(program, context)
    program["relu"].placement = "mars"
    denied = _context(CPU, GPU, denied=NO_SOFTMAX)
    with pytest.raises(UnsupportedError, match=r"'relu' is placed on mars(.|\n)*'y'"):
        ConfirmPlacement().run(program, denied)
    program["relu"].placement = "gpu:0"
    assert ConfirmPlacement().run(program, context) == 0
