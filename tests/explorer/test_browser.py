"""The explorer in a real browser, without a network: what is clicked, typed and linked to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import clgraph
from clgraph.explorer.document import document
from clgraph.explorer.making import profiled, view_of_run
from clgraph.explorer.page import page
from tests.support.browsers import Page, chromium, firefox
from tests.support.models import light_model, small_model

NASTY = "<img src=x onerror=\"document.title='owned'\">"
APP_UNIT = 1 / 60
"""What Firefox lays out in, in pixels; that two edges are one is said in sums of them, in floats."""


@pytest.fixture(
    scope="module",
    params=[chromium, pytest.param(firefox, marks=pytest.mark.slow)],
    ids=lambda started: started.__name__,
)
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A browser without a window."""
    yield from request.param()


@pytest.fixture(autouse=True)
def left_no_page(browser: Any) -> Iterator[None]:
    """Close the pages of a test: those that are open go on drawing beside the next."""
    yield
    for context in getattr(browser, "contexts", ()):  # Firefox has none
        context.close()


def _written(model: onnx.ModelProto, folder: Path, **options: Any) -> Path:
    path = folder / "page.html"
    clgraph.view(model, name="model", **options).save(path)
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = small_model()
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.name = f"{NASTY}{node.name}"
    return _written(model, tmp_path_factory.mktemp("page"), device="null")


def test_passes_nodes_search_differences_and_links(browser: Any, small: Path) -> None:
    shown = Page(browser, small)
    shown.settled()
    names = shown.ask("pane.history.steps.map((s) => s.name)")
    fusing = names.index("prepare_primitive_fusing")
    places = []
    for step in (fusing - 1, fusing):
        shown.tab.evaluate(f"document.getElementById('slider').value = {step}")
        shown.tab.dispatch_event("#slider", "input")
        places.append(shown.ask("pane.layout.boxes.map((b) => [b.label, b.x, b.y])"))
    assert "prepare_primitive_fusing" in shown.text("#step")
    assert places[0] == places[1]
    gone = shown.ask(f"pane.history.changes({fusing}, {fusing - 1}).removed.length")
    assert gone > 0
    assert f"Gone ({gone})" in shown.text("#panel")
    shown.tab.fill("#search", "onerror")
    assert NASTY in shown.text("#found")
    shown.tab.keyboard.press("Enter")
    assert NASTY in shown.text("#panel h2")
    assert "What the passes did to it" in shown.text("#panel")
    assert shown.tab.title() == "model - clgraph"
    address = shown.tab.url.partition("#")[2]
    for key in ("pass=prepare_primitive_fusing", "node=", "tab=node"):
        assert key in address
    again = Page(browser, small, f"#{address}")
    again.settled()
    assert again.text("#panel h2") == shown.text("#panel h2")
    assert again.text("#step") == shown.text("#step")
    again.tab.click("#sides")
    again.settled()
    assert again.ask("explorer.page.panes.map((p) => p.step)") == [fusing, fusing - 1]
    assert again.ask("explorer.page.panes[0].marks.size") > 0
    assert again.text("#captions").split() == [names[fusing], names[fusing - 1]]
    again.tab.focus("#panes canvas")
    again.tab.keyboard.press("]")
    assert names[fusing + 1] in again.text("#step")
    for tab, words in (("memory", "without sharing"), ("time", "--no-run"), ("roofline", "No arithmetic")):
        again.tab.click(f"[data-tab={tab}]")
        assert words in again.text("#panel")
    again.settled()


def test_the_first_view_is_of_its_pass_alone_and_the_slider_gives_every_node_its_place(
    browser: Any, tmp_path: Path
) -> None:
    shown = Page(browser, _written(_deep(120), tmp_path, device="null"))
    shown.settled()
    pressed = "document.getElementById('tidy').getAttribute('aria-pressed')"
    there = "[pane.layout.boxes.length, pane.history.items.filter((_, at) => pane.history.state(pane.step, at)).length]"
    boxes, present = shown.ask(there)
    assert boxes == present < shown.ask("pane.history.items.length")
    rows = sorted({round(y, 3) for y in shown.ask("pane.layout.boxes.map((b) => b.y)")})
    assert {round(b - a, 3) for a, b in itertools.pairwise(rows)} == {44 + 30}, "a box and a gap: no empty row"
    assert shown.ask(pressed) == "true"
    strip, width, height = shown.ask("[pane.overview.place().left, pane.canvas.clientWidth, pane.canvas.clientHeight]")
    assert strip > width * 0.8, "what is not seen is in the strip"
    left, top = shown.ask("(({left, top}) => [left, top])(pane.canvas.getBoundingClientRect())")
    shown.tab.mouse.click(left + strip + 2, top + height * 2 / 3)
    assert shown.ask("[pane.selected, pane.view.y < -100]") == [None, True]
    at = "((box, {{ x, y, scale }}) => [box.members, box.x * scale + x, box.y * scale + y])({}, pane.view)"
    was = shown.ask(at.format("pane.middle()"))
    shown.tab.focus("#panes canvas")
    shown.tab.keyboard.press("[")
    assert shown.ask(pressed) == "false"
    assert shown.ask(there)[0] == shown.ask("pane.history.items.length")
    now = shown.ask(at.format(f"pane.layout.boxes[pane.layout.boxOf[{was[0][0]}]]"))
    assert now == [was[0], pytest.approx(was[1]), pytest.approx(was[2])]
    shown.tab.keyboard.press("t")
    assert shown.ask(pressed) == "true"
    gone = shown.ask("pane.history.items.find((_, at) => !pane.history.state(pane.step, at)).label")
    shown.tab.fill("#search", gone)
    shown.tab.keyboard.press("Enter")
    assert shown.text("#panel h2") == gone
    assert shown.ask("[pane.tidy, pane.present().length < pane.layout.boxes.length]") == [False, True]
    shown.settled()


def test_arrow_keys_choose_the_tabs(browser: Any, small: Path) -> None:
    shown = Page(browser, small)
    shown.settled()
    shown.tab.focus("#tabs button[aria-selected=true]")
    chosen = (
        "[document.activeElement.id, ...[...document.querySelectorAll('#tabs [tabindex=\"0\"]')].map((t) => t.id),"
        " document.getElementById('panel').getAttribute('aria-labelledby')]"
    )
    for key, tab in (
        ("ArrowLeft", "roofline"),
        ("ArrowRight", "pass"),
        ("ArrowRight", "node"),
        ("End", "roofline"),
        ("Home", "pass"),
    ):
        shown.tab.keyboard.press(key)
        assert shown.ask(chosen) == [f"tab-{tab}"] * 3
    shown.settled()


def test_a_colour_that_nothing_has_yet_says_so(browser: Any, small: Path) -> None:
    shown = Page(browser, small, "#pass=init")
    shown.settled()
    assert shown.text("#captions") == ""
    for mode, words in (
        ("kernel", "no kernel"),
        ("time", "no measured time"),
        ("roofline", "no share of the roofline"),
    ):
        shown.tab.evaluate(f"document.getElementById('mode').value = {mode!r}")
        shown.tab.dispatch_event("#mode", "change")
        assert shown.text("#legend") == f"{words} is known here"
    shown.settled()


def test_a_click_chooses_what_is_drawn_there(browser: Any, small: Path) -> None:
    shown = Page(browser, small, color_scheme="dark")
    shown.settled()
    place = "[x * pane.view.scale + pane.view.x, y * pane.view.scale + pane.view.y]"
    at, x, y = shown.ask(f"(({{members, x, y}}) => [members[0], ...{place}])(pane.layout.boxes[1])")
    left, top = shown.ask("(({left, top}) => [left, top])(pane.canvas.getBoundingClientRect())")
    shown.tab.mouse.click(left + x, top + y)
    assert shown.ask(f"pane.selected === {at}")
    assert shown.ask("document.documentElement.dataset.theme") == "dark"
    shown.tab.click("#theme")
    shown.tab.set_viewport_size({"width": 390, "height": 844})
    shown.settled()
    assert shown.ask("document.documentElement.scrollWidth") <= 390


def test_the_legend_and_the_toolbar_cover_no_node(browser: Any, small: Path) -> None:
    shown = Page(browser, small)
    for width, height in ((1400, 900), (1100, 640), (390, 844)):
        shown.tab.set_viewport_size({"width": width, "height": height})
        for mode in shown.ask("[...document.getElementById('mode').options].map((o) => o.value)"):
            shown.tab.evaluate(f"document.getElementById('mode').value = {mode!r}")
            shown.tab.dispatch_event("#mode", "change")
            shown.settled()
            of = "document.querySelector('{}').getBoundingClientRect().{}"
            graph = shown.ask(f"[{of.format('canvas', 'top')}, {of.format('canvas', 'bottom')}]")
            assert graph[1] - graph[0] > height / 4
            assert shown.ask(of.format("header", "bottom")) <= graph[0]
            assert shown.ask(of.format("#legend", "top")) >= graph[1] - APP_UNIT
        assert shown.ask("document.documentElement.scrollWidth") <= width


@pytest.mark.opencl
def test_what_ran_on_which_device_is_told_apart(browser: Any, tmp_path: Path, device: str) -> None:
    feeds = {"x": np.zeros((1, 3, 10, 10), np.float32)}
    path = _written(small_model(), tmp_path, device=device, feeds=feeds, config={"placement": {"pool": "host"}})
    shown = Page(browser, path, "#tab=time")
    shown.settled()
    commands = "pane.history.graph.profile.commands"
    assert set(shown.ask(f"{commands}.map((c) => c.device)")) == {device, "host"}
    # Peak rates are known of the model's own device: there is no share of them elsewhere.
    assert set(shown.ask(f"{commands}.filter((c) => c.device === 'host').map((c) => c.roofline)")) == {0}
    shown.tab.click("[data-tab=roofline]")
    assert device in shown.text("#panel dl")
    shown.tab.evaluate("document.getElementById('mode').value = 'roofline'")
    shown.tab.dispatch_event("#mode", "change")
    at = shown.ask("pane.history.position.get('pool')")
    assert shown.ask(f"pane.colours.fill(pane.step, [{at}])") is None
    shown.settled()


@pytest.mark.opencl
def test_a_profile_is_a_page_of_one_program_that_opens_at_its_timeline(
    browser: Any, tmp_path: Path, device: str
) -> None:
    model = clgraph.compile(small_model(), device)
    feeds = {"x": np.zeros(model.inputs[0].shape, np.float32)}
    path = tmp_path / "profile.html"
    path.write_text(page(document([view_of_run("m", model, profiled(model, feeds))], opens="time")))
    shown = Page(browser, path)
    shown.settled()
    assert "whole run" in shown.text("#panel")
    assert shown.tab.eval_on_selector_all("#tabs button", "all => all.map((b) => b.dataset.tab)") == [
        "node",
        "memory",
        "time",
        "roofline",
    ]
    assert not shown.tab.is_visible("#slider")
    assert shown.ask("pane.mode") == "time"
    shown.tab.click("#panel tbody tr:first-child .link")
    shown.tab.click("[data-tab=node]")
    assert "of what the device's peak rates allow" in shown.text("#panel")
    shown.tab.click("[data-tab=memory]")
    assert "without sharing" in shown.text("#panel")
    shown.settled()


def _deep(count: int) -> onnx.ModelProto:
    """Return a model of *count* nodes in scopes of eight."""
    nodes, last = [], "x"
    for i in range(count):
        kind = ("Conv", "Relu", "Conv", "Sigmoid", "Tanh", "Exp", "Neg", "Abs")[i % 8]
        inputs = [last, "w"] if kind == "Conv" else [last]
        nodes.append(helper.make_node(kind, inputs, [f"t{i}"], name=f"/net/stage{i // 200}/block{i // 8}/op{i % 8}"))
        last = f"t{i}"
    x, y = (helper.make_tensor_value_info(name, 1, [1, 4, 4, 4]) for name in ("x", last))
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32).reshape(4, 4, 1, 1) / 2, "w")
    return helper.make_model(
        helper.make_graph(nodes, "deep", [x], [y], [weights]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


@pytest.mark.slow
def test_scopes_of_two_thousand_nodes_open_and_are_found(browser: Any, tmp_path: Path) -> None:
    shown = Page(browser, _written(_deep(2000), tmp_path, device="null"))
    shown.settled()
    assert shown.ask("pane.layout.boxes.length") < 200
    shown.tab.fill("#search", "/net/stage3/block80/op4")
    shown.tab.keyboard.press("Enter")
    shown.settled()
    assert "block80/op4" in shown.text("#panel h2")
    assert shown.ask("pane.layout.boxes.length") > 7


@pytest.mark.slow
@pytest.mark.opencl
def test_resnet_50_and_what_it_took_are_shown(browser: Any, tmp_path: Path, device: str) -> None:
    model = light_model("resnet50")
    path = tmp_path / "page.html"
    (signature,) = (i for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer})
    feeds = {signature.name: np.zeros([d.dim_value for d in signature.type.tensor_type.shape.dim], np.float32)}
    clgraph.view(model, device, feeds=feeds, name="ResNet-50").save(path)
    assert path.stat().st_size < 3 << 20
    shown = Page(browser, path, "#tab=time")
    shown.settled()
    assert "whole run" in shown.text("#panel")
    shown.tab.click("#panel tbody tr:first-child .link")
    shown.tab.click("[data-tab=node]")
    assert "of what the device's peak rates allow" in shown.text("#panel")
    shown.settled()
