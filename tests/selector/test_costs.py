import re
from dataclasses import replace
from pathlib import Path

import pytest

import clgraph
from clgraph.core.dtype import DType
from clgraph.core.layout import Layout
from clgraph.errors import OptionError, RegistrationError
from clgraph.implementations.cpu.cost import TicketRanges, row_strips, split, step_seconds, worker_flops
from clgraph.ops.activation import Activation
from clgraph.selector.choose import candidates
from clgraph.selector.costs import CLASSES, CostModel, class_of, shipped
from clgraph.selector.query import DeviceInfo, Query
from clgraph.selector.tuning import Tuning


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_model_that_reads_back_as_it_is_written(name):
    model = shipped(name)
    assert model.name == name
    again = CostModel.from_data(model.to_data(), "shipped")
    assert again == model
    assert hash(again) == hash(model)
    assert again != replace(model, step_seconds=model.step_seconds * 2)


def test_every_unit_that_a_cost_asks_for_is_shipped():
    folder = Path(clgraph.__file__).parent / "implementations"
    asked = {name for p in folder.rglob("*.py") for name in re.findall(r'unit\("([a-z_.]+)"', p.read_text("utf-8"))}
    asked |= {"resize.nearest", "resize.linear", "lrn.power", "post.power", "post.sine"}
    for name in ("pocl-avx512", "pocl-avx2", "intel-cpu", "cpu"):
        assert set(shipped(name).units) == asked


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"worker_flops": 0}, "worker_flops of the cost model must be a number above 0, not 0"),
        ({"worker_flops": "fast"}, "not 'fast'"),
        ({"tickets": True}, "not True"),
        ({"units": {"copy.vector": -1.0}}, "units of the cost model must be numbers above 0 by name"),
        ({"bandwidth": 1.0}, "the field 'bandwidth' of the cost model is missing or unknown"),
    ],
)
def test_a_model_that_is_none_is_refused_with_the_field(change, message):
    with pytest.raises(OptionError, match=re.escape(message)):
        CostModel.from_data(shipped("cpu").to_data() | change, "a file")


def test_a_missing_field_and_an_unknown_class_are_refused():
    data = shipped("cpu").to_data()
    del data["step_seconds"]
    with pytest.raises(OptionError, match="'step_seconds'"):
        CostModel.from_data(data, "a file")
    with pytest.raises(OptionError, match="not a device class"):
        shipped("abacus")


def test_a_unit_that_no_model_has_is_refused_with_those_of_a_like_name():
    with pytest.raises(RegistrationError, match=r"no .* unit called 'copy\.vectors'; did you mean 'copy\.vector'"):
        shipped("gpu").unit("copy.vectors")
    assert shipped("gpu").unit("copy.vector") == shipped("pocl-avx512").units["copy.vector"]


def test_devices_have_the_model_of_their_class():
    assert class_of("pocl:0", "cpu", "x", 16) == DeviceInfo(name="pocl:0", simd=16).costs.name == "pocl-avx512"
    assert DeviceInfo(name="pocl:0", simd=8).costs.name == "pocl-avx2"
    assert DeviceInfo(name="intel:0", simd=16).costs.name == "intel-cpu"
    assert DeviceInfo(name="pocl:0", simd=4).costs.name == "cpu"
    assert DeviceInfo(name="amd:0", kind="gpu", vendor="AMD").costs.name == "gpu"
    assert DeviceInfo(name="nvidia:0", kind="gpu", vendor="NVIDIA Corporation").costs.name == "nvidia"


def test_workers_beyond_the_cores_share_them():
    cores = DeviceInfo(workers=4, cores=4)
    crowd = replace(cores, workers=8)
    assert worker_flops(crowd) == worker_flops(cores) == cores.costs.worker_flops
    # 8 tickets of 1 ms: two rounds of four, or one of eight that share four cores.
    begin = cores.costs.step_seconds
    assert step_seconds(cores, 8e-3, 0, 8) == pytest.approx(begin + 2e-3)
    assert step_seconds(crowd, 8e-3, 0, 8) == pytest.approx(begin + 2e-3)
    assert step_seconds(replace(cores, workers=2), 8e-3, 0, 8) == pytest.approx(begin + 4e-3)
    # What does not divide waits for the last.
    assert step_seconds(cores, 9e-3, 0, 9) == pytest.approx(begin + 3e-3)


def test_what_fits_the_shared_cache_is_not_fetched_from_memory():
    device = DeviceInfo(workers=2, cores=2)
    c = device.costs
    near = step_seconds(device, 0, c.cache_bytes, 2)
    far = step_seconds(device, 0, 2 * c.cache_bytes, 2)
    assert near == pytest.approx(c.step_seconds + c.cache_bytes / (2 * c.cache_bytes_per_second))
    assert far - near == pytest.approx(c.cache_bytes / c.bytes_per_second)
    assert step_seconds(device, 0, 0, 2, weights=1e6) == pytest.approx(c.step_seconds + 1e6 / c.bytes_per_second)


def test_a_scale_multiplies_what_lies_beyond_the_begin_of_a_step():
    plain = DeviceInfo()
    x = Layout(DType.F32, (4, 1 << 20))
    q = Query(Activation("relu"), (x,), (x,), plain, 1)
    one = next(c for c in candidates(q) if c.name == "activation.rows")
    scaled = replace(plain, tuning=Tuning(replace(plain.costs, scales={"activation.rows": 3.0})))
    begin = plain.costs.step_seconds
    assert one.estimate(q) == one.cost(q)
    laid_out = replace(q, device=scaled)
    assert one.estimate(laid_out) - begin == pytest.approx(3 * (one.cost(laid_out) - begin))


def test_each_worker_has_a_strip_of_a_map_that_is_worth_sharing():
    device = DeviceInfo(simd=16, workers=2)
    second = device.costs.ticket_low * 2
    assert row_strips(28, 28, second / 28, 1, 1.0, device) == TicketRanges(2, 14)
    assert row_strips(7, 19, second / 7, 1, 1.0, device) == TicketRanges(2, 4)
    # Too little work, fewer than two rows for each worker, and so few pixels that workers share the channels.
    assert row_strips(28, 28, second / 29, 1, 1.0, device) == TicketRanges(1, 28)
    assert row_strips(3, 99, second, 1, 4 * second, device) == TicketRanges(1, 3)
    assert row_strips(7, 18, second / 7, 1, 1.0, device) == TicketRanges(1, 7)
    # Strips that are short enough for another reason stay.
    assert row_strips(28, 28, second, 4, 4 * second, device) == split(28, second, 4 * second, 1) == TicketRanges(7, 4)
