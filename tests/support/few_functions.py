"""A plugin of pytest's: libraries hold no tile functions but some, which takes a fraction of the time to compile.

What several libraries would hold is in one of them: the one that programs run in which need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names the tile functions."""
    parser.addoption("--functions", default="", help="tile functions that libraries hold, between commas")


@pytest.fixture(autouse=True, scope="session")
def libraries_hold_few_functions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave all other functions out of what is composed, and what was composed with them where it lies."""
    from clgraph.saved import kept_libraries
    from clgraph.selector import library
    from clgraph.selector.libraries import run_in

    wanted = frozenset(request.config.getoption("functions").split(","))
    whole = library._compose

    def composed(name: str, simd: int, found: tuple[Any, ...], families: tuple[Any, ...]) -> library.Library:
        kept = tuple(d for d in found if d.function in wanted and run_in([d.library]) == [name])
        return whole(name, simd, kept, tuple(f for f in families if any(f[0] in d.micros for d in kept)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "_compose", composed)
        patch.setattr(kept_libraries, "_kept", lambda name, simd, cache_dir: library.compose(name, simd))
        yield
