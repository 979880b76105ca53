from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import clgraph.passes.pipeline
from clgraph.errors import OptionError, ProgramError, UnsupportedError
from clgraph.graph.check import check
from clgraph.graph.program import Milestone
from clgraph.passes.base import Context
from clgraph.passes.kernels.build_kernels import BuildKernels
from clgraph.passes.manager import PassManager
from clgraph.passes.observers import Verify
from clgraph.passes.pipeline import default_pipeline, required_pipeline
from clgraph.passes.quantization.prepare_quantization import PrepareQuantization
from clgraph.passes.reference import random_feeds, run_reference
from clgraph.passes.targets import target_passes
from clgraph.passes.targets.target_passes import TARGET_PASSES
from tests.passes.test_observers import Wrong
from tests.support.programs import ADD, MUL, RELU, Net, compile_all

NAMES = [p.name for p in default_pipeline()]
OPTIONAL = [p.name for p in default_pipeline() if not p.required]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "passes.md"
BEFORE = [
    ("init", "split_batch", "a node that reaches no output may not keep the batch whole"),
    ("split_batch", "fold_constants", "what is folded of a slice need not be folded of the whole"),
    ("keep_weights_packed", "fold_constants", "weights behind a dequantize would be floats"),
    ("round_as_fused", "decompose", "it exchanges operands, whose order counts"),
    ("decompose", "fuse_patterns", "patterns are written for the few operators that it leaves"),
    ("fuse_patterns", "transpose_optimization", "transposes would sink into what patterns spell"),
    ("transpose_optimization", "prepare_quantization", "a transpose between two of a group keeps them apart"),
    ("prepare_quantization", "use_integers", "it leaves the floats on steps of 8 bits that integers are taken from"),
    ("use_integers", "convert_precision", "weights in float16 do not know their integers"),
    ("use_integers", "compress_weights", "products of integers keep those"),
    ("compress_weights", "convert_precision", "weights would be rounded twice"),
    ("partition", "insert_transfers", "nodes have to have their devices"),
    ("fuse_attention", "prepare_primitive_fusing", "what stands between its products must not be fused into them"),
    ("sink_scales", "fold_into_weights", "a factor behind a product becomes part of its weights"),
    ("hoist_pooling", "fold_into_weights", "scales behind the pooling end in the weights with those in front of it"),
    ("fold_into_weights", "absorb_channel_shuffles", "a scale between a convolution and its shuffle keeps them apart"),
    ("absorb_channel_shuffles", "merge_groups", "merged groups with bands keep the order of their channels"),
    ("merge_groups", "prepare_primitive_fusing", "convolutions into which something is fused keep their weights"),
    ("hoist_activations", "prepare_primitive_fusing", "what makes the inputs of a concat takes the activation"),
    ("fuse_bottlenecks", "prepare_primitive_fusing", "it takes activations between convolutions as nodes of their own"),
    ("prepare_primitive_fusing", "fuse_pre_operations", "behind a producer an operation costs no kernel a feature"),
    ("prepare_primitive_fusing", "fuse_siblings", "siblings are alike in what is fused behind them"),
    ("fuse_siblings", "reorder_inputs", "formats are chosen for what is left"),
    ("prepare_padding", "remove_redundant_reorders", "a producer may write a halo itself"),
    ("remove_redundant_reorders", "prepare_buffer_fusing", "no layout of a shared buffer may change afterwards"),
    ("confirm_placement", "compile_graph", "nodes that have come since partition have to be served where they are"),
    ("post_optimize_weights", "propagate_constants", "the reorders of constants run once"),
    ("propagate_constants", "memory_dependencies", "no node comes or goes any more"),
]
"""Which pass stands before which, and what would be wrong otherwise."""


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


def test_each_pass_has_a_docstring_and_a_file_of_its_name() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for p in default_pipeline():
        assert re.fullmatch(rf"clgraph\.passes\.[a-z]+\.{p.name}", type(p).__module__)
        assert type(p).__doc__
        assert sys.modules[type(p).__module__].__doc__


def test_each_pass_of_the_package_is_in_the_list() -> None:
    folder = Path(clgraph.passes.pipeline.__file__).parent
    named = {
        m[1] for f in folder.rglob("*.py") for m in re.finditer(r'  name: ClassVar\[str\] = "(\w+)"', f.read_text())
    }
    assert named == set(NAMES)


@pytest.mark.parametrize(("first", "second", "reason"), BEFORE, ids=lambda x: x.replace(" ", "_"))
def test_a_pass_stands_before_those_that_need_it_there(first: str, second: str, reason: str) -> None:
    assert NAMES.index(first) < NAMES.index(second), f"{first} stands before {second}: {reason}"


def test_a_pass_stands_behind_the_one_that_reaches_the_stage_it_needs() -> None:
    PassManager(default_pipeline())
    with pytest.raises(ProgramError, match="compile_graph needs a FORMATTED program but stands where it is BUILT"):
        PassManager([p for p in default_pipeline() if p.name in ("init", "compile_graph")])


def _answers() -> dict[str, list[str]]:
    """Return what the page names for each of clDNN's passes, in clDNN's order."""
    return {name: re.findall(r"`(\w+)`", ours) for name, ours, _ in _rows()}


def _rows() -> list[tuple[str, str, str]]:
    """Return the table on clDNN's passes: its name, ours, and how or why not."""
    table = PAGE.read_text(encoding="utf-8").partition("## clDNN's passes")[2]
    return re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \| ([^|]*) \|$", table, re.MULTILINE)


def test_each_pass_of_cldnn_is_answered_by_passes_that_are_there_or_by_a_reason() -> None:
    answers = _answers()
    seed = "prepare_primitive_fusing reorder_inputs remove_redundant_reorders prepare_buffer_fusing compile_graph"
    seed += " add_required_reorders add_onednn_optimization_attributes propagate_constants oooq_memory_dependencies"
    assert {"graph_initializations", *seed.split()} <= answers.keys()
    assert {name for names in answers.values() for name in names} <= set(NAMES)
    assert all(why for _, _, why in _rows())
    assert all(ours or column == "none" for (_, column, _), ours in zip(_rows(), answers.values(), strict=True))


def test_passes_that_have_the_names_of_cldnn_s_come_in_its_order_and_answer_it() -> None:
    answers = _answers()
    shared = [name for name in answers if name in NAMES]
    assert shared == [name for name in NAMES if name in answers]
    assert all(name in answers[name] for name in shared)
    assert len(shared) > 10


@pytest.mark.parametrize("name", OPTIONAL)
def test_without_any_optional_pass_the_results_are_the_same(name: str, expected) -> None:
    program = compile_all(_net().program("flat", "right"), disabled=frozenset({name}), observers=[Verify()])
    assert program.milestone == Milestone.PLANNED
    _same(program, expected)


def test_with_the_required_passes_alone_the_results_are_the_same(expected) -> None:
    program = compile_all(_net().program("flat", "right"), disabled=frozenset(OPTIONAL), observers=[Verify()])
    assert program.milestone == Milestone.PLANNED
    assert [p.name for p in required_pipeline()] == [name for name in NAMES if name not in OPTIONAL]
    _same(program, expected)


@pytest.mark.parametrize("name", NAMES)
def test_stopped_after_any_pass_the_results_are_the_same(name: str, expected) -> None:
    program = compile_all(_net().program("flat", "right"), stop_after=name, observers=[Verify()])
    assert program.milestone == Milestone.PLANNED
    _same(program, expected)


def test_a_required_pass_cannot_be_disabled_and_an_unknown_name_is_refused() -> None:
    with pytest.raises(OptionError, match="'partition' is required"):
        PassManager(default_pipeline(), disabled=frozenset({"partition"}))
    with pytest.raises(OptionError, match="no pass is called 'fusing'; did you mean 'prepare_primitive_fusing'"):
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
    seen: list[Milestone] = []

    class Look(target_passes.TargetPasses):
        name = "look"

        def run(self, program, context):
            seen.append(program.milestone)
            return 3

    registered.register("look", Look())
    compile_all(_net().program("flat"))
    assert seen == [Milestone.FORMATTED]


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
