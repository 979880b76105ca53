"""``clgraph check-op``."""

from __future__ import annotations

import click

from clgraph.cli.output import json_option, say, say_json, table
from clgraph.cli.sections import SectionedCommand
from clgraph.debugging.check_operator import TOLERANCE, check_custom_op, operator_called
from clgraph.engines.opening import load_extensions, options_of
from clgraph.errors import OptionError


@click.command(cls=SectionedCommand, name="check-op")
@click.argument("name")
@click.option(
    "--module", "modules", multiple=True, metavar="FILE.py", help="Python file with the operator to import first."
)
@click.option(
    "--shape", "shapes", multiple=True, metavar="2x3[;4x5]", help="Shape of each input.  [default: the examples]"
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value of an attribute.  [default: its default]",
)
@click.option(
    "--tolerance", default=TOLERANCE, show_default=True, help="Largest error allowed, relative to the largest result."
)
@click.option("--device", default="auto", show_default=True, help="Device: see `clgraph devices`.")
@json_option
def command(
    name: str,
    modules: tuple[str, ...],
    shapes: tuple[str, ...],
    attributes: tuple[str, ...],
    tolerance: float,
    device: str,
    as_json: bool,
) -> None:
    """Run the custom operator NAME on a device and compare it with its reference.

    Each example is run on normally distributed numbers, numbers of very different magnitudes, equal numbers and zeros.
    The exit status is 1 if a result differs.

    \b
    Examples:
      clgraph check-op acme.LeakyCube --module my_ops.py
      clgraph check-op LeakyCube --module my_ops.py --attribute slope=0.1
    """
    load_extensions(options_of(device, config={"modules": modules or None}))
    operator = operator_called(name)
    given = {}
    for text in attributes:
        key, equals, value = text.partition("=")
        if not equals or key not in operator.attributes:
            known = ", ".join(operator.attributes) or "none"
            raise OptionError(f"--attribute {text!r} is not NAME=VALUE of an attribute; there are {known}")
        given[key] = type(operator.attributes[key])(value)
    tried = list(check_custom_op(operator, [_shapes(t) for t in shapes], given, device, tolerance))
    wrong = [t for t in tried if t.why]
    if as_json:
        say_json({"operator": operator.kind, "agrees": not wrong, "runs": tried})
        raise click.exceptions.Exit(bool(wrong))
    table(
        ("shapes", "type", "numbers", "error", ""),
        [
            (" ".join("x".join(map(str, s)) or "scalar" for s in t.shapes), t.dtype, t.family, f"{t.error:.2g}", t.why)
            for t in tried
        ],
    )
    say()
    say(f"{operator.kind}: {len(tried) - len(wrong)} of {len(tried)} runs agree with the reference")
    if wrong:
        raise click.exceptions.Exit(1)


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    try:
        return tuple(tuple(int(d) for d in one.split("x") if d.strip()) for one in text.split(";"))
    except ValueError as error:
        raise OptionError(f"--shape {text!r} is not sizes as in 2x3, with ; between inputs") from error
