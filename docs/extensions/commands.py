"""A directive that shows the commands as ``--help`` does: usage, description, examples, options."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from clgraph.cli import cli
from extensions.text import paragraph, table


class CommandList(SphinxDirective):
    """``{commands}``: a section a command, in the order of ``clgraph --help``."""

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        return [
            _section(command, context) for command, context in _commands(cli, click.Context(cli, info_name="clgraph"))
        ]


def _commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = click.Context(command, parent=context, info_name=name)
        yield command, below
        if isinstance(command, click.Group):
            yield from _commands(command, below)


def _section(command: click.Command, context: click.Context) -> nodes.section:
    name = context.command_path
    section = nodes.section(ids=[nodes.make_id(name)], names=[name])
    section += nodes.title("", name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    section += nodes.literal_block(usage, usage, language="text")
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        mark, _, text = block.partition("\n")
        if mark == "\b":
            head, _, lines = text.partition("\n")
            section += paragraph(head)
            lines = inspect.cleandoc(lines)
            section += nodes.literal_block(lines, lines, language="sh")
        else:
            section += paragraph(block.replace("\n", " "))
    options = [p for p in command.get_params(context) if isinstance(p, click.Option)]
    records = [record for p in options if (record := p.get_help_record(context)) is not None]
    if records:
        section += table(("option", "what it does"), [(f"`{spelled}`", text) for spelled, text in records])
    return section


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("commands", CommandList)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
