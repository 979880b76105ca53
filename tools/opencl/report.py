"""The table of what was tried: Markdown, and its place in a page."""

from __future__ import annotations

from collections.abc import Sequence

from tools.opencl.trials import Row

BEGIN, END = "<!-- implementations -->\n", "<!-- end of implementations -->"
HEAD = ("implementation", "version", "canary", "demo", "tests", "`auto` with it installed")


def table(rows: Sequence[Row], where: str) -> str:
    """Return the table and the line that says on what it was made."""
    cells = [HEAD, ("---",) * len(HEAD)]
    cells += [(r.title, r.version, r.canary, r.demo, r.tests, r.auto) for r in rows]
    lines = [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in cells]
    return "\n".join([f"By `tools/try_devices`, {where}:", "", *lines]) + "\n"


def replaced(page: str, text: str) -> str:
    """Return *page* with *text* between the marks.

    Raises:
        ValueError: The page does not have them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page does not have the marks {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{text}{end}{after}"
