"""Help in sections: a command's own options first, then those it shares with others, by what they are about."""

from __future__ import annotations

from typing import Any

import click

OWN, COMPILING, WHERE, MESSAGES = "Options", "Compiling", "Where to run", "Messages"


class Sectioned(click.Option):
    """An option that help lists under a section of its own."""

    def __init__(self, *declared: Any, section: str, **settings: Any) -> None:
        """Take what ``click.Option`` takes, and the section."""
        super().__init__(*declared, **settings)
        self.section = section


class SectionedCommand(click.Command):
    """A command whose help has the sections of its options, its own first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section that has options; ``--help`` is with how much is said."""
        found: dict[str, list[tuple[str, str]]] = {section: [] for section in (OWN, COMPILING, WHERE, MESSAGES)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and record[1]:
                plain = MESSAGES if set(parameter.opts) & set(ctx.help_option_names) else OWN
                found[getattr(parameter, "section", plain)].append(record)
        for section, records in found.items():
            if records:
                with formatter.section(section):
                    formatter.write_dl(records)
