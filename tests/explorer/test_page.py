from __future__ import annotations

import base64
import colorsys
import hashlib
import re
from pathlib import Path

from clgraph.explorer import page as module
from clgraph.explorer.page import SCRIPTS, page
from tests.support.pages import Scripts, data_of

NASTY = "</script><script>document.title='owned'</script><!--<script>"


def test_names_of_a_model_are_data_and_never_script() -> None:
    text = page({"title": NASTY, "graphs": [{"names": [NASTY]}]})
    scripts = Scripts(text).found
    assert [a.get("id") for a, _ in scripts] == ["data", None, None]
    assert data_of(text)["graphs"] == [{"names": [NASTY]}]
    policy = re.search(r"script-src ([^;]*);", text)
    assert policy is not None
    allowed = [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for _, s in scripts[1:]]
    assert policy.group(1).split() == allowed


def test_the_page_loads_nothing_and_sets_no_markup() -> None:
    text = page({"title": "m", "graphs": []})
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//|@import|url\(|fetch\(|XMLHttpRequest""", text)
    folder = Path(module.__file__).parent / "page"
    assert {p.name for p in folder.glob("*.js")} == set(SCRIPTS)
    own = "\n".join(p.read_text() for p in folder.glob("*.js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", own)


def _luminance(colour: tuple[float, float, float]) -> float:
    """Return the relative luminance of WCAG 2.1 of red, green and blue from 0 to 1."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    darker, lighter = sorted((_luminance(a), _luminance(b)))
    return (lighter + 0.05) / (darker + 0.05)


def _hex(text: str) -> tuple[float, float, float]:
    digits = text if len(text) == 6 else "".join(c * 2 for c in text)
    red, green, blue = (int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return red, green, blue


def test_texts_and_lines_stand_out_as_wcag_asks_of_level_aa() -> None:
    """4.5 to 1 for texts on whatever is behind them, fills of nodes in any hue too; 3 to 1 for lines."""
    folder = Path(module.__file__).parent / "page"
    themes = re.findall(r":root[^{]*\{(.*?)\}", (folder / "explorer.css").read_text(), re.DOTALL)
    fills = re.findall(r'"(\d+)% (\d+)%" : "(\d+)% (\d+)%"', (folder / "colours.js").read_text())
    assert (len(themes), len(fills)) == (2, 2)
    for theme, at in zip(themes, (2, 0), strict=True):  # light, then dark
        of = {name: _hex(text) for name, text in re.findall(r"--(\w+): #(\w+)", theme)}
        behind = [of["surface"], of["node"], of["canvas"]]
        for name in ("text", "quiet", "accent", "removed"):
            assert min(_contrast(of[name], b) for b in behind) >= 4.5, name
        for name in ("line", "added", "altered", "removed"):
            assert min(_contrast(of[name], b) for b in behind) >= 3, name
        for fill in fills:
            saturation, lightness = int(fill[at]) / 100, int(fill[at + 1]) / 100
            hues = [colorsys.hls_to_rgb(hue / 360, lightness, saturation) for hue in range(360)]
            assert min(_contrast(of[name], hue) for name in ("text", "quiet") for hue in hues) >= 4.5
