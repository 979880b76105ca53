"""``clgraph generate``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from clgraph.cli.compiling import remarked
from clgraph.cli.options import DeviceOptions, device_options
from clgraph.cli.output import say
from clgraph.cli.progress import working
from clgraph.cli.sections import SectionedCommand
from clgraph.cli.verbosity import verbosity
from clgraph.errors import InputError, OptionError
from clgraph.generate.chat import Message
from clgraph.generate.language_model import LanguageModel, load
from clgraph.generate.options import Options
from clgraph.generate.texts import Generation, TextStream

STDIN = "-"


@click.command(cls=SectionedCommand, name="generate")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--prompt",
    "prompts",
    multiple=True,
    metavar="TEXT",
    help="Text to continue; - for the standard input, which is the default.",
)
@click.option("--chat", is_flag=True, help="Apply the folder's chat template to the prompt.")
@click.option("--system", help="System message, with --chat.")
@click.option(
    "--max-tokens", type=click.IntRange(min=1), help="Maximum number of tokens to generate.  [default: as many as fit]"
)
@click.option(
    "--temperature",
    type=click.FloatRange(min=0),
    help="Sampling temperature; 0: greedy decoding.",
)
@click.option("--top-k", type=click.IntRange(min=0), help="Sample from the K most likely tokens; 0: from all.")
@click.option(
    "--top-p",
    type=click.FloatRange(min=0, min_open=True, max=1),
    help="Sample from the most likely tokens with this total probability.",
)
@click.option(
    "--repetition-penalty",
    type=click.FloatRange(min=0, min_open=True),
    help="Above 1, tokens that occurred before become less likely.",
)
@click.option("--seed", type=click.IntRange(min=0), help="Seed of the random generator.")
@click.option("--stop", multiple=True, metavar="TEXT", help="Stop before this text; may be given several times.")
@click.option("--ignore-end", is_flag=True, help="Continue after end tokens, for measurements.")
@click.option("--json", "as_json", is_flag=True, help="Print text, tokens and times as JSON at the end.")
@device_options
def command(
    where: DeviceOptions,
    folder: Path,
    prompts: tuple[str, ...],
    chat: bool,
    system: str | None,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Generate text with the language model in FOLDER, and show the speed.

    FOLDER was written by ONNX Runtime GenAI's model builder (genai_config.json, model, tokenizer.json) or by Hugging
    Face's Optimum (config.json, model.onnx, tokenizer.json). Its configuration gives the defaults of the sampling
    options. The text is written to standard output as it is generated, times to standard error. Needs the extra
    "generate".

    \b
    Examples:
      clgraph generate phi-3-mini --prompt "A heron stood in" --max-tokens 64
      clgraph generate phi-3-mini --chat --prompt "Why is the sky blue?" \\
        --temperature 0.7 --seed 1
      clgraph generate phi-3-mini --top-k 40 --top-p 0.9 < beginning.txt
      clgraph generate phi-3-mini --prompt "1, 2, 3," --stop 9 --json
    """
    if system is not None and not chat:
        raise OptionError("--system does nothing without --chat")
    if "" in chosen["stop"]:
        raise OptionError("--stop has no text: every text would end at once")
    if len(prompts) > 1:
        raise OptionError(f"--prompt is given {len(prompts)} times; a call continues one text")
    text = sys.stdin.read() if prompts in ((), (STDIN,)) else prompts[0]
    if not text:
        raise InputError("the prompt is empty; give one by --prompt or on the standard input")
    with working(f"compiling {folder.name}"):
        model = load(folder, where.device, threads=where.threads, cache_dir=where.cache_dir, config=dict(where.config))
    remarked(model.model)
    said = [*([] if system is None else [Message("system", system)]), Message("user", text)]
    stream = model.stream(model.chat(said) if chat else text, _options(model, chosen))
    made = _shown(stream, quiet=as_json)
    if as_json:
        say(json.dumps(_report(model, made), indent=2, ensure_ascii=False))
    elif verbosity() >= 0:
        click.echo(_summary(made), err=True)


def _options(model: LanguageModel, chosen: dict[str, Any]) -> Options:
    """Return the folder's options with those of the command line that were given."""
    names = Options.__dataclass_fields__
    given = {name: value for name, value in chosen.items() if value is not None and value != ()}
    return Options(**({name: getattr(model.folder.options, name) for name in names} | given))


def _shown(stream: TextStream, *, quiet: bool) -> Generation:
    """Return what becomes of *stream*, its pieces shown as they come unless *quiet*."""
    pieces = iter(stream)
    with working("reading the prompt"):  # and compiling what its length needs
        piece = next(pieces, None)
    while piece is not None:
        if not quiet:
            click.echo(piece, nl=False)
            sys.stdout.flush()
        piece = next(pieces, None)
    if not quiet:
        say()
    return stream.result


def _summary(made: Generation) -> str:
    rate = f", {made.tokens_per_second:.1f} tokens/s" if made.tokens_per_second else ""
    return (
        f"prompt: {len(made.prompt)} tokens, {made.prompt_seconds:.2f} s to the first token, compiling included; "
        f"text: {len(made.tokens)} tokens{rate}; ended by {made.reason}"
    )


def _report(model: LanguageModel, made: Generation) -> dict[str, Any]:
    return {
        "text": made.text,
        "prompt_tokens": len(made.prompt),
        "tokens": list(made.tokens),
        "reason": made.reason,
        "prompt_seconds": made.prompt_seconds,
        "seconds": made.seconds,
        "tokens_per_second": made.tokens_per_second,
        "device": model.model.device.name,
    }
