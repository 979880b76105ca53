"""``clgraph completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from clgraph.cli.output import say
from clgraph.cli.sections import SectionedCommand

VARIABLE = "_CLGRAPH_COMPLETE"
"""What click's scripts set to ask for completions."""


@click.command(cls=SectionedCommand, name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      clgraph completion bash >> ~/.bashrc
      clgraph completion zsh >> ~/.zshrc
      clgraph completion fish > ~/.config/fish/completions/clgraph.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root().command
    completion = found(root, {}, "clgraph", VARIABLE)
    say(completion.source_template % completion.source_vars())
