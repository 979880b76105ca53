from __future__ import annotations

import threading
import warnings
from contextlib import contextmanager

import pytest

from clgraph.core import warn as module
from clgraph.core.warn import warn
from clgraph.graph.faults import faults

TEXT = """
@contextmanager
def block(*given):
    yield call(*given)

def made(*given):
    with block(*given):
        pass
"""


def test_a_warning_names_the_line_of_the_program_that_has_called_clgraph() -> None:
    with pytest.warns(UserWarning, match=r"^told$") as found:
        _within_clgraph(warn)("told")
    assert found[0].filename == __file__


def test_a_thread_of_clgraphs_own_warns_at_its_line() -> None:
    thread = threading.Thread(target=_within_clgraph(warn), args=("told",))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        thread.start()
        thread.join()
    assert [(str(each.message), each.filename) for each in found] == [("told", "clgraph/made.py")]


def test_a_warning_that_filters_make_an_error_is_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=r"^told$"), faults("a run"):
            warn("told")


def _within_clgraph(call):
    """Return a function of clgraph that calls *call* as the standard library enters a block of clgraph's."""
    names = {"__name__": f"{module.__name__}.made", "contextmanager": contextmanager, "call": call}
    exec(compile(TEXT, "clgraph/made.py", "exec"), names)
    return names["made"]
