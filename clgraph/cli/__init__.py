"""The command line. Each command is a module, imported when it is called."""

from __future__ import annotations

import logging
import sys
from importlib import import_module

import click

from clgraph import __version__
from clgraph.errors import ClgraphError
from clgraph.settings import LOG_LEVELS, settings

_COMMANDS = {
    "devices": "List the OpenCL devices there are, with their profiles.",
    "compile": "Compile a model and show what the passes did.",
    "run": "Run a model once.",
    "explain": "Show what was decided about each node of a model, and why.",
    "compare": "Compare a model on the device with the references, node by node.",
    "profile": "Run a model with the clock on every node.",
    "passes": "List the passes in their order.",
    "demo": "Show what clgraph does on a real model.",
}


class Commands(click.Group):
    """Commands that are found by name and imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of ``--help``."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of module ``clgraph.cli.<name>_command``."""
        if cmd_name not in _COMMANDS:
            return None
        command = import_module(f"clgraph.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clgraph")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Least severe messages shown on the error stream.")
@click.option("-v", "verbose", count=True, help="Show what is being done (-v: info, -vv: debug).")
def cli(log_level: str | None, verbose: int) -> None:
    """Compile ONNX models for any OpenCL device, and run them.

    \b
    Examples:
      clgraph devices
      clgraph demo ocr --text "OpenCL 2026"
      clgraph run model.onnx --random-inputs --shape x=1,3,224,224
      clgraph compile model.onnx --dump-graphs graphs
      clgraph -v run model.onnx --random-inputs
      clgraph COMMAND --help
    """
    chosen = log_level or ("", "info", "debug")[min(verbose, 2)]
    level = (chosen or settings().log_level).upper()
    shown = logging.StreamHandler()
    shown.setLevel(level)
    logging.basicConfig(level=level, handlers=[shown], format="%(levelname)s %(name)s: %(message)s")


def main() -> None:
    """Run the command line: status 1 and one ``error:`` message for whatever clgraph reports."""
    try:
        cli(prog_name="clgraph")
    except ClgraphError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
