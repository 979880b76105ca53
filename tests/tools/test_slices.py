"""Parts of what a tool does for hours: slices, and going on where an interrupted run was."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tests.support.slices import add_parts, chosen, told

NAMES = ["softmax.ref", "softmax", "softmax-large", "pooling.ref", "resize.ref"]


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parts(parser, "things")
    return parser.parse_args(arguments)


def test_slices_are_all_of_it_and_do_not_overlap() -> None:
    assert chosen(options(), NAMES) == NAMES
    parts = [chosen(options("--slice", f"{part}/3"), NAMES) for part in (1, 2, 3)]
    assert parts[0] == ["softmax.ref", "pooling.ref"]
    assert sorted(name for part in parts for name in part) == sorted(NAMES)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_slice_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(f"--slice={text}")
    assert "is not a slice such as 2/5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("| name | result |\n|---|---|\n| `softmax.ref` | ok |\n| `softmax` | ok |\n", NAMES[1:]),
        ("| softmax.ref | ok |\n| softmax | ok |\n| softmax-large | basic |\n| softmax-large | all |\n", NAMES[2:]),
        ("softmax.ref: the same; 1 s\n  resize.ref: a line\nsoftmax: the same\nsoftmax-large: the", NAMES[2:]),
        ("", NAMES),
    ],
    ids=["code", "table", "text", "nothing"],
)
def test_a_run_goes_on_with_the_last_one_of_the_output(text: str, left: list[str], tmp_path: Path) -> None:
    (tmp_path / "output").write_text(text, encoding="utf-8")
    assert chosen(options("--resume", str(tmp_path / "output")), NAMES) == left


def test_how_far_it_is_is_told_before_the_next_one(capsys: pytest.CaptureFixture[str]) -> None:
    for item in told("things", NAMES[:3]):
        print(item)
    shown = capsys.readouterr()
    assert shown.out.split() == NAMES[:3]
    assert shown.err.splitlines() == ["1 of 3 things, 0 s", "2 of 3 things, 0 s"]
