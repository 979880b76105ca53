"""Libraries are compiled in a process of their own, for the device that this one has described."""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace

import pytest

from clgraph.errors import KernelBuildError
from clgraph.runtime.engine import Engine
from clgraph.runtime.programs import Programs

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("measured", [True, False])
def test_a_library_is_compiled_with_features_that_only_a_measurement_tells(engine: Engine, measured: bool) -> None:
    # The process that compiles has measured nothing.
    features = engine.info.features - {"fetch_ahead"} | ({"fetch_ahead"} if measured else set())
    device = replace(engine.device, info=replace(engine.info, features=frozenset(features)))
    text = "#ifdef CLGRAPH_FETCH_AHEAD\n#error it is known\n#else\n#error it is unknown\n#endif\n"
    with pytest.raises(KernelBuildError, match="it is known" if measured else "it is unknown"):
        Engine(device).build(text, "library x", library=True)


def test_libraries_that_are_missing_are_compiled_side_by_side(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each waits for the other.
    both = threading.Barrier(2, timeout=60)

    def library(self: Programs, text: str, key: str, what: str, cached: bytes | None) -> str:
        both.wait()
        return f"the program of {what}"

    monkeypatch.setattr(Programs, "_library", library)
    monkeypatch.setattr("clgraph.runtime.programs.usable_cores", lambda: 2)
    opened = Engine(engine.device)
    texts = {f"// {uuid.uuid4()}": f"library {name}" for name in "ab"}
    one, _ = texts
    assert opened.programs.build_side_by_side({one: texts[one]}) == 0, "one alone is left to who needs it"
    assert opened.programs.build_side_by_side(texts) == 2
    assert opened.programs._built == {(text, True): f"the program of {what}" for text, what in texts.items()}
    assert opened.programs.build_side_by_side(texts) == 0
