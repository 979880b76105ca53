"""Libraries are compiled in a process of their own, for the device that this one has described."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clgraph.errors import KernelBuildError
from clgraph.runtime.engine import Engine

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("measured", [True, False])
def test_a_library_is_compiled_with_features_that_only_a_measurement_tells(engine: Engine, measured: bool) -> None:
    # The process that compiles has measured nothing.
    features = engine.info.features - {"fetch_ahead"} | ({"fetch_ahead"} if measured else set())
    device = replace(engine.device, info=replace(engine.info, features=frozenset(features)))
    text = "#ifdef CLGRAPH_FETCH_AHEAD\n#error it is known\n#else\n#error it is unknown\n#endif\n"
    with pytest.raises(KernelBuildError, match="it is known" if measured else "it is unknown"):
        Engine(device).build(text, "library x", library=True)
