from __future__ import annotations

import pytest

from clgraph.core.format import feature_blocked
from clgraph.errors import UnsupportedError
from clgraph.passes.base import Context
from clgraph.passes.formats.add_required_reorders import AddRequiredReorders
from clgraph.passes.pipeline import default_pipeline
from clgraph.passes.placement.confirm_placement import ConfirmPlacement
from tests.support.programs import RELU, Net, compile_all, lines, run


def _net() -> Net:
    net = Net()
    net.conv("b", net.add("relu", RELU, net.conv("a", net.input("x", (1, 16, 4, 4)), 16, 16)), 16, 16, kernel=3)
    return net


def test_plain_programs_need_none() -> None:
    program = run(_net().program("b"), AddRequiredReorders())
    assert [n.primitive.kind for n in program] == ["convolution", "activation", "convolution"]
    assert all(n.choice is not None for n in program)


def test_a_forced_implementation_gets_the_formats_and_the_halo_it_reads() -> None:
    context = Context(forced={"b": "convolution.blocked"})
    program = run(_net().program("b"), AddRequiredReorders(), context=context)
    assert [line.partition(" = ")[0] for line in lines(program)[2:]] == [
        "b/reorder f32:b_fs_yx_fsv16:1x16x4x4+0.0,0.0,1.1,1.1",
        "b f32:b_fs_yx_fsv16:1x16x4x4",
        "b/reorder_2 f32:bfyx:1x16x4x4",
    ]
    assert str(program["b"].choice) == "convolution.blocked (forced)"
    assert program.outputs[0][0] == "b"
    assert program.outputs[0][1].layout.is_dense_plain


def test_what_nothing_serves_is_left_to_confirm_placement_whose_error_names_node_and_reasons() -> None:
    context = Context(denied=frozenset({"activation.any", "activation.slow"}))
    program = _net().program("b")
    for node in program:
        node.placement = "null"
    AddRequiredReorders().run(program, context)
    assert [n.name for n in program if n.choice is None] == ["relu"]
    with pytest.raises(UnsupportedError, match=r"'relu'(.|\n)*activation.any: denied by an option"):
        ConfirmPlacement().run(program, context)


def test_the_required_passes_alone_make_a_planned_program() -> None:
    optional = frozenset(p.name for p in default_pipeline() if not p.required)
    program = compile_all(_net().program("b"), disabled=optional)
    assert program.milestone.name == "PLANNED"
    assert [n.primitive.kind for n in program] == ["convolution", "activation", "convolution"]


def test_an_output_that_a_pass_before_put_into_blocks_is_made_plain() -> None:
    net = Net()
    net.conv("a", net.input("x", (1, 16, 4, 4)), 16, 16)
    program = net.program("a")
    program["a"].output.layout = program["a"].output.layout.with_format(feature_blocked(4))
    run(program, AddRequiredReorders(), context=Context(forced={"a": "convolution.blocked"}))
    assert program["a"].output.layout.format == feature_blocked(4)
    assert [(name, v.layout.is_dense_plain) for name, v in program.outputs] == [("a", True)]
