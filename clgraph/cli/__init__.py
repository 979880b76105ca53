"""The command line. Each command is a module, imported when it is called."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import logging
import os
import sys
import warnings
from importlib import import_module
from typing import TextIO

import click

from clgraph import __version__
from clgraph.cli.verbosity import start_logging, verbosity_options
from clgraph.core.nearest import meant
from clgraph.errors import ClgraphError, InternalError, KernelBuildError
from clgraph.settings import LOG_LEVELS

FAILED, INTERRUPTED = 1, 130
"""Statuses beside 0 for success and click's 2 for wrong usage; the second as shells number what Ctrl-C ends."""

_TOLD = click.ClickException, click.Abort, click.exceptions.Exit, ClgraphError, OSError, MemoryError
"""Errors that say all in their line."""

_log = logging.getLogger(__name__)

_COMMANDS = {
    "devices": "List the OpenCL devices, with their profiles.",
    "check": "List everything in a model that cannot be run, and what runs on the host.",
    "compile": "Compile a model and show what the passes did.",
    "run": "Run a model once, on arrays or pictures.",
    "generate": "Continue a text with a language model, and show its speed.",
    "serve": "Serve a folder of models over HTTP and gRPC.",
    "bench": "Measure a model: latency, throughput, start-up, memory.",
    "view": "Show in the browser what every pass made of a model.",
    "estimate": "Show what memory a model will take, and the largest batch within a limit.",
    "explain": "Show what was decided about each node of a model, and why.",
    "compare": "Compare a model on the device with the references, node by node.",
    "profile": "Run a model and time every node.",
    "tune": "Measure which kernels are fastest for a model on the device.",
    "passes": "List the passes in their order.",
    "check-op": "Compare a custom operator with its reference.",
    "cache": "Show what is kept on disk, and clear it.",
    "completion": "Print a shell's completion script.",
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
        command = import_module(f"clgraph.cli.{cmd_name.replace('-', '_')}_command").command
        assert isinstance(command, click.Command)
        return _talking(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that *args* begin with; where there is none, say which may be meant."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}{meant(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; under -v and -vv show what there is to an error beside its line, while logging is on."""
        try:
            return super().invoke(ctx)
        except Exception as error:  # of any class: it is told of, and goes on
            if isinstance(error, KernelBuildError):
                if log := str(error).partition("\n")[2]:
                    _log.info("the compiler said:\n%s", log)
            elif isinstance(error, InternalError) or not isinstance(error, _TOLD):
                _log.debug("what was raised", exc_info=error)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _talking(command: click.Command) -> click.Command:
    """Return *command* with ``-v`` and ``-q``, and so its own commands."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            _talking(below)
    elif all("-v" not in p.opts for p in command.params):
        command.params.extend(verbosity_options())
    return command


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="clgraph")
@click.option("--log-level", type=click.Choice(LOG_LEVELS), help="Minimum severity of messages on the error stream.")
@click.pass_context
def cli(ctx: click.Context, log_level: str | None) -> None:
    """Compile ONNX models for any OpenCL device, and run them.

    \b
    Examples:
      clgraph devices
      clgraph demo ocr
      clgraph check model.onnx
      clgraph run model.onnx --input cat.jpg --top 5
      clgraph bench model.onnx --shape x=1,3,224,224 --compare onnxruntime
      clgraph compile model.onnx --dump-graphs graphs
      clgraph COMMAND --help

    The exit status is 0 on success, 1 for an error (one line that begins with "error:") or where a command says so
    (check, compare, demo ocr --compare), 2 for wrong usage, 130 after Ctrl-C. Environment
    variables set compile options, too, e.g. CLGRAPH_DEVICE=pocl; NO_COLOR=1 switches colours off.
    """
    start_logging(ctx, log_level)


cli.params.extend(verbosity_options())


def main() -> None:
    """Run the command line, and end the process with its status; one ``error:`` line for what clgraph reports."""
    # The process ends with the command: not to search all of it for cyclic garbage once more saves a tenth of the
    # processor time of `clgraph run` with a model out of the model cache (ocr-rec: 574 ms in place of 640).
    atexit.register(gc.freeze)
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # A warning is a message like others, without the line of code that it came from.
    warnings.formatwarning = lambda message, *_, **__: str(message)
    logging.captureWarnings(True)
    try:
        status = cli.main(prog_name="clgraph", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_failed("interrupted", INTERRUPTED))
    except click.ClickException as error:
        sys.exit(_misused(error))
    except ClgraphError as error:
        said = str(error).partition("\n")[0] if isinstance(error, KernelBuildError) else str(error)
        text = " ".join(said.split())
        sys.exit(_failed(f"error: {text}", FAILED))
    except MemoryError:
        sys.exit(_failed("error: this process is out of memory", FAILED))
    except BrokenPipeError:
        _discard()
        sys.exit(FAILED)
    except OSError as error:
        # Files that cannot be written have a name.
        what = f"the output cannot be written: {error.strerror}" if _is_of_stream(error) else str(error)
        sys.exit(_failed(f"error: {what}", FAILED))
    except UserWarning as error:  # as -W error has it
        sys.exit(_failed(f"error: {' '.join(str(error).split())}", FAILED))
    except Exception as error:  # a fault of a command itself: whatever it is, the user gets one line
        what = f"{type(error).__name__}: {' '.join(str(error).split())}"
        report = "This is a fault of clgraph: please report it, with the traceback, which -vv shows"
        sys.exit(_failed(f"error: {what}. {report}", FAILED))
    finally:
        logging.captureWarnings(False)
    sys.exit(status if isinstance(status, int) else 0)


def _replace_closed_streams() -> None:
    """Discard what is written to streams that the process was started without, as by ``>&-``.

    Files that are opened would get their numbers, and with these what drivers and compilers print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _is_of_stream(error: OSError) -> bool:
    return error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG)


def _discard() -> None:
    """Drop what is left of the output: it would be flushed, and fail, once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(line: str, status: int) -> int:
    click.echo(line, err=True)
    return status


def _misused(error: click.ClickException) -> int:
    """Say in one line what was wrong about the arguments, and where help is."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return error.exit_code
    context = error.ctx if isinstance(error, click.UsageError) else None
    where = f"; see {context.command_path} --help" if context is not None else ""
    message = " ".join(error.format_message().split()).rstrip(".")
    return _failed(f"error: {message}{where}", error.exit_code)
