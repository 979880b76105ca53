"""What ONNX Runtime answers, and how far from it an answer is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

Array = NDArray[Any]

WHOLE_MODEL = 1e-3
"""Worst error of a whole model, relative to the largest value of the output.

Not a rounding bound: dozens of layers whose sums of thousands of terms are taken in another order differ by 1e-6 to
1e-4, and a wrong tap, channel or pad anywhere by far more.
"""


def session(model: onnx.ModelProto | Path, threads: int = 0) -> Any:
    """Return ONNX Runtime's session on *threads* threads, on all cores when 0."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def expected(model: onnx.ModelProto | Path, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return ONNX Runtime's outputs by name, computed on one thread: several wait for each other by spinning."""
    made = session(model, threads=1)
    return dict(zip([o.name for o in made.get_outputs()], made.run(None, dict(feeds)), strict=True))


def worst_error(results: Mapping[str, Array], wanted: Mapping[str, Array]) -> float:
    """Return the largest difference of any output, relative to the output's largest value."""
    assert results.keys() == wanted.keys()
    errors = []
    for name, there in wanted.items():
        here = results[name]
        assert here.shape == there.shape, name
        assert here.dtype == there.dtype, name
        assert np.isfinite(here).all(), name
        errors.append(float(np.abs(here - there).max() / np.abs(there).max()))
    return max(errors)
