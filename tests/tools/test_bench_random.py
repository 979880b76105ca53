"""Operators that ``tools/bench`` draws by chance: the same each time, sound models, the worst first."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
import pytest

from tools.benchmark import drawing
from tools.benchmark.cases import is_known, load
from tools.benchmark.drawing import drawn_markdown, measure_drawn
from tools.benchmark.found import Found
from tools.benchmark.measuring import Figures, Schedule
from tools.benchmark.operator_cases import OperatorCase
from tools.benchmark.operator_draws import DRAWS, Dice, described, draw_case, name_of
from tools.benchmark.peers import Options


def figures(model: str, ratio: float, rounds: int = 1) -> Figures:
    times = {"clgraph": 2e-6 * ratio, "onnxruntime": 2e-6}
    return Figures("operators", model, 1, {}, 3, 0.5, times, times, times, {"onnxruntime": [ratio] * rounds}, {})


def test_a_drawn_operator_is_known_by_its_name_and_always_the_same() -> None:
    assert is_known("random:7:153")
    assert not any(map(is_known, ("random:7", "random:7:x", "random")))
    first, again = load("random:7:153"), load("random:7:153")
    assert first[0] == again[0]
    assert all(np.array_equal(a, b) for a, b in zip(first[1].values(), again[1].values(), strict=True))
    titles = {described(draw_case(name_of(seed, number))) for seed in (1, 2) for number in range(20)}
    assert len(titles) == 40


@pytest.mark.parametrize("draw", dict.fromkeys(DRAWS), ids=lambda d: d.__name__.strip("_"))
def test_drawn_operators_are_sound_models_of_one_node(draw) -> None:
    for seed in range(6):
        model, feeds = draw(Dice(np.random.default_rng(seed))).model()
        onnx.checker.check_model(model, full_check=True)
        assert len(model.graph.node) == 1
        assert all(array.size for array in feeds.values())
        shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.output]
        assert max(math.prod(shape) for shape in [*shapes, *(a.shape for a in feeds.values())]) < 1 << 24


def test_titles_say_types_shapes_and_what_else_there_is() -> None:
    x, table = np.zeros((2, 3), np.float16), np.zeros((3, 3))
    case = OperatorCase("ReduceMean", (x, x[0]), (np.array([1, -1]), None, table), {"keepdims": 0})
    assert described(case) == "ReduceMean f16[2,3] f16[3] =[1,-1] - c[3,3] keepdims=0"


def test_what_is_above_the_limit_is_measured_again_and_the_lower_figure_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("onnxruntime")
    rounds: list[int] = []

    def measured(_set: str, name: str, _peers: Sequence[str], _options: Options, schedule: Schedule) -> Figures:
        rounds.append(schedule.rounds)
        return figures(name, 2.5 if schedule.rounds == 1 and name.endswith(":1") else 1.5)

    monkeypatch.setattr(drawing, "measure", measured)
    found = list(measure_drawn(3, 5, Options("pocl", 1), Schedule(rounds=1)))
    assert rounds == [1, 1, 3, 1]
    assert [f.ratio("onnxruntime") for f in found] == [1.5] * 3
    assert [f.model.partition(" ")[0] for f in found] == ["random:5:0", "random:5:1", "random:5:2"]


def test_cases_that_onnxruntime_refuses_are_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")

    def refused(*_: object) -> Figures:
        raise errors.NotImplemented("no kernel")

    monkeypatch.setattr(drawing, "measure", refused)
    assert not list(measure_drawn(2, 5, Options("pocl", 1), Schedule()))
    assert capsys.readouterr().out.count("onnxruntime refuses it") == 2


def test_the_table_has_all_that_is_above_the_limit_and_else_the_worst() -> None:
    found = Found(drawn=[figures(f"random:1:{i} Add", 0.5 + i / 10) for i in range(30)])
    (text,) = Found.from_data(found.to_data()).sections()
    lines = text.splitlines()
    assert lines[2].startswith("30 cases: geometric mean 1.7")
    assert "14 above 2" in lines[2]
    assert "`tools/bench random:1:29`" in lines[2]
    rows = [line for line in lines if "random:1:" in line and line.startswith("|")]
    assert rows[0] == "| 3.40 | 6.8 | random:1:29 Add |"
    assert len(rows) == 14
    assert drawn_markdown(found.drawn[:12]).count("| random") == drawing.LEAST_SHOWN
