"""ONNX's test cases of single nodes: whichever process of the tests comes first makes them, and the others read them.

Making them takes a second, because onnx computes what is expected in Python; four more if it pooled volumes itself, and
two if it read the source of each.
"""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from clgraph.core.files import replacing
from clgraph.core.turns import in_turn

FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "d"
"""Where pytest keeps what runs of the tests leave for the next."""

MOST_SECONDS = 120.0
"""How long a process waits for another that makes them."""


@cache
def node_cases() -> Sequence[Any]:
    """Return the cases of the installed onnx, each an ``onnx.backend.test.case.test_case.TestCase``."""
    path = FOLDER / f"onnx-{onnx.__version__}-numpy-{np.__version__}.pickle"
    with contextlib.suppress(OSError):  # a folder that cannot be written costs time only
        FOLDER.mkdir(parents=True, exist_ok=True)
    with in_turn(path.with_suffix(".turn"), MOST_SECONDS):
        with contextlib.suppress(OSError, EOFError, pickle.UnpicklingError):
            return tuple(pickle.loads(path.read_bytes()))
        return _made(path)


def _made(path: Path) -> Sequence[Any]:
    """Make the cases, and keep them in *path*."""
    import pytest
    from onnx.backend.test.case import base
    from onnx.backend.test.case.node import collect_testcases
    from onnx.reference.ops import op_pool_common

    from tests.support.pooled import pool

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")  # cases that overflow on purpose
        patch.setattr(op_pool_common, "pool", pool)
        patch.setattr(base, "process_snippet", lambda *_: ("", ""))  # the cases' source, for onnx's own pages
        made = tuple(collect_testcases(None))
    with contextlib.suppress(OSError), replacing(path) as file:
        pickle.dump(made, file, pickle.HIGHEST_PROTOCOL)
    return made
