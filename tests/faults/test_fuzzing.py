"""A short run of tools/fuzz, and that it notices what it is for: crashes, hangs, wrong results, other exceptions."""

from __future__ import annotations

import json
import logging
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from clgraph.compilation import cache_files, model_cache
from clgraph.errors import InternalError, ModelError, ProgramError
from clgraph.frontend import scope
from clgraph.frontend.onnx_loader import load_onnx
from clgraph.runtime import programs
from tests.support.models import small_model
from tests.support.onnx_case import one_node
from tests.support.rounding import bounds, unfolded
from tools.fuzzing import judging
from tools.fuzzing.campaign import COUNTED, Child, Plan, counts, run_campaign, table
from tools.fuzzing.damage import damaged
from tools.fuzzing.files import KINDS, Files
from tools.fuzzing.graphs import graph
from tools.fuzzing.judging import LIBRARY, WRONG, compared, judge, judged, place
from tools.fuzzing.making import STEPS
from tools.fuzzing.mutations import MUTATIONS, change_elements, mutated
from tools.fuzzing.operators import operator
from tools.fuzzing.reduction import reduced
from tools.fuzzing.seeds import networks
from tools.fuzzing.single import CASES
from tools.fuzzing.variants import variant
from tools.fuzzing.worker import tell_of_libraries

DATA = small_model().SerializeToString()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ["load", "null"])
def test_changed_networks_are_one_error_or_a_program(level: str) -> None:
    wrong, kinds = [], set()
    for number in range(300 if level == "load" else 60):
        random = np.random.default_rng([5, number])
        seed = networks()[int(random.integers(len(networks())))]
        data, changes = mutated(seed.model, random)
        outcome = judge(data, seed.feeds, level)
        kinds.add(outcome.kind)
        if outcome.is_wrong:
            wrong.append(f"{number} ({seed.name}, {changes}): {outcome.kind}: {outcome.detail}")
    assert not wrong, "\n".join(wrong)
    assert kinds == {"refused", "accepted" if level == "load" else "compiled"}


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_changed_networks_compute_what_onnx_runtime_does() -> None:
    plan = Plan(count=25, level="run", seed=17)
    outcomes = run_campaign(plan, lambda outcome: None)
    assert not [o for o in outcomes if o["kind"] in judging.WRONG]
    assert {"equal", "refused"} <= {o["kind"] for o in outcomes}


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_graphs_over_constants_compute_what_onnx_runtime_does_and_none_is_refused() -> None:
    outcomes = run_campaign(Plan(count=40, level="run", seed=4, of="graphs"), lambda outcome: None)
    assert [o for o in outcomes if o["kind"] not in ("equal", "peer differs")] == []
    assert sum(o["inputs"] == 0 for o in outcomes) >= 20


def test_every_step_of_graphs_is_taken_and_comes_out_the_same_again() -> None:
    seen: set[str] = set()
    for number in range(60):
        seed, names = graph(number)
        assert graph(number)[0].model.SerializeToString() == seed.model.SerializeToString()
        assert {v.name for v in seed.model.graph.input} == set(seed.feeds)
        seen.update(names)
    assert seen == set(STEPS)


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_single_operators_compute_what_onnx_runtime_does_and_none_is_refused() -> None:
    outcomes = run_campaign(Plan(count=15, level="run", seed=5, of="operators"), lambda outcome: None)
    assert [o for o in outcomes if o["kind"] not in ("equal", "peer differs", "peer refused")] == []
    assert sum(o["kind"] == "equal" for o in outcomes) > 10


def test_every_operator_is_made_and_comes_out_the_same_again() -> None:
    seen: set[str] = set()
    for number in range(800):
        seed, names = operator(number)
        assert [node.op_type for node in seed.model.graph.node[-1:]] == names
        assert {v.name for v in seed.model.graph.input} == set(seed.feeds)
        if number < 50:
            assert operator(number)[0].model.SerializeToString() == seed.model.SerializeToString()
        seen.update(names)
    assert seen == set(CASES)


def test_variants_of_every_operator_are_made_by_every_change_and_come_out_the_same_again() -> None:
    seen: set[str] = set()
    for number in range(1500):
        seed, (name, *changes) = variant(number)
        assert name in {node.op_type for node in seed.model.graph.node}
        assert {v.name for v in seed.model.graph.input} == set(seed.feeds)
        if number < 50:
            assert variant(number)[0].model.SerializeToString() == seed.model.SerializeToString()
        seen.update([name, *changes])
    assert seen >= {"retyped", "resized", "renumbered", "other_version", "fixed", "Conv", "OneHot", "StringSplit"}


@pytest.mark.filterwarnings("ignore")
def test_variants_are_one_error_or_what_onnx_runtime_computes() -> None:
    outcomes = run_campaign(Plan(count=40, level="run", device="host", seed=6, of="variants"), lambda outcome: None)
    assert not [o for o in outcomes if o["kind"] in judging.WRONG]
    assert sum(o["kind"] == "equal" for o in outcomes) > 20


@pytest.mark.filterwarnings("ignore")
def test_what_onnx_s_own_references_share_is_onnx_runtime_s_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def kinds(*expected: float) -> list[str]:
        monkeypatch.setattr(judging, "_expected", lambda *_, **__: ({"y0": np.float32(expected)}, ""))
        return [
            judge(model.SerializeToString(), feeds, "run", "host", valid=True, single=s).kind for s in (False, True)
        ]

    model, feeds = one_node("Neg", [np.float32([3, 1])], opset=18)
    assert kinds(0, -1) == ["reference differs"] * 2
    assert kinds(np.nan, -1) == ["peer differs"] * 2
    monkeypatch.setitem(judging.SHARED, "Neg", "a reason")
    assert kinds(0, -1) == ["reference differs", "peer differs"]
    monkeypatch.setattr(judging, "_by_onnx", lambda *_: {"y0": np.float32([1, -1])})
    assert kinds(0, -1) == ["reference differs"] * 2
    assert kinds(np.nan, -1) == ["peer differs", "reference differs"]


@pytest.mark.parametrize("opset", [1, 11, 13])
def test_onnx_s_own_references_flatten_as_old_operator_sets_do(opset: int) -> None:
    model, feeds = one_node("Hardmax", [np.float32([[1, 2], [np.nan, 4]])], opset=opset, axis=0)
    outcome = judge(model.SerializeToString(), feeds, "run", "host", valid=True, single=True)
    assert outcome.kind == "peer differs", outcome.detail


@pytest.mark.parametrize("name", ["Pow", "ReduceL1", "ReduceProd", "ReduceSum", "ReduceSumSquare"])
def test_integers_that_wrap_are_onnx_runtimes_difference(name: str) -> None:
    base, exponent = np.int64([2**62, 2**62, 7]), np.int64([3, 2, 1])
    model, feeds = one_node(name, [base, exponent] if name == "Pow" else [base], opset=18)
    outcome = judge(model.SerializeToString(), feeds, "run", "host", valid=True, single=True)
    assert outcome.kind == "peer differs", outcome.detail


@pytest.mark.opencl
def test_numbers_that_are_not_finite_differ_in_single_operators_only(monkeypatch: pytest.MonkeyPatch) -> None:
    model, feeds = one_node("Neg", [np.float32([np.nan, 1])], opset=18)
    data = model.SerializeToString()
    monkeypatch.setattr(judging, "_expected", lambda *_, **__: ({"y0": np.float32([0, -1])}, ""))
    monkeypatch.setattr(judging, "_by_onnx", lambda *_: {})
    kinds = [judge(data, feeds, "run", valid=True, single=single).kind for single in (False, True)]
    assert kinds == ["peer differs", "reference differs"]


@pytest.mark.opencl
@pytest.mark.filterwarnings("ignore")
def test_damaged_files_of_clgraph_are_one_error_or_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What other tests registered keeps models out of the cache.
    monkeypatch.setattr(model_cache, "third_party", frozenset)
    monkeypatch.setattr(cache_files, "SETTLED_SECONDS", 0.03)
    files = Files(tmp_path, "pocl")
    found = [files.judge(np.random.default_rng([3, number])) for number in range(60)]
    assert not [(kind, outcome) for kind, outcome in found if outcome.is_wrong]
    assert {kind for kind, _ in found} == set(KINDS)


def test_every_change_leaves_bytes_that_come_out_the_same_again() -> None:
    seen: set[str] = set()
    for number in range(400):
        first, names = mutated(networks()[0].model, np.random.default_rng(number))
        again, _ = mutated(networks()[0].model, np.random.default_rng(number))
        assert first == again
        seen.update(names)
    assert seen == {*MUTATIONS, "bytes"}
    assert sum(damaged(DATA, np.random.default_rng(n)) != DATA for n in range(100)) > 80


def test_elements_that_a_change_has_moved_out_of_the_model_stay_as_they_are() -> None:
    tensor = onnx.numpy_helper.from_array(np.arange(3.0))
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../x")
    before = tensor.SerializeToString()
    change_elements(tensor, np.random.default_rng(0))
    assert tensor.SerializeToString() == before


def test_leaving_a_change_out_leaves_the_others_as_they_are() -> None:
    for number in range(30):
        data, names = mutated(networks()[0].model, np.random.default_rng(number))
        assert mutated(networks()[0].model, np.random.default_rng(number), frozenset(range(len(names))))[0] == data
        assert mutated(networks()[0].model, np.random.default_rng(number), frozenset())[1] == []


def test_exceptions_of_others_are_noticed_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(scope.Scope, "check_names", broken)
    outcome = judge(DATA, {}, "load")
    assert outcome.is_wrong
    assert outcome.kind == "raised"
    assert "KeyError: 'planted'" in outcome.detail
    assert outcome.detail.startswith("frontend/onnx_loader.py:")


def test_a_place_is_in_the_package_whatever_folders_are_called(tmp_path: Path) -> None:
    stranger = tmp_path / "clgraph" / "stranger.py"
    stranger.parent.mkdir()
    stranger.write_text("raise KeyError('mine')")
    with pytest.raises(KeyError) as caught:
        runpy.run_path(str(stranger))
    assert place(caught.value) == "outside"


def test_errors_that_are_none_of_the_model_are_noticed() -> None:
    assert judged(ProgramError("a pass broke it")).kind == "internal error"
    assert judged(InternalError("onnx left calls")).kind == "internal error"
    assert judged(ModelError("two\nlines")).kind == "several lines"
    assert not judged(ModelError("one line")).is_wrong


def test_results_that_differ_are_noticed() -> None:
    y = np.linspace(-1, 1, 8, dtype=np.float32)
    assert compared({"y": y}, {"y": y * np.float32(1 + 1e-6)}, "").kind == "equal"
    for other in (y * np.float32(1.01), y[:4], y.astype(np.float64), np.where(y > 0.5, np.nan, y)):
        assert compared({"y": y}, {"y": other}, "").kind == "differs"
    assert compared({"y": y}, {"z": y}, "").kind == "differs"
    assert compared({"y": y}, None, "why").kind == "peer refused"
    parts = [y, y[:1]]
    assert compared({"y": parts}, {"y": [y, y[:1]]}, "").kind == "equal"
    for others in ([y], [y, y[1:]], [y, y[:1], y]):
        assert compared({"y": parts}, {"y": others}, "").kind == "differs"


CRASHES = "import os, sys; sys.stdin.readline(); sys.stdin.readline(); print('{\"begins\": 0}', flush=True); os.abort()"
HANGS = CRASHES.replace("os.abort()", "import time; time.sleep(60)")
PEER_CRASHES = CRASHES.replace("os.abort()", 'print(\'{"phase": "onnxruntime"}\', flush=True); os.abort()')
STARTS_SLOWLY = CRASHES.replace("print", "import time; time.sleep(1); print").replace(
    "os.abort()", 'print(\'{"kind": "equal"}\', flush=True)'
)
COMPILES_FIRST = CRASHES.replace(
    "os.abort()",
    'import time; print(\'{"phase": "library"}\', flush=True); time.sleep(1); print(\'{"kind": "equal"}\', flush=True)',
)
NEVER_STARTS = "raise SystemExit(3)"


def test_children_that_crash_or_hang_are_noticed_and_ended() -> None:
    plan = Plan(count=1, level="load", seconds=60.0)
    short = replace(plan, seconds=0.1)
    for of, program, kind in (
        (plan, CRASHES, "crashed"),
        (plan, PEER_CRASHES, "peer crashed"),
        (short, HANGS, "hung"),
    ):
        child = Child(of, ("-c", program))
        assert child.judge(0)["kind"] == kind
        assert child.process is None
    for program in (STARTS_SLOWLY, COMPILES_FIRST):
        child = Child(replace(plan, seconds=0.7), ("-c", program))
        assert child.judge(0)["kind"] == "equal"
        child.end()
    with pytest.raises(RuntimeError, match="status 3 before any case"):
        Child(plan, ("-c", NEVER_STARTS)).judge(0)


def test_a_library_that_is_compiled_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger(programs.__name__)
    monkeypatch.setattr(logger, "handlers", [])
    told: list[str] = []
    tell_of_libraries(told.append)
    logger.info("compiling %s for %s, once on this machine", "softmax_rows", "pocl")
    logger.info("compiling %s for %s, once on this machine", "library rare", "pocl")
    logger.setLevel(logging.NOTSET)
    assert told == [LIBRARY]


def test_a_campaign_goes_on_where_it_was(tmp_path: Path) -> None:
    plan = Plan(count=3, level="load", folder=tmp_path)
    assert plan.log is not None
    known = [{"number": n, "seed": "s", "changes": [], "kind": "accepted", "detail": ""} for n in range(3)]
    plan.log.write_text("\n".join(map(json.dumps, known)) + '\n{"number": 3, "cut', encoding="utf-8")
    assert run_campaign(plan, pytest.fail) == known
    assert "| accepted | 3 | 100.0 |" in table(known)


def test_outcomes_are_kept_apart_by_instruction_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, found = Plan(count=1, level="run", folder=tmp_path), set()
    for isa in ("", "avx2", "avx512"):
        monkeypatch.setenv("CLGRAPH_POCL_ISA", isa)
        found.add(plan.log)
    assert len(found) == 3


def test_results_may_be_off_by_what_rounding_explains_and_no_more() -> None:
    y, allowed = np.array([1, 2, np.nan, np.inf], np.float32), {"y": np.array([1e-3, 0, np.inf, np.inf])}

    def kind(*other: float) -> str:
        return compared({"y": np.array(other, np.float32)}, {"y": y}, "", allowed).kind

    assert kind(1, 2, np.nan, np.inf) == kind(1.0019, 2, np.nan, np.inf) == "equal"
    for wrong in (
        (1.0021, 2, np.nan, np.inf),
        (1, 2.000001, np.nan, np.inf),
        (1, 2, 0, np.inf),
        (1, np.nan, np.nan, 1),
    ):
        assert kind(*wrong) == "differs"
    large = np.array([2**53 + 1], np.int64)
    assert compared({"y": large - 1}, {"y": large}, "", {"y": np.zeros(1)}).kind == "differs"
    assert compared({"y": large}, {"y": large}, "", {"y": np.zeros(1)}).kind == "equal"


def test_interpolated_integers_may_be_a_step_off_beside_whole_numbers_only() -> None:
    x, sizes = np.array([1, 3, 5], np.uint8), np.array([6])
    model, feeds = one_node("Resize", [x, None, None, sizes], opset=19, constant=[3], mode="linear")
    (bound,) = bounds(unfolded(load_onnx(model), {"x0": x.shape}), feeds).values()
    assert bound is not None
    assert bound.tolist() == [0.5, 0, 0, 0, 0, 0.5]  # of 1, 1.5, 2.5, 3.5, 4.5, 5


def test_every_outcome_is_counted_as_something() -> None:
    outcomes = [
        {"kind": kind, "detail": "", "inputs": 0} for kind in (*WRONG, "refused", "only clgraph refuses", "equal")
    ]
    found = counts(outcomes)
    assert found == {"differ": 3, "foreign": 3, "crash": 1, "hang": 1, "refused": 2, "fine": 1}
    assert set(WRONG) <= {kind for kinds in COUNTED.values() for kind in kinds}
    assert "1 fine; 11 without inputs." in table(outcomes)


def test_a_failing_graph_is_cut_down_to_the_nodes_that_fail() -> None:
    seed = next(s for s, names in map(graph, range(100)) if "gemm" in names and len(s.model.graph.node) > 20)

    def fails(model: onnx.ModelProto, feeds: object) -> bool:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return any(node.op_type == "Gemm" for node in model.graph.node)

    model, _ = reduced(seed.model, seed.feeds, fails)
    assert [node.op_type for node in model.graph.node] == ["Gemm"]
    assert len(model.graph.output) == 1
