from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from clgraph.explorer.profile_picture import MOST_BARS, to_svg
from clgraph.network.profile import NodeTime, Profile

_SVG = "{http://www.w3.org/2000/svg}"


def _time(node: str, start: float, seconds: float, idle: float = 0.0, placement: str = "pocl:0") -> NodeTime:
    return NodeTime(
        node, (node,), "softmax", "softmax.rows", "softmax_rows", placement, start, seconds, 8, 8.0, 4, idle
    )


def _bars(root: ET.Element, node: str) -> list[tuple[float, float, str]]:
    """Return (width, height, fill) of what is drawn of a node."""
    found = []
    for rectangle in root.iter(f"{_SVG}rect"):
        tip = rectangle.find(f"{_SVG}title")
        if tip is not None and (tip.text or "").startswith(f"{node}: "):
            found.append((float(rectangle.get("width")), float(rectangle.get("height")), str(rectangle.get("fill"))))
    return found


def test_lengths_are_times_and_the_grey_part_is_idle() -> None:
    commands = (_time("a", 0.0, 1e-3), _time("b", 1e-3, 3e-3, idle=1e-3))
    root = ET.fromstring(to_svg(Profile(commands, 5e-3), "m"))
    (lane_a, bar_a), of_b = _bars(root, "a"), _bars(root, "b")
    work_lane, idle_lane, work, idle = of_b
    assert work_lane[0] == pytest.approx(3 * lane_a[0], abs=0.02)
    assert idle_lane[1] == pytest.approx((work_lane[1] + idle_lane[1]) / 3, abs=0.02)
    assert work[0] + idle[0] == pytest.approx(3 * bar_a[0], abs=0.02)
    assert idle[0] == pytest.approx((work[0] + idle[0]) / 3, abs=0.02)
    assert work[2] == bar_a[2] != idle[2]
    texts = [t.text for t in root.iter(f"{_SVG}text")]
    assert "3000 us, 75.0 %" in texts
    assert "pocl:0, 4.00 ms" in texts


def test_every_device_has_a_lane_and_the_fastest_nodes_are_counted() -> None:
    commands = [_time(f"<n{i}&", i * 1e-6, 1e-6, placement=("pocl:0", "host")[i % 2]) for i in range(MOST_BARS + 3)]
    root = ET.fromstring(to_svg(Profile(tuple(commands), 1e-3), "a & <b>"))
    texts = [str(t.text) for t in root.iter(f"{_SVG}text")]
    assert texts[0] == "a & <b>"
    assert [t.partition(",")[0] for t in texts[1:3]] == ["pocl:0", "host"]
    assert "3 others" in texts
    height = float(str(root.get("viewBox")).split()[3])
    assert all(float(str(r.get("y", 0))) + 20 < height for r in root.iter(f"{_SVG}rect"))


def test_a_run_of_nothing_is_a_picture_without_bars() -> None:
    root = ET.fromstring(to_svg(Profile((), 0.0), "m"))
    assert [t.text for t in root.iter(f"{_SVG}text")] == ["m", "workers without work", "operators", "nodes"]
