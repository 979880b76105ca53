from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _commands() -> list[str]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = readme.partition("## Two commands")[2].partition("\n## ")[0]
    return [block.strip() for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL)]


def test_the_readme_has_two_commands_of_one_line_each() -> None:
    install, test = _commands()
    assert "\n" not in install + test
    assert install.startswith("python3 -m venv")
    assert install.endswith('clgraph demo ocr --text "OpenCL 2026"')
    assert test.endswith("python -m pytest")


def test_ci_runs_exactly_the_readmes_test_command() -> None:
    assert _commands()[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
