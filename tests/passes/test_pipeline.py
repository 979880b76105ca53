from __future__ import annotations

import re

import pytest

from clgraph.errors import OptionError, ProgramError, UnsupportedError
from clgraph.graph.check import check
from clgraph.graph.program import Stage
from clgraph.passes.base import Context, PassManager
from clgraph.passes.kernels.build_kernels import BuildKernels
from clgraph.passes.observers import Verify
from clgraph.passes.pipeline import default_pipeline, required_pipeline
from clgraph.passes.quantization.prepare_quantization import PrepareQuantization
from clgraph.passes.reference import random_feeds, run_reference
from clgraph.passes.targets import target_passes
from clgraph.passes.targets.target_passes import TARGET_PASSES
from tests.passes.test_observers import Wrong
from tests.support.programs import ADD, MUL, RELU, Net, compile_all

NAMES = [
    "init",
    "fold_constants",
    "compute_constants",
    "decompose",
    "fuse_patterns",
    "transpose_optimization",
    "prepare_quantization",
    "partition",
    "use_integers",
    "convert_precision",
    "remove_layering_annotations",
    "insert_transfers",
    "target_tensor_selection",
    "fuse_attention",
    "prepare_primitive_fusing",
    "fuse_siblings",
    "reorder_inputs",
    "handle_reshape",
    "prepare_padding",
    "remove_redundant_reorders",
    "prepare_buffer_fusing",
    "add_required_reorders",
    "confirm_placement",
    "target_passes",
    "compile_graph",
    "post_optimize_weights",
    "propagate_constants",
    "target_scheduling",
    "memory_dependencies",
    "oooq_memory_dependencies",
    "target_memory_allocation",
    "plan_memory",
    "target_code_emission",
    "build_kernels",
]
REQUIRED = [
    "init",
    "fold_constants",
    "partition",
    "insert_transfers",
    "add_required_reorders",
    "compile_graph",
    "post_optimize_weights",
    "propagate_constants",
    "memory_dependencies",
    "oooq_memory_dependencies",
    "plan_memory",
    "build_kernels",
]
OPTIONAL = [n for n in NAMES if n not in REQUIRED]


def _net() -> Net:
    """Return a net that gives every pass something to do."""
    from clgraph.ops.activation import Activation
    from clgraph.ops.batch_normalization import BatchNormalization
    from clgraph.ops.reshape import Reshape
    from clgraph.ops.transpose import Transpose

    net = Net()
    x = net.input("x", (1, 16, 10, 10))
    h = net.conv("first", x, 16, 16, kernel=3, annotation="null")
    h = net.add("bn", BatchNormalization(), h, *(net.data(n, 16) for n in "sbm"), net.data("v", 16, low=0.5))
    h = net.add("swish", MUL, h, net.add("gate", Activation("sigmoid"), h))
    left, right = net.conv("left", h, 16, 32, kernel=3), net.conv("right", h, 16, 16)
    joined = net.concat("joined", left, right)
    h = net.conv("second", net.add("joined_relu", RELU, joined), 48, 16, kernel=5)
    h = net.add("sum", ADD, h, right)
    t = net.add("back", Transpose((0, 3, 1, 2)), net.add("e", RELU, net.add("there", Transpose((0, 2, 3, 1)), h)))
    net.add("flat", Reshape((1600,)), net.add("half", Reshape((16, 100)), t))
    return net


@pytest.fixture(scope="module")
def expected():
    program = _net().program("flat", "right")
    feeds = random_feeds(program)
    return feeds, run_reference(program, feeds, exact=True)


def _same(program, expected) -> None:
    feeds, results = expected
    found = run_reference(program, feeds, exact=True)
    for name, array in results.items():
        # Both are computed in float64; they differ by the folded weights, rounded once: 2**-24 of each product, so that
        # of the largest sum of products, itself below 64 times the largest result of a random net three layers deep.
        assert abs(found[name] - array).max() <= 64 * 2.0**-24 * abs(array).max()


def test_the_passes_are_those_of_the_design() -> None:
    assert [p.name for p in default_pipeline()] == NAMES
    assert [p.name for p in required_pipeline()] == REQUIRED


def test_each_pass_has_a_file_of_its_name_and_a_docstring() -> None:
    for p in default_pipeline():
        assert re.fullmatch(rf"clgraph\.passes\.[a-z]+\.{p.name}", type(p).__module__)
        assert type(p).__doc__


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_any_optional_pass_the_results_are_the_same(name: str, expected) -> None:
    program = compile_all(_net().program("flat", "right"), disabled=frozenset({name}), observers=[Verify()])
    assert program.stage == Stage.PLANNED
    _same(program, expected)


@pytest.mark.parametrize("name", NAMES)
def test_stopped_after_any_pass_the_results_are_the_same(name: str, expected) -> None:
    program = compile_all(_net().program("flat", "right"), stop_after=name, observers=[Verify()])
    assert program.stage == Stage.PLANNED
    _same(program, expected)


def test_a_required_pass_cannot_be_disabled_and_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match="'partition' is required"):
        PassManager(default_pipeline(), disabled=frozenset({"partition"}))
    with pytest.raises(OptionError, match="no pass is called 'fusing'; the passes are init"):
        PassManager(default_pipeline(), stop_after="fusing")


def test_provenance_of_every_node_of_the_model_survives() -> None:
    net = _net()
    program = compile_all(net.program("flat", "right"))
    kept = {name for node in program for name in node.origin}
    gone = {layer.name for layer in net.layers} - kept
    assert gone <= {"there", "back", "half"}


def test_building_is_left_out_in_a_dry_run_and_counted_otherwise() -> None:
    program = compile_all(_net().program("flat"))
    assert "dry run" in program.notes["build_kernels"]
    assert BuildKernels().run(program, Context(build=lambda p: 7)) == 7


def test_quantization_has_nothing_to_do_yet() -> None:
    assert PrepareQuantization().run(_net().program("flat"), Context()) == 0


@pytest.fixture
def registered():
    saved = TARGET_PASSES.snapshot()
    yield TARGET_PASSES
    TARGET_PASSES.restore(saved)


def test_a_target_pass_runs_before_the_choice_and_is_named_when_it_breaks_the_program(registered) -> None:
    registered.register("wrong", Wrong("edges"))
    with pytest.raises(ProgramError, match=r"target pass wrong: .*reader"):
        compile_all(_net().program("flat"))
    registered.restore({})
    seen: list[Stage] = []

    class Look(target_passes.TargetPasses):
        name = "look"

        def run(self, program, context):
            seen.append(program.stage)
            return 3

    registered.register("look", Look())
    compile_all(_net().program("flat"))
    assert seen == [Stage.FORMATTED]


def test_an_operator_nobody_serves_is_reported_by_partition() -> None:
    with pytest.raises(
        UnsupportedError,
        match=r"2 of \d+ nodes have no implementation on null:\n(.|\n)*'there'(.|\n)*null: (.|\n)*'back'",
    ):
        compile_all(
            _net().program("flat"),
            Context(denied=frozenset({"transpose.slow"})),
            disabled=frozenset({"transpose_optimization"}),
        )


def test_planning_again_gives_the_same_text() -> None:
    first, second = (str(compile_all(_net().program("flat", "right"))) for _ in range(2))
    assert first == second
    check(compile_all(_net().program("flat")))
