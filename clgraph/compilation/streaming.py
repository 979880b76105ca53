"""Behind ``clgraph.compile(hint="throughput")``: one model compiled for the parts of devices that its streams have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from clgraph.compilation.cache_sources import Images
from clgraph.compilation.stream_choices import choice_path, read_choice
from clgraph.model.model import Model
from clgraph.settings import Settings
from clgraph.throughput.batching import Batching
from clgraph.throughput.seats import Seat, default_streams, seats
from clgraph.throughput.streamed_model import StreamedModel


def compile_streams(
    compile_for: Callable[..., Model],
    source: object,
    options: Settings,
    streams: int | None = None,
    batching: Batching | None = None,
    queue_size: int = 64,
    queue_timeout: float | None = None,
    images: Images | None = None,
) -> StreamedModel:
    """Return a model of so many *streams*; raises as ``clgraph.compile``.

    Args:
        compile_for: Compiles the model of *source* for a ``device`` and ``threads``.
        images: What is done to the images that inputs are fed.
    """
    measured = read_choice(choice_path(source, options, images))

    def make(seat: Seat) -> Model:
        return compile_for(device=seat.device, threads=seat.threads, memory_limit=options.memory_limit)

    if streams is not None:
        count, chosen = streams, "as asked for"
    elif measured is not None:
        count, chosen = measured.streams, str(measured)
    else:
        count, chosen = default_streams(options.device, options.threads), "one a core, two a GPU: nothing was measured"
    if batching is not None and batching.maximum is None and measured is not None:
        batching = replace(batching, maximum=measured.maximum)
    return StreamedModel(
        make,
        seats(options.device, options.threads, count),
        batching=batching,
        queue_size=queue_size,
        queue_timeout=queue_timeout,
        chosen=chosen,
    )
