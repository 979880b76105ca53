"""``clgraph passes``."""

from __future__ import annotations

import inspect

import click

from clgraph.cli.output import table
from clgraph.passes.base import Pass
from clgraph.passes.pipeline import default_pipeline


@click.command(name="passes")
def command() -> None:
    """List the passes in their order.

    The number is that of the files which --dump-graphs writes. A required pass cannot be disabled.

    \b
    Examples:
      clgraph passes
      clgraph compile model.onnx --stop-after decompose
    """
    table(
        ("number", "pass", "", "what it does"),
        [
            (f"{i:02}", p.name, "required" if p.required else "optional", summary(p))
            for i, p in enumerate(default_pipeline())
        ],
    )


def summary(pass_: Pass) -> str:
    """Return the first sentence of a pass's documentation."""
    return (inspect.getdoc(type(pass_)) or "").partition("\n\n")[0].replace("\n", " ")
