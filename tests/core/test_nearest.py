from __future__ import annotations

from clgraph.core.nearest import meant


def test_names_that_are_alike_or_hold_the_name_are_offered() -> None:
    known = ["compile", "compare", "demo", "prepare_buffer_fusing", "devices", "view"]
    assert meant("comple", known) == "; did you mean 'compile', 'compare'?"
    assert meant("devise", known) == "; did you mean 'devices'?"
    assert meant("buffer", known) == "; did you mean 'prepare_buffer_fusing'?"
    assert meant("xyz", known) == ""
