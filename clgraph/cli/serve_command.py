"""``clgraph serve``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from clgraph.cli.options import DeviceOptions, device_options
from clgraph.cli.sections import SectionedCommand
from clgraph.cli.verbosity import format_messages, verbosity
from clgraph.errors import OptionError
from clgraph.serving.logs import Lines
from clgraph.serving.options import ServerOptions
from clgraph.settings import settings

MIB = 1 << 20


@click.command(cls=SectionedCommand, name="serve")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0: all interfaces.")
@click.option("--http-port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free port.")
@click.option("--grpc-port", type=click.IntRange(0, 65535), default=8001, show_default=True, help="0: any free port.")
@click.option("--no-http", is_flag=True, help="Serve gRPC only, without metrics.")
@click.option("--no-grpc", is_flag=True, help="Serve HTTP only.")
@click.option(
    "--max-request",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Maximum size of a request in MiB, decompressed.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Maximum seconds of a call, waiting included.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Maximum number of waiting calls per model.",
)
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Maximum number of HTTP connections, and of concurrent gRPC calls.",
)
@click.option(
    "--poll",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Seconds between scans of the folder; 0: models are loaded and unloaded by clients only.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds for running calls to finish after SIGTERM or Ctrl-C.",
)
@click.option("--follow-links", is_flag=True, help="Follow symbolic links out of FOLDER.")
@device_options
def command(
    where: DeviceOptions,
    folder: Path,
    host: str,
    http_port: int,
    grpc_port: int,
    no_http: bool,
    no_grpc: bool,
    max_request: int,
    timeout: float,
    queue: int,
    connections: int,
    poll: float,
    grace: float,
    follow_links: bool,
) -> None:
    """Serve the models in FOLDER with the Open Inference Protocol, which clients of KServe, MLServer and Triton use.

    A model is name/1/model.onnx (versions by number), name/model.onnx or name.onnx; a file model.toml or name.toml
    beside it contains its options. Models that are added, replaced or removed are loaded and unloaded while the server
    runs. --memory-limit limits all models together: the least recently used are evicted, and loaded again when they are
    called. There is no authentication: anybody who can reach the port can run, load and unload models. -v logs every
    call. Needs the extra "serve".

    \b
    Examples:
      clgraph serve models
      clgraph serve models --http-port 9000 --no-grpc --timeout 5
      clgraph serve models --host 0.0.0.0 --device gpu --queue 256
    """
    try:
        from clgraph.serving.server import run
    except ImportError as error:
        raise OptionError(f"{error.name} is not installed: pip install 'clgraph-opencl[serve]'") from error
    config = dict(where.config)
    limit = config.pop("memory_limit") or settings().memory_limit
    # One for all models, not one for each, as the variable would have it.
    given = {"threads": where.threads, "cache_dir": where.cache_dir, "config": config}
    options = ServerOptions(
        folder=folder,
        host=host,
        http_port=None if no_http else http_port,
        grpc_port=None if no_grpc else grpc_port,
        compile={"device": where.device, **given},
        max_request=max_request * MIB,
        timeout=timeout,
        queue=queue,
        connections=connections,
        poll=poll,
        grace=grace,
        follow_links=follow_links,
        memory_limit=limit,
    )
    _start_lines(verbosity())
    run(options)


def _start_lines(count: int) -> None:
    """Write messages in lines of the server's form: what happens; every call with -v; everything with -vv."""
    format_messages(Lines())
    logging.getLogger("clgraph.serving").setLevel("ERROR" if count < 0 else ("INFO", "DEBUG")[min(count, 1)])
    logging.getLogger("grpc").setLevel("INFO")  # below, it says something of each message
    if count == 1:
        logging.root.setLevel("WARNING")
