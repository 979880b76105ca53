from __future__ import annotations

import io
import re

import click
import pytest

from clgraph.cli import output
from clgraph.cli.options import parse_shapes


def test_piped_columns_are_aligned_and_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("name", "ms"), [("a", "1.50"), ("longer", "10.25")])
    assert capsys.readouterr().out == "name       ms\na        1.50\nlonger  10.25\n"


def test_names_that_look_like_markup_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("name",), [("[red]x[/red]",)])
    output.say("[bold]y")
    assert capsys.readouterr().out == "name\n[red]x[/red]\n[bold]y\n"


class _Terminal(io.StringIO):
    """A terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


def _on_a_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: object, **options: object) -> list[str]:
    screen = _Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", screen)
    output.table(*arguments, **options)  # type: ignore[arg-type]
    return [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in screen.getvalue().splitlines()]


def test_a_table_fits_the_terminal_and_breaks_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("encoder/layer/conv", "conv_fsv16", "123.4", "5")]
    whole = _on_a_terminal(monkeypatch, ("node", "kernel", "us"), [r[:3] for r in rows])
    assert whole == ["node                kernel         us", "encoder/layer/conv  conv_fsv16  123.4"]
    less = _on_a_terminal(monkeypatch, ("node", "kernel", "us", "tickets"), rows, spare=("tickets", "kernel"))
    assert less[:2] == ["node                   us  tickets", "encoder/layer/conv  123.4        5"]
    assert " ".join(" ".join(less[2:]).split()) == "(a wider terminal, or a pipe, shows kernel, too)"
    prose = _on_a_terminal(
        monkeypatch, ("pass", "what it does"), [("fuse", "puts one thing behind another where it can")]
    )
    assert prose == ["pass  what it does", "fuse  puts one thing behind another", "      where it can"]
    names = [("a" * 30, "b" * 20, "c d"), ("x", "", "e")]
    cards = _on_a_terminal(monkeypatch, ("node", "kernel", "why"), names)
    assert cards == ["a" * 30, f"  kernel {'b' * 20}, why c d", "x", "  why e"]


def test_a_long_line_goes_on_behind_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Terminal()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout", screen)
    output.say("kernels     one (1), two (2), three (3), four (4)")
    assert screen.getvalue() == "kernels     one (1), two (2), three (3),\n            four (4)\n"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 30, "3.00 GiB")]
)
def test_bytes_are_printed_in_a_unit_that_fits(count: int, text: str) -> None:
    assert output.nbytes(count) == text


def test_shapes_are_read_with_names_that_hold_equal_signs() -> None:
    assert parse_shapes(["a=b=1,2", "scalar="]) == ({"a=b": (1, 2), "scalar": ()},)
    assert parse_shapes(["x=1x3x8"]) == ({"x": (1, 3, 8)},)
    for wrong in ("x", "=1", "x=a", "x=1.5", "x=-1,2"):
        with pytest.raises(click.UsageError, match="is not NAME=SIZE"):
            parse_shapes([wrong])


def test_shapes_that_are_given_several_times_are_cycled_through() -> None:
    assert parse_shapes(["x=1,2", "mask=7", "x=1,5"]) == ({"x": (1, 2), "mask": (7,)}, {"x": (1, 5), "mask": (7,)})
    with pytest.raises(click.UsageError, match="different numbers of shapes: 2, 3"):
        parse_shapes(["x=1", "x=2", "y=1", "y=2", "y=3"])
