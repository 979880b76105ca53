from __future__ import annotations

import json
from pathlib import Path

import pytest

import clgraph
from clgraph.errors import ModelError
from clgraph.explorer.history import BUILT, History, Step, changed, read_histories
from tests.support.models import small_model


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dump")
    clgraph.compile(small_model(), device="null", config={"dump_graphs": folder})
    return folder


def _step(number: int, *names: str) -> Step:
    return Step(number, f"p{number}", 0, 0.0, {"nodes": [{"name": n} for n in names], "notes": {}})


def test_the_steps_of_a_dump_are_in_the_order_of_the_passes(dumped: Path) -> None:
    (history,) = read_histories(dumped)
    assert history.label == ""
    assert [s.number for s in history.steps] == list(range(-1, len(history.steps) - 1))
    assert (history.steps[0].name, history.steps[1].name) == (BUILT, "init")
    fusing = next(s for s in history.steps if s.name == "prepare_primitive_fusing")
    assert fusing.changes == len([n for n in fusing.notes if ": not " not in n])
    assert fusing.seconds > 0


def test_a_new_node_stands_behind_the_one_that_it_was_executed_behind() -> None:
    history = History("", (_step(-1, "a", "b", "c"), _step(0, "a", "x", "c"), _step(1, "y", "a", "x", "z")))
    assert history.names == ("y", "a", "x", "z", "b", "c")


def test_programs_in_folders_below_have_labels(dumped: Path, tmp_path: Path) -> None:
    for name in ("stage_0", "stage_1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "built.json").write_bytes((dumped / "built.json").read_bytes())
    assert [h.label for h in read_histories(tmp_path)] == ["stage_0", "stage_1"]


def test_what_is_no_dump_is_refused(dumped: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="holds no dump of passes"):
        read_histories(tmp_path)
    whole = json.loads((dumped / "built.json").read_text())
    for text in (
        "",
        "{}",
        "[]",
        "null",
        json.dumps(whole | {"pass": "x"}),
        json.dumps({k: whole[k] for k in ("pass", "nodes")}),
    ):
        (tmp_path / "built.json").write_text(text)
        with pytest.raises(ModelError, match=r"built\.json is not a dump of a program"):
            read_histories(tmp_path)


def test_only_what_differs_is_told() -> None:
    assert changed([None, 1, 2, 3], [0, 1, None, 4]) == [(0, 0), (2, None), (3, 4)]
