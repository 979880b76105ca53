from __future__ import annotations

import pytest

from clgraph.errors import UnsupportedError
from clgraph.ops.convolution import Convolution
from clgraph.ops.softmax import Softmax
from clgraph.passes.base import Context
from clgraph.passes.placement.partition import Partition, unused_patterns
from clgraph.passes.placement.remove_layering_annotations import RemoveLayeringAnnotations
from clgraph.selector.implementation import Serves, implements
from clgraph.selector.query import DeviceInfo
from tests.support.fakes import ALL, Slow
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
    with pytest.raises(UnsupportedError, match=r"2 of 3 nodes have no implementation on pocl:0:\n(.|\n)*'y'(.|\n)*'z'"):
        Partition().run(net.program("y", "z"), _context(CPU, denied=NO_SOFTMAX))


def test_a_program_across_device_and_host_copies_both_ways_and_nothing_fuses_on_the_host() -> None:
    net = _net()
    net.add("z", RELU, "y")
    program = compile_all(net.program("z"), _context(CPU, HOST, denied=NO_SOFTMAX))
    assert [(n.primitive.kind, n.placement) for n in program] == [
        ("activation", "pocl:0"),
        ("transfer", "host"),
        ("softmax", "host"),
        ("transfer", "pocl:0"),
        ("activation", "pocl:0"),
    ]
    assert all(v.buffer.placement == n.placement for n in program for v in n.outputs)
    assert program.notes["insert_transfers"] == "2 transfers: pocl:0 to host 32 bytes, host to pocl:0 32 bytes"


def _mapped(*rules: tuple[str, str], **further) -> Context:
    return Context(devices={d.name: d for d in (CPU, GPU, HOST)}, placement=rules, free=("pocl:0",), **further)


@pytest.mark.parametrize("pattern", ["stem", "st?m", "relu", "rel*", "activation", "Relu"])
def test_a_pattern_fits_an_annotation_a_name_an_operator_type_or_a_kind(pattern: str) -> None:
    program = _net("stem").program("y")
    program["relu"].origin = ("onnx_relu",)
    Partition().run(program, _mapped((pattern, "gpu:0"), op_types={"onnx_relu": "Relu"}))
    assert _placements(program) == ["gpu:0", "pocl:0"]


def test_the_first_pattern_that_fits_counts() -> None:
    program = _net("stem").program("y")
    Partition().run(program, _mapped(("stem", "host"), ("*", "gpu:0")))
    assert _placements(program) == ["host", "gpu:0"]


def test_a_device_that_refuses_what_is_mapped_to_it_is_an_error_that_names_the_way_out() -> None:
    context = _mapped(("y", "gpu:0"), denied=NO_SOFTMAX)
    with pytest.raises(
        UnsupportedError, match=r"'y' .*placed by 'y' \(placement_fallback .*gpu:0: nothing serves softmax"
    ):
        Partition().run(_net().program("y"), context)


def test_a_fallback_is_taken_in_its_order_and_noted() -> None:
    program = _net().program("y")
    Partition().run(program, _mapped(("y", "gpu:0"), fallback=("pocl:0", "host"), denied=NO_SOFTMAX))
    assert _placements(program) == ["pocl:0", "host"]
    assert program.notes["partition"].startswith("y runs on host: nothing serves softmax")


def test_devices_that_share_a_model_get_what_they_do_fast_when_that_pays_for_the_copies() -> None:
    class OnGpu(Slow):
        @classmethod
        def cost(cls, q) -> float:
            return 1e-5

    implements(Convolution, name="convolution.gpu", serves=Serves(dtypes=ALL, kinds=frozenset({"gpu"})))(OnGpu)
    for channels, where in ((64, "gpu:0"), (1, "pocl:0")):
        net = Net()
        first = net.add("first", RELU, net.input("x", (1, channels, 16, 16)))
        net.add("last", RELU, net.conv("conv", first, channels, channels, 3))
        here = (("first", "pocl:0"), ("last", "pocl:0"))
        context = Context(devices={d.name: d for d in (CPU, GPU)}, placement=here, free=("pocl:0", "gpu:0"))
        Partition().run(program := net.program("last"), context)
        assert _placements(program) == ["pocl:0", where, "pocl:0"]


def test_patterns_that_fit_nothing_of_a_model_are_found() -> None:
    net = _net("stem")
    assert unused_patterns(net, ["stem", "y", "softmax", "head", "Y"]) == ["head", "Y"]


def test_the_annotation_is_kept_as_the_reason_of_the_placement() -> None:
    program = run(_net("gpu:0").program("y"), Partition(), RemoveLayeringAnnotations(), context=_context(CPU, GPU))
    assert (program["relu"].annotation, program["relu"].partitioned_by) == (None, "gpu:0")
    assert RemoveLayeringAnnotations().run(program, Context()) == 0
