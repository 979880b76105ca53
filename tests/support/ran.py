"""Which implementations the tests have run on a device; the end of a whole run fails when one was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.ptx.compiler import why_no_machine

RAN: set[str] = set()
"""Names of implementations that some network of this process has run, or a test below the networks."""

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True, scope="session")
def note_what_networks_run() -> Iterator[None]:
    """Let every run of a network enter what its program chose."""
    from clgraph.network.network import Network
    from clgraph.selector.choose import Choice

    def noting(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_and_note(self: Any, *args: Any) -> Any:
            result = run(self, *args)
            RAN.update(node.choice.implementation.name for node in self.program if isinstance(node.choice, Choice))
            return result

        return run_and_note

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Network, "run", noting(Network.run))
        patch.setattr(Network, "run_once", noting(Network.run_once))
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of xdist has run."""
    RAN.update(getattr(node, "workeroutput", {}).get("ran", ()))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Name the registered implementations that no test ran, and fail, when all tests were run."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["ran"] = sorted(RAN)
        return
    whole = TESTS in {Path(argument).resolve() for argument in config.args}
    if (
        exitstatus != 0
        or not whole
        or config.option.keyword
        or config.option.markexpr not in ("", "not slow")
        or not RAN
    ):
        return
    from clgraph.runtime.instruction_sets import instruction_sets, of_host
    from clgraph.selector.implementation import IMPLEMENTATIONS

    known = {name for i in instruction_sets() for name in (*i.features, *(name for name, _ in i.optional))}
    unknown = known - of_host()[0].features
    emulated = {"nvidia_ptx", "intel_dpas", "amd_matrix"} if why_no_machine() else set()
    absent = {"subgroups"} | emulated | unknown
    asked = [i for i in IMPLEMENTATIONS.values() if not absent & i.serves.features]
    missing = [i.name for i in asked if i.name not in RAN]
    if missing:
        print(f"\nno test has run {', '.join(missing)} on a device: add a case to tests/ops or tests/implementations")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
