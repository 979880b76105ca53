from __future__ import annotations

import logging

import pytest

from clgraph.errors import InternalError, ModelError
from clgraph.serving.logs import fault


@pytest.mark.parametrize(("error", "shown"), [(ModelError("broken"), 0), (InternalError("pass"), 1), (KeyError(1), 1)])
def test_the_traceback_of_what_nobody_meant_to_raise_alone_is_shown(
    caplog: pytest.LogCaptureFixture, error: Exception, shown: int
) -> None:
    caplog.set_level(logging.DEBUG, "clgraph.serving")
    fault("load", error, model="a")
    assert caplog.records[0].getMessage().startswith(f"load failed model=a error={type(error).__name__} text=")
    assert [record.exc_info is not None for record in caplog.records[1:]] == [True] * shown
