from __future__ import annotations

import base64
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
