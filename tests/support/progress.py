"""What processes of tests say of compilers that take long, as they may beside the other workers' tests."""

from __future__ import annotations


def without_progress(stderr: str) -> str:
    """Return *stderr* without the lines of ``clgraph.core.progress.lasting``."""
    return "".join(line for line in stderr.splitlines(keepends=True) if not line.endswith(" s so far\n"))
