"""All models under every option that may not change results. Minutes a model; `tools/model_matrix` shows the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.matrix import load, model_names, try_variant, variants
from tests.support.oracle import expected

pytestmark = [pytest.mark.opencl, pytest.mark.slow]

VARIANTS = dict(variants())


@functools.lru_cache(maxsize=1)
def case(name: str) -> tuple[Any, ...]:
    """Return a model, its inputs and what ONNX Runtime makes of them; the latest is kept."""
    source, feeds = load(name)
    return source, feeds, expected(source, feeds)


@pytest.mark.parametrize("label", VARIANTS)
@pytest.mark.parametrize("name", model_names())
def test_no_option_changes_the_results_of_a_model(
    name: str, label: str, device: str, fetched: Callable[[str], Path]
) -> None:
    if name.startswith("ocr"):
        fetched(name)
    _, wrong = try_variant(*case(name), device, VARIANTS[label])
    assert wrong is None
