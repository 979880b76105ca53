"""Small models of many makers: what is written is compared, and what is another result is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from tools.small import comparing, graphs
from tools.small.comparing import compare, differs
from tools.small.made import write

F = np.float32


@pytest.mark.opencl
def test_what_is_made_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "WARM", 2)
    names = {"sequence_loop", "branch_found", "slice_and_pad"}
    assert dict(write(graphs.makers(), tmp_path, names)) == dict.fromkeys(names, "")
    for name in sorted(names):
        found = compare(tmp_path / f"{name}.onnx", 0.01)
        assert not found.wrong
        assert found.seconds > 0
        assert found.theirs > 0


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        (F([1, 2]), F([1, 2]), ""),
        (F([1, np.nan]), F([1, np.nan]), ""),
        (F([1, 2]), F([1, 3]), "[2.], not [3.]"),
        (F([1, 2]), np.array([1.0, 2.0]), "float32[2], not float64[2]"),
        (F([[1, 2]]), F([1, 2]), "float32[1, 2], not float32[2]"),
        (np.array(["a"], object), np.array(["b"], object), "['a'], not ['b']"),
        ([{"a": 1.0}], [{"a": 1.0}], ""),
        ([{"a": 1.0}], [{"b": 1.0}], "keys ['a'], not ['b']"),
        ([{"a": 1.0}], [{"a": 2.0}], "1.0, not 2.0"),
        ([F(1)], [], "1 values, not 0"),
        (None, None, ""),
        (None, 1, "None, not 1"),
    ],
)
def test_other_results_are_told(ours: Any, theirs: Any, told: str) -> None:
    assert differs(ours, theirs) == told
