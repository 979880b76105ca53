from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx.parser
import pytest

import clgraph
from tests.support.models import small_model
from tests.support.pages import data_of

Command = Callable[..., tuple[int, str, str]]


@pytest.mark.opencl
def test_a_page_tells_passes_decisions_memory_times_and_sources(
    clgraph_command: Command, model: Path, device: str, tmp_path: Path
) -> None:
    status, out, err = clgraph_command("view", model, "--device", device, "--output", "page.html")
    assert (status, err) == (0, "")
    assert re.fullmatch(r"page +page\.html, \d+\.\d KiB\n", out)
    (graph,) = data_of((tmp_path / "page.html").read_text())["graphs"]
    compiled = clgraph.compile(model, device=device)
    assert [s["name"] for s in graph["steps"]] == ["built", *(p.name for p in compiled.passes)]
    rows: list[int | None] = [None] * len(graph["names"])
    for step in graph["steps"]:
        for at, state in step["changes"]:
            rows[at] = state
    left = {name: graph["states"][row] for name, row in zip(graph["names"], rows, strict=True) if row is not None}
    report = compiled.explain()
    assert sorted(left) == sorted(n.name for n in report.nodes)
    for node in report.nodes:
        assert left[node.name]["kernel"] == f"{node.implementation} ({node.because})"
        told = graph["reports"][node.name]
        assert graph["refusals"][told["refusals"]] == dict(node.refusals)
        assert all(graph["sources"][s].strip() for s in node.steps)
    assert {c["node"] for c in graph["profile"]["commands"]} == {n.name for n in report.nodes if n.steps}
    assert graph["memory"]["arenas"][0]["nbytes"] == compiled.program.arenas[device].nbytes


def test_two_models_and_dumps_stand_side_by_side(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    clgraph.compile(small_model(), device="null", config={"dump_graphs": tmp_path / "dump"})
    status, _, err = clgraph_command("view", "dump", "--against", model, "--device", "null", "-o", "page.html")
    assert (status, err) == (0, "")
    graphs = data_of((tmp_path / "page.html").read_text())["graphs"]
    assert [g["model"] for g in graphs] == ["dump", model.name]
    assert [bool(g["reports"]) for g in graphs] == [False, True]
    assert [g["profile"] for g in graphs] == [None, None]


def test_what_has_no_passes_is_one_line(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    clgraph_command("compile", model, "--device", "null", "-o", "m.clg")
    for wrong, message in (("m.clg", "was compiled before"), (tmp_path, "holds no dump"), ("gone.onnx", "gone.onnx")):
        status, _, err = clgraph_command("view", wrong, "--device", "null", "-o", "page.html")
        assert (status, err.count("\n"), err.startswith("error: "), message in err) == (1, 1, True, True), err
    status, _, err = clgraph_command("view", model, "--device", "null", "-o", "none/page.html")
    assert (status, err.count("\n"), "cannot be written" in err) == (1, 1, True)


def test_the_programs_are_written_for_other_viewers(clgraph_command: Command, model: Path, tmp_path: Path) -> None:
    status, out, err = clgraph_command("view", model, "--device", "null", "--onnx", "programs")
    assert (status, err) == (0, "")
    files = sorted(p.name for p in (tmp_path / "programs").iterdir())
    assert out == f"programs    {len(files)} in programs\n"
    assert {"built.onnx", "00_init.onnx"} <= set(files)


@pytest.mark.opencl
def test_stages_that_a_run_compiles_are_shown_with_their_memory_and_kernels(
    clgraph_command: Command, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clgraph.model.stages.host_piece.HOST_OPERATIONS", -1)
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[8, 16] x) => (float[16, n] y) {
        r = Relu(x)
        e = Exp(r)
        places = NonZero(e)
        t = Transpose<perm = [1, 0]>(places)
        picked = GatherND(e, t)
        two = Constant<value_ints = [16, -1]>()
        wide = Reshape(picked, two)
        y = Softmax(wide)
    }""")
    onnx.save(model, tmp_path / "staged.onnx")
    status, _, err = clgraph_command("view", "staged.onnx", "--device", device, "--output", "page.html")
    assert (status, err) == (0, "")
    graphs = data_of((tmp_path / "page.html").read_text())["graphs"]
    assert [g["label"].partition("/")[0] for g in graphs] == ["stage_0", "stage_2"]
    for graph in graphs:
        (arena,) = graph["memory"]["arenas"]
        assert arena["placement"] == device
        assert max(b["offset"] + b["nbytes"] for b in arena["buffers"]) <= arena["nbytes"]
        kernels = {s for name in graph["memory"]["nodes"] for s in graph["reports"][name].get("steps", ())}
        assert kernels <= set(graph["sources"])
        assert graph["profile"]["commands"]


def test_a_model_of_which_a_run_is_needed_to_compile_anything_says_so(clgraph_command: Command, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (bool[n] x) => (int64[1, m] y) { y = NonZero(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    status, _, err = clgraph_command("view", "m.onnx", "--device", "null", "--shape", "x=4", "-o", "page.html")
    assert (status, err.count("\n")) == (1, 1)
    assert "no pass has run over m.onnx" in err
