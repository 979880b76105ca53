"""ONNX's backend test suite against :mod:`clgraph.backend`, and the exact list of what fails there, and why.

The suite is ``onnx.backend.test.runner``: cases of single nodes, the raw light models (whose weights are made in the
graph), models of PyTorch and simple ones, with their own tolerances. The list is of one version of onnx. With another
one, tests that are new, gone or mended are no fault of clgraph's: only what is neither listed nor a refusal fails.
"""

from __future__ import annotations

import re
import tomllib
import unittest
import unittest.mock
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from clgraph.backend import ClgraphBackend
from clgraph.errors import UnsupportedError
from tests.support.node_cases import node_cases

LIST = Path(__file__).parents[1] / "models" / "onnx_suite_failures.toml"
STRICT_LIST = LIST.with_name("onnx_suite_strict_failures.toml")
"""What passes only where the host may compute nodes; that of :data:`LIST` fails either way."""

PASSED = ""
"""The outcome of a test that passes; that of another is its exception's class and text."""

KEY = np.array([1, 2], np.uint32)
REFUSED = f"{UnsupportedError.__name__}: "


@dataclass(frozen=True)
class Reason:
    """Why some tests fail.

    Attributes:
        error: What the outcome of each of them has in it.
        tests: Their names, sorted.
    """

    why: str
    error: re.Pattern[str]
    tests: tuple[str, ...]


@dataclass(frozen=True)
class Known:
    """The list: the version of onnx that it was made with, and the reasons."""

    onnx: str
    reasons: tuple[Reason, ...]

    def reason_of(self, test: str) -> Reason | None:
        """Return the reason that *test* is listed under."""
        return next((r for r in self.reasons if test in r.tests), None)


@cache
def known(path: Path = LIST) -> Known:
    """Read the list."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    reasons = [Reason(r["why"], re.compile(r["error"], re.DOTALL), tuple(r["tests"])) for r in read["reason"]]
    return Known(read["onnx"], tuple(reasons))


@cache
def suite(device: str) -> Mapping[str, unittest.TestCase]:
    """Return the tests of the suite on *device*, a name of clgraph's, sorted by their names without the device."""
    from onnx.backend.test import loader
    from onnx.backend.test.runner import Runner

    class OnDevice(ClgraphBackend):
        """Tries every model: what the suite would skip as not compatible says why by its error."""

        @classmethod
        def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
            return True

        @classmethod
        def supports_device(cls, name: str) -> bool:
            return name == "CPU"

        @classmethod
        def prepare(cls, model: onnx.ModelProto, _: str = "CPU", **options: Any) -> Any:
            return super().prepare(model, device, **options)

    with unittest.mock.patch.object(loader, "load_node_model_tests", node_cases):
        classes = Runner(OnDevice, __name__).test_cases.values()
    found = {name.removesuffix("_cpu"): kind(name) for kind in classes for name in dir(kind) if name.endswith("_cpu")}
    return dict(sorted(found.items()))


def outcome(test: unittest.TestCase) -> str:
    """Run *test*; return ``PASSED``, or the exception that it ends with. Random numbers are those of one key."""
    with warnings.catch_warnings(), unittest.mock.patch("clgraph.graph.random_numbers.fresh_key", return_value=KEY):
        warnings.simplefilter("ignore")
        try:
            test.debug()
        except Exception as error:  # whatever it is, it is compared with the list
            return f"{type(error).__name__}: {error}"
    return PASSED


def faults(outcomes: Mapping[str, str], listed: Known, version: str) -> Iterator[str]:
    """Yield a sentence for each outcome that the list does not have, and for each that it has in vain.

    Args:
        outcomes: Of the tests that were run, by name.
        version: Of the onnx that they are from.
    """
    same = version == listed.onnx
    for test, found in outcomes.items():
        reason = listed.reason_of(test)
        if reason is None and found != PASSED and (same or not found.startswith(REFUSED)):
            yield f"{test} is not listed and fails: {found[:400]}"
        elif reason is not None and found == PASSED and same:
            yield f"{test} is listed ({reason.why}) and passes"
        elif reason is not None and found != PASSED and not reason.error.search(found):
            yield f"{test} is listed ({reason.why}) and fails otherwise: {found[:400]}"


def besides(outcomes: Mapping[str, str], listed: Known) -> dict[str, str]:
    """Return the outcomes of the tests that *listed* does not have."""
    return {test: found for test, found in outcomes.items() if listed.reason_of(test) is None}


def gone(tests: Iterable[str], listed: Known, version: str) -> list[str]:
    """Return what is listed and no test of a suite of the same version."""
    known_tests = {test for reason in listed.reasons for test in reason.tests}
    return sorted(known_tests - set(tests)) if version == listed.onnx else []
