"""What ``tools/bench`` makes of its measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import sleep

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from clgraph.errors import ClgraphError, InputError
from clgraph.network.profile import NodeTime
from clgraph.selector.query import DeviceInfo
from tests.support.graph_writer import GraphWriter
from tests.support.models import light_model
from tests.support.open_models import convolutions
from tests.support.zoo import ZOO
from tools.benchmark import everything
from tools.benchmark.cases import SETS, Goal, chosen, is_known, known_models, load
from tools.benchmark.everything import Journal, Step, run_steps, steps
from tools.benchmark.found import Found
from tools.benchmark.fresh import Start, starts_markdown
from tools.benchmark.kept_shapes import different, keep_shapes, kept_shapes_markdown
from tools.benchmark.layers import Layer, _groups, kinds_markdown, layers_markdown, match
from tools.benchmark.measuring import Figures, Schedule, _block, geometric_mean
from tools.benchmark.operators import OPERATORS
from tools.benchmark.peers import Options
from tools.benchmark.plots import comparison, ratios, roofline
from tools.benchmark.readme import BEGIN, END, replaced, speed
from tools.benchmark.report import markdown, results_path, save
from tools.benchmark.small import SMALL
from tools.benchmark.streams import STREAMS, Stream, StreamCase, stream, streams_markdown
from tools.benchmark.variants import AVX2, variants_markdown


def figures(model: str, ratios: Sequence[float], set_name: str = "cnn", threads: int = 1) -> Figures:
    times = {"clgraph": 0.002, "onnxruntime": 0.004}
    ratio = {"onnxruntime": list(ratios)}
    return Figures(set_name, model, threads, {"x": [1]}, 3, 0.5, times, times, times, ratio, {"onnxruntime": 1e-6})


def test_every_model_of_every_set_is_known() -> None:
    networks = {name: one for name, one in SETS.items() if name != "operators"}
    assert {model.partition("@")[0] for one in networks.values() for model in one.models} <= set(known_models())
    assert chosen(["all"], ["x"])[-1] == ("", "x")
    assert len(chosen(["all"], [])) == sum(len(one.models) for one in networks.values())
    assert len(chosen(["operators"], [])) == len(OPERATORS)
    assert chosen(["operators"], ["x"], "Add f16 s") == [("operators", "Add f16 small"), ("", "x")]


def test_processor_time_is_that_of_runs_and_not_of_waiting() -> None:
    wall, processor = (_block(lambda: sleep(0.02), 0, 2, Schedule(processor=p).clock) for p in (False, True))
    assert min(wall) >= 0.02 > 2 * max(processor)


def test_operators_are_models_of_one_node() -> None:
    for title in ("Add f16 small", "Resize f32 cubic small", "Split f32 columns small", "NonMaxSuppression small"):
        model, feeds = load(title)
        onnx.checker.check_model(model, full_check=True)
        assert [node.op_type for node in model.graph.node] == [title.partition(" ")[0]]
        assert all(array.size for array in feeds.values())


def test_small_models_are_sound_and_run() -> None:
    for title in SMALL:
        model, feeds = load(title)
        onnx.checker.check_model(model, full_check=True)
        results = ReferenceEvaluator(model).run(None, feeds) if title in ("voice detector", "wake word") else []
        assert all(np.isfinite(array).all() for array in results)


def test_a_shape_behind_a_name_makes_a_batch() -> None:
    model, feeds = load("squeezenet@3x3x224x224")
    assert [a.shape for a in feeds.values()] == [(3, 3, 224, 224)]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


def test_open_dimensions_need_a_shape(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    path = tmp_path / "open.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    with pytest.raises(InputError, match="open dimensions"):
        load(str(path))
    assert load(f"{path}@5")[1]["x"].shape == (5,)


def test_the_ratio_is_the_median_of_the_rounds_and_means_are_geometric() -> None:
    assert figures("resnet50", [0.5, 9.0, 0.7]).ratio("onnxruntime") == 0.7
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)


def test_a_missed_goal_is_bold() -> None:
    text = markdown([figures("resnet50", [1.02]), figures("zfnet512", [1.02]), figures("x", [0.3], "")])
    assert "**1.02** (≤ 1.00)" in text
    assert "| 1.02 (≤ 1.05) |" in text
    assert "**1.02** (≤ 0.72)" in text
    assert "### models, 1 thread\n" in text
    assert Goal(0.9).worst_of("resnet50") is None


def test_results_are_saved_with_their_conditions(tmp_path: Path) -> None:
    about = {"date": "2026-01-02T03:04:05+00:00", "device": "pocl:0 (pthread)"}
    path = results_path(tmp_path / "results", about)
    assert path.name == "2026-01-02T030405-pocl-0.json"
    save(path, about, Found([figures("resnet50", [0.5])]))
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert saved["conditions"] == about
    assert saved["results"][0]["ratios"] == {"onnxruntime": [0.5]}
    assert "### cnn" in path.with_suffix(".md").read_text(encoding="utf-8")


def test_what_was_measured_survives_a_file() -> None:
    start = Start("m", "clgraph", 0.4, 0.3, 30 << 20, 0.27)
    found = Found([figures("vgg19", [0.5])], cold_starts=[start], streams=[requests(0.02)], layers=["| a |"])
    found.variants["avx2"] = [figures("vgg19", [1.5])]
    again = Found.from_data(json.loads(json.dumps(found.to_data())))
    assert again.sections() == found.sections()
    assert again.results == found.results
    again.add(found)
    assert [len(again.results), len(again.layers), len(again.variants["avx2"])] == [2, 2, 2]


STEPS = list(steps([("cnn", "vgg19"), ("ocr", "ocr-cls")], [1, 2], ["vgg19"], ["vgg19"], [], [AVX2]))


def test_every_model_is_a_step_with_each_number_of_threads_and_variants_have_the_most() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS) == 4 + 1 + len(STREAMS) + 1 + 1 + 2
    assert STEPS[1].arguments == ("vgg19", "--threads", "2")
    assert STEPS[-1].arguments[:3] == ("ocr-cls", "--threads", "2")
    assert (STEPS[-1].variant, STEPS[-1].set) == (AVX2, "ocr")


def test_steps_that_failed_or_were_not_reached_are_measured_by_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    bad = STEPS[2].name

    def run(step: Step, common: Sequence[str]) -> Found:
        ran.append(step.name)
        if step.name == bad:
            raise ClgraphError("no network")
        if step is STEPS[5] and len(ran) == 6:
            raise KeyboardInterrupt
        return Found([figures(step.name, [0.5])])

    monkeypatch.setattr(everything, "_run", run)
    path, about = tmp_path / "unfinished.jsonl", {"date": "1", "load": 3.0, "device": "pocl"}
    with pytest.raises(KeyboardInterrupt):
        run_steps(STEPS, (), Journal.of(path, about, ["--rounds", "7"]))
    assert "failed: no network" in capsys.readouterr().out
    bad, ran[:] = "", []
    journal = Journal.of(path, about | {"date": "2", "load": 0.0}, ["--rounds", "7"])
    found, failed = run_steps(STEPS, (), journal)
    assert ran == [step.name for step in (STEPS[2], *STEPS[5:])]
    assert [f.model for f in found.results] == [step.name for step in STEPS]
    assert not failed
    assert journal.about["date"] == "1"
    for given in (about | {"device": "intel"}, about):
        assert not Journal.of(path, given, ["--rounds", "7"], again=given is about).found


def test_what_is_left_is_judged_by_steps_of_the_same_kind(tmp_path: Path) -> None:
    journal = Journal.of(tmp_path / "unfinished.jsonl", {}, [])
    assert journal.left(STEPS) == 0.0
    for step, seconds in zip(STEPS, (10.0, 20.0, 2.0, 4.0, 64.0), strict=False):
        journal.add(step, Found(), seconds)
    assert journal.left(STEPS[4:]) == 64.0 + len(STREAMS) * 20.0 + 20.0 + 20.0 + 15.0 + 3.0
    assert Journal.of(tmp_path / "unfinished.jsonl", {}, []).left(STEPS[-2:]) == 18.0


def test_a_damaged_journal_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "unfinished.jsonl"
    path.write_text('{"about": {}', encoding="utf-8")
    with pytest.raises(ClgraphError, match="--again"):
        Journal.of(path, {}, [])


def test_nodes_of_the_optimized_graph_are_found_by_tensor_name_or_reader() -> None:
    made = helper.make_node
    nodes = [made("Conv", ["x"], ["c"], "conv"), made("Relu", ["c"], ["r"], "conv_1"), made("Add", ["r"], ["y"], "add")]
    optimized = [
        made("ReorderInput", ["x"], ["t0"], "ReorderInput"),
        made("Conv", ["t0"], ["t1"], "conv_1_nchwc"),
        made("ReorderOutput", ["t1"], ["r"], "ReorderOutput"),
        made("Add", ["r"], ["y"], "invented"),
        made("Shape", ["x"], ["s"], "Shape"),
    ]
    assert dict(match(optimized, nodes)) == {
        "ReorderInput": "conv_1",
        "conv_1_nchwc": "conv_1",
        "ReorderOutput": "conv_1",
        "invented": "add",
    }


def command(node: str, *origin: str, seconds: float = 1e-6) -> NodeTime:
    return NodeTime(node, origin, "conv", "conv.ref", "conv_ref", "pocl:0", 0.0, seconds, 0, 1e3)


def test_commands_of_the_same_nodes_are_one_layer() -> None:
    commands = [command("a", "n0", "n1"), command("b", "n2"), command("c", "n3"), command("d", "n1", "n3")]
    layers = _groups(commands, DeviceInfo(flops=1e12, bytes_per_second=1e10))
    assert [set(x.nodes) for x in layers] == [{"n0", "n1", "n3"}, {"n2"}]
    assert layers[0].seconds == pytest.approx(3e-6)
    assert layers[0].kernels == ["conv_ref"] * 3
    assert layers[0].bound == pytest.approx(3e3 / 1e12)


def test_layers_are_shown_by_what_is_lost_in_them() -> None:
    layers = [
        Layer(("n0",), ["a"], ["Conv"], 1e-6, 5e-6, 1e3),
        Layer(("n1", "n2"), ["b"], ["Conv", "Conv"], 9e-6, 2e-6, 9e4),
        Layer((), [], ["Flatten"], 0.0, 1e-6),
    ]
    lines = layers_markdown(layers).splitlines()
    assert lines[2] == "| n1 +1 | b | 9 | 10 | 2 Conv | 2 | +7 |"
    assert lines[-1] == "| all | | 10 | | | 8 | +2 |"
    assert [line.split(" | ")[0] for line in kinds_markdown(layers).splitlines()[2:]] == ["| b", "| (none)", "| a"]


def test_a_batch_of_images_gives_each_its_own_result() -> None:
    ort = pytest.importorskip("onnxruntime")
    model, feeds = load("squeezenet@2x3x224x224")
    name, images = next(iter(feeds.items()))
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    single = ort.InferenceSession(light_model("squeezenet", logits=False).SerializeToString())
    both = session.run(None, feeds)[0]
    one = single.run(None, {name: images[1:]})[0]
    assert np.abs(both[1] - one[0]).max() <= 1e-5


def test_texts_are_measured_without_masks_and_tested_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphWriter, "weight", GraphWriter.zeros)
    assert ZOO["small_encoder"].make()[1]["attention_mask"].min() == 0
    assert load("minilm_16")[1]["attention_mask"].min() == 1


def test_a_variant_is_set_beside_the_default_by_way_of_onnxruntime() -> None:
    base = [figures("resnet50", [0.5]), figures("vgg19", [0.4])]
    lines = variants_markdown(base, {"avx2": [figures("resnet50", [1.0])]}).splitlines()
    assert lines[2] == "| resnet50 | 1 | 0.50 | 1.00 | 2.00 |"
    assert lines[3] == "| vgg19 | 1 | 0.40 |  |  |"
    assert lines[4].endswith("| 1.00 | 2.00 |")


def test_starts_and_memory_are_shown_relative_to_onnxruntimes() -> None:
    starts = [Start("m", "clgraph", 0.4, 0.3, 30 << 20, 0.27), Start("m", "onnxruntime", 0.2, 0.2, 20 << 20, 0.18)]
    lines = starts_markdown(starts).splitlines()
    assert lines[2] == "| m | clgraph | 0.40 | 0.30 | 2.00 | 0.27 | 1.50 | 30 | 1.50 |"
    assert lines[3] == "| m | onnxruntime | 0.20 | 0.20 |  | 0.18 |  | 20 |  |"


def test_starts_without_the_time_to_the_result_leave_it_open() -> None:
    starts = [Start("m", "clgraph", 0.4, 0.3, 0), Start("m", "onnxruntime", 0.2, 0.2, 0)]
    assert starts_markdown(starts).splitlines()[2] == "| m | clgraph | 0.40 | 0.30 | 2.00 |  |  |  |  |"


def requests(seconds: float) -> Stream:
    first, again = {"clgraph": [seconds, 0.03], "onnxruntime": [0.02, 0.03]}, {"clgraph": [0.01], "onnxruntime": [0.02]}
    return Stream("detection", 2, first, again, [0.004, 0.008, 0.005], 0.1, 1, 2e-6, [[1, 3, 32, 32], [1, 3, 64, 32]])


def test_streams_are_judged_by_their_totals() -> None:
    lines = streams_markdown([requests(0.02), requests(0.03)]).splitlines()
    assert lines[2] == "| detection, 2 threads | 2 | new | 0.05 | 0.05 | 1.00 (≤ 1) | 25.0 / 25.0 | 2e-06 |"
    assert lines[3] == "|  |  | again | 0.01 | 0.02 | 0.50 (≤ 0.7) | 10.0 / 20.0 | 2e-06 |"
    assert "**1.20** (≤ 1)" in lines[4]
    assert lines[-1] == "| detection | 5.0 (4.0) | 100 | 1/20 | 1 of 3 |"


@pytest.mark.opencl
@pytest.mark.slow
def test_a_stream_is_bound_and_agrees_with_onnxruntime(device: str) -> None:
    """Slow because the encoder has 22 million weights; its binding is that of small ones in tests/families."""
    found = stream("encoder", 6, Options(device, 2), Schedule(pause=0.0))
    assert found.whole == 0
    assert found.error < 1e-4
    assert all(len(times) == 6 for times in (*found.first.values(), *found.again.values()))


def test_requests_of_a_stream_are_the_same_every_time() -> None:
    for case in STREAMS.values():
        one, other = ([v.shape for v in case.request(Random(3)).values()] for _ in range(2))
        assert one == other


def test_pictures_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    layers = [
        Layer((f"n{i}",), [f"kernel_{i % 7}"], ["Conv"], 1e-5 * (i + 1), 2e-5, 1e6 * (i + 1), 4096, bound=1e-6)
        for i in range(9)
    ]
    roofline(layers, DeviceInfo(), "a model", tmp_path / "roofline.svg")
    assert "<dc:date>" not in (tmp_path / "roofline.svg").read_text(encoding="utf-8")
    drawn = []
    for name in ("first", "second"):
        comparison(layers, "onnxruntime", "a model", tmp_path / name / "layers.svg", most=5)
        ratios([figures("vgg19", [0.5]), figures("vgg19", [1.5], threads=2)], tmp_path / name / "ratios.svg")
        drawn.append([p.read_bytes() for p in sorted((tmp_path / name).iterdir())])
    assert drawn[0] == drawn[1]
    text = drawn[0][0].decode()
    assert "n8" in text
    assert "n0" not in text.replace("n0.", "")
    assert "vgg19" in drawn[0][1].decode()


def test_the_readmes_table_has_the_mean_and_the_range_of_each_set() -> None:
    about = {"cores": 2, "cpu": "some CPU", "date": "2026-11-20T09:00", "versions": {"onnxruntime": "1.31"}}

    def saved(*found: Figures) -> dict[str, object]:
        return {"conditions": about, "results": [asdict(f) for f in found]}

    old = saved(figures("a", [0.5]), figures("b", [9.0]))
    new = saved(figures("b", [2.0]), figures("c", [0.25], "ocr", 2))
    rows = [line.split("|")[1:-1] for line in speed([old, new]).splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in rows[0]] == ["set", "ONNX Runtime, 1 thread", "ONNX Runtime, 2 threads"]
    assert [cell.strip() for cell in rows[2][1:]] == ["**1.00** (0.50 to 2.00)", ""]
    assert [cell.strip() for cell in rows[3][1:]] == ["", "**0.25** (0.25 to 0.25)"]


def test_only_what_stands_between_the_marks_of_the_readme_is_replaced() -> None:
    page = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    text = replaced(page, "new\n")
    assert f"{BEGIN}new\n{END}" in text
    assert text.partition(BEGIN)[0] == page.partition(BEGIN)[0]
    assert text.partition(END)[2] == page.partition(END)[2]
    with pytest.raises(ValueError, match="marks"):
        replaced("no marks", "new")


def test_the_readme_shows_streams_behind_the_sets() -> None:
    about = {"versions": {"onnxruntime": "1.32"}, "cores": 2, "cpu": "a CPU", "date": "2026-11-22T10"}
    rows = [asdict(figures("vgg19", [0.5]))]
    plain = speed([{"conditions": about, "results": rows}])
    later = about | {"date": "2026-11-23T10"}
    shown = speed(
        [
            {"conditions": about, "results": rows},
            {"conditions": later, "results": [], "streams": [asdict(requests(0.02))]},
        ]
    )
    assert shown.startswith(plain)
    assert "ONNX Runtime 1.32, 2026-11-23." in shown
    assert shown.endswith("| PP-OCRv4 detection: pages with sides of 256 to 768 pixels | 3 | **1.00** | **0.50** |\n\n")


@pytest.mark.opencl
def test_shapes_that_are_kept_are_all_different(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stream has not as many, batches of several of its requests are others."""
    case = StreamCase(convolutions, lambda r: {"x": np.zeros((r.randint(2, 3), 3, 8, 9), np.float32)}, (1.0, 1.0))
    monkeypatch.setitem(STREAMS, "small", case)
    assert len({f["x"].shape for f in different(case, 5)}) == 5
    found = keep_shapes("small", 5, Options(device, 2))
    assert (found.shapes, found.kept) == (5, 5)
    assert min(found.begin, found.end) > 0  # a process may give memory back meanwhile
    assert kept_shapes_markdown([found]).splitlines()[2].startswith("| small | 5 | 5 | ")


def test_models_are_looked_for_before_any_is_measured(tmp_path):
    (tmp_path / "m.onnx").touch()
    known = (*OPERATORS, *known_models(), "resnet50@8x3x224x224", str(tmp_path / "m.onnx"))
    assert all(map(is_known, known))
    assert not is_known("yolov8n")
    with pytest.raises(InputError, match="mobilenet_v2 has one shape"):
        load("mobilenet_v2@8x3x224x224")
