"""Weights that the device of their node does not lay out."""

from __future__ import annotations

import numpy as np
import pytest

from clgraph.core.packing import pack, unpack
from clgraph.errors import UnsupportedError
from clgraph.graph.check import check
from clgraph.graph.program import Program
from clgraph.passes.base import Context
from clgraph.passes.constants.propagate_constants import PropagateConstants
from clgraph.passes.kernels.post_optimize_weights import PostOptimizeWeights
from clgraph.passes.reference import random_feeds, run_reference
from tests.support.programs import ADD, Net, run_until

NO_REORDER = frozenset({"reorder.any"})


def _selected() -> tuple[Net, Program]:
    net = Net()
    x = net.input("x", (1, 64, 12, 12))
    net.add("sum", ADD, net.conv("a", x, 64, 64), net.add("b", net.layers[0].primitive, x, "a_w"))
    return net, run_until(
        net.program("sum"), "compile_graph", disabled=["merge_equal_nodes", "prepare_primitive_fusing"]
    )


def test_what_its_device_does_not_lay_out_the_host_does_once_and_a_note_says_why() -> None:
    net, program = _selected()
    feeds = random_feeds(program)
    want = run_reference(program, feeds)["sum"]
    context = Context(denied=NO_REORDER)
    assert PostOptimizeWeights().run(program, context) == 2
    check(program)
    a, b = program["a"], program["b"]
    packed = a.inputs[1]
    assert packed is b.inputs[1]
    assert packed.producer is None
    np.testing.assert_array_equal(packed.constant, pack(net.constants["a_w"], packed.layout))
    np.testing.assert_array_equal(unpack(packed.constant, packed.layout), net.constants["a_w"])
    assert str(packed.layout.format) == "bs_fs_yx_fsv16_bsv16"
    assert a.choice.query == context.query(a)
    # The first reorder of that name is that of the input.
    first, *reasons = program.notes["post_optimize_weights"].splitlines()
    assert first.startswith("a/reorder_2 is computed on the host: nothing serves reorder(dtype=f32, format=bs_fs_yx")
    assert reasons == ["  reorder.any: denied by an option"]
    PropagateConstants().run(program, context)
    np.testing.assert_array_equal(run_reference(program, feeds)["sum"], want)


def test_programs_of_one_model_share_what_the_host_has_laid_out() -> None:
    context, found = Context(denied=NO_REORDER), []
    net, first = _selected()
    context.packed.register([net.constants["a_w"]])
    second = run_until(net.program("sum"), "compile_graph", disabled=["merge_equal_nodes", "prepare_primitive_fusing"])
    for program in (first, second):
        PostOptimizeWeights().run(program, context)
        found.append(program["a"].inputs[1].constant)
    assert found[0] is found[1]
    assert not found[0].flags.writeable


def test_a_kernel_that_was_forced_on_the_reorder_of_weights_is_an_error_where_it_refuses() -> None:
    _, program = _selected()
    context = Context(denied=NO_REORDER, forced={"a/reorder_2": "reorder.any"})
    with pytest.raises(UnsupportedError, match=r"'a/reorder_2'.*reorder.any was forced .* denied by an option"):
        PostOptimizeWeights().run(program, context)
