"""Inputs that are read where the caller has them."""

import weakref

import numpy as np
import pytest

import clgraph
from clgraph.ops.activation import Activation
from clgraph.ops.convolution import Convolution

pytestmark = pytest.mark.opencl
RNG = np.random.default_rng(9)
SHAPE = (1, 3, 61, 67)
COUNT = 3 * 61 * 67


def topology(second_reader=False):
    """A first layer on a picture; its input is read by tile functions that take any alignment, or also by others."""
    made = clgraph.Topology()
    x = made.input("x", SHAPE)
    w = made.constant("w", np.random.default_rng(1).standard_normal((20, 3, 3, 3)).astype(np.float32))
    y = made.add("y", Convolution((2, 2), (1, 1), ((1, 1), (1, 1))), x, w)
    made.output("y", y)
    if second_reader:
        made.output("z", made.add("z", Activation("relu"), x))
    return made


def compiled(device, executor, **options):
    model = clgraph.compile(topology(**options), device=device, config={"executor": executor})
    return model, model._current().network


@pytest.fixture(params=["stream", "persistent"])
def lent(request, device, engine):
    if "host_memory" not in engine.info.features:
        pytest.skip("the device copies")
    model, network = compiled(device, request.param)
    assert [loan._bank for loan in network._loans] == list(network._places[engine.info.name].loans.values())
    assert len(network._loans) == 1
    return model


@pytest.mark.parametrize("floats", [0, 1, 7, 15])
def test_an_array_at_any_address_is_read_where_it_lies(lent, floats):
    memory = RNG.standard_normal(COUNT + floats).astype(np.float32)
    x = memory[floats:].reshape(SHAPE)
    want = lent.run({"x": x})["y"]
    x.flags.writeable = False
    np.testing.assert_array_equal(lent.run({"x": x})["y"], want)
    # Addresses that are no float's, and arrays that are not contiguous, are copied.
    odd = np.zeros(COUNT * 4 + 1, np.uint8)[1:].view(np.float32).reshape(SHAPE)
    odd[...] = x
    assert not odd.flags.aligned
    np.testing.assert_array_equal(lent.run({"x": odd})["y"], want)
    np.testing.assert_array_equal(lent.run({"x": np.asfortranarray(x)})["y"], want)
    np.testing.assert_array_equal(lent.run({"x": x})["y"], want)


def test_each_run_reads_the_array_it_is_given_and_keeps_none(lent):
    for _ in range(5):
        x = RNG.standard_normal(SHAPE).astype(np.float32)
        got = lent.run({"x": x})["y"]
        kept = x.copy()
        x[...] = np.nan
        np.testing.assert_array_equal(lent.run({"x": kept})["y"], got)
        assert np.isnan(lent.run({"x": x})["y"]).all()
        gone = weakref.ref(x)
        del x
        assert gone() is None


def test_a_lent_input_gives_what_a_copied_one_gives(device, lent):
    copied, network = compiled(device, "stream", second_reader=True)
    assert not network._loans
    x = RNG.standard_normal(SHAPE).astype(np.float32)
    results = copied.run({"x": x})
    np.testing.assert_array_equal(results["z"], np.maximum(x, 0))
    np.testing.assert_array_equal(lent.run({"x": x})["y"], results["y"])
    assert lent.profile({"x": x}).commands
