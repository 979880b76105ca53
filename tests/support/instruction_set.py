"""Tests in a process of their own, whose kernels are compiled for other CPUs."""

import os
import subprocess
import sys
from collections.abc import Sequence


def check_with(isa: str, tests: Sequence[str]) -> None:
    """Run *tests*, as pytest names them, with kernels for the instruction set *isa*; fail where one does."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-v", "-m", "", *tests],
        env={**os.environ, "CLGRAPH_TEST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"instruction set: {isa}\n" in done.stdout, done.stdout[:1000] + done.stderr
    assert done.returncode == 0, done.stdout[-3000:]
