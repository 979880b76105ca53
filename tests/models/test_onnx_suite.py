"""ONNX's backend test suite, all of it: what fails is listed in ``onnx_suite_failures.toml``, with the reason.

``tools/onnx_suite`` prints what passes and what does not, and writes the list anew.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import onnx
import pytest

from tests.support.models import light_names
from tests.support.onnx_suite import (
    PASSED,
    STRICT_LIST,
    Known,
    Reason,
    besides,
    faults,
    gone,
    known,
    outcome,
    suite,
)

PARTS = 8
"""Tests of pytest that the suite is dealt out to, so that its processes share them."""

LIGHT = [f"test_{name}" for name in light_names()]
"""Networks whose weights, up to 140 millions, are computed from one number: by kernels that LLVM optimises."""


@pytest.mark.opencl
@pytest.mark.parametrize("part", range(PARTS))
def test_what_the_list_names_fails_and_nothing_else_does(
    part: int, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))  # where the suite writes the inputs of the light models
    tests = [(name, test) for name, test in suite(device).items() if name not in LIGHT][part::PARTS]
    wrong = list(faults({name: outcome(test) for name, test in tests}, known(), onnx.__version__))
    assert not wrong, "\n".join(wrong)


@pytest.mark.opencl
@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_fail_where_the_list_names_them(
    name: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))
    wrong = list(faults({name: outcome(suite(device)[name])}, known(), onnx.__version__))
    assert not wrong, "\n".join(wrong)


@pytest.mark.opencl
def test_what_the_strict_list_names_still_wants_the_host(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    listed = known(STRICT_LIST)
    found = {name: outcome(test) for name, test in suite(device).items() if listed.reason_of(name) is not None}
    assert found
    wrong = list(faults(found, listed, onnx.__version__))
    assert not wrong, "\n".join(wrong)


@pytest.mark.opencl
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_what_the_strict_list_names_is_all_that_the_host_computes(
    part: int, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNX_MODELS", str(tmp_path))
    monkeypatch.setenv("CLGRAPH_STRICT", "1")
    tests = list(besides(suite(device), known()).items())[part::PARTS]
    wrong = list(faults({name: outcome(test) for name, test in tests}, known(STRICT_LIST), onnx.__version__))
    assert not wrong, "\n".join(wrong)


def test_the_lists_name_tests_of_the_suite_each_once() -> None:
    names = suite("host")
    reasons = (*known().reasons, *known(STRICT_LIST).reasons)
    assert gone(names, known(), onnx.__version__) == gone(names, known(STRICT_LIST), onnx.__version__) == []
    assert [t for t, count in Counter(t for r in reasons for t in r.tests).items() if count > 1] == []
    assert all(r.why and list(r.tests) == sorted(r.tests) for r in reasons)
    assert set(names) >= set(LIGHT)


LISTED = Known("1", (Reason("strings", re.compile("has type STRING"), ("test_a", "test_b")),))
STRINGS, WRONG = "UnsupportedError: x has type STRING", "AssertionError: 1 is not 2"


@pytest.mark.parametrize(
    ("outcomes", "same", "other"),
    [
        ({"test_a": STRINGS, "test_c": PASSED}, None, None),
        ({"test_a": PASSED}, "test_a is listed (strings) and passes", None),
        ({"test_c": STRINGS}, "test_c is not listed and fails: UnsupportedError", None),
        ({"test_c": WRONG}, "test_c is not listed and fails: AssertionError", "test_c is not listed and fails"),
        ({"test_a": WRONG}, "test_a is listed (strings) and fails otherwise", "test_a is listed (strings) and fails"),
    ],
)
def test_a_list_that_is_stale_either_way_is_noticed(
    outcomes: dict[str, str], same: str | None, other: str | None
) -> None:
    for version, said in (("1", same), ("2", other)):
        found = list(faults(outcomes, LISTED, version))
        assert (found == []) if said is None else (len(found) == 1 and found[0].startswith(said))
    assert gone(["test_a"], LISTED, "1") == ["test_b"]
    assert gone(["test_a"], LISTED, "2") == []
