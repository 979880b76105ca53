"""The one call behind ``clgraph.compile``: out of the model cache where that has it, else through the compiler.

What a start needs is imported where drivers are loading beside it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from clgraph.core.collector import PAUSED, count_as_lasting
from clgraph.engines.opening import callers_queue, load_extensions, loading_drivers, options_of
from clgraph.errors import OptionError
from clgraph.graph.shapes_by_name import by_name
from clgraph.network.budget import MemoryBudget, with_one_budget
from clgraph.saved.container import is_model, is_saved
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.model_cache import Cached
    from clgraph.frontend.files import Source
    from clgraph.graph.signature import Dimension
    from clgraph.graph.topology import Topology
    from clgraph.model.model import Model
    from clgraph.ops.preprocess import Preprocess
    from clgraph.throughput.batching import Batching
    from clgraph.throughput.streamed_model import StreamedModel


@overload
def compile_model(
    source: Source | Topology,
    device: str | int = "auto",
    shapes: Mapping[str, Sequence[Dimension]] | None = None,
    outputs: Sequence[str] | None = None,
    precision: str | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    placement: Mapping[str, str] | None = None,
    placement_fallback: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    weights: str | None = None,
    hint: Literal["latency"] = "latency",
    *,
    context: Any = None,
    queue: Any = None,
    memory_limit: int | str | MemoryBudget | None = None,
    preprocess: Preprocess | Mapping[str, Preprocess] | None = None,
) -> Model: ...
@overload
def compile_model(
    source: Source | Topology,
    device: str | int = "auto",
    shapes: Mapping[str, Sequence[Dimension]] | None = None,
    outputs: Sequence[str] | None = None,
    precision: str | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    placement: Mapping[str, str] | None = None,
    placement_fallback: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    weights: str | None = None,
    *,
    hint: Literal["throughput"],
    streams: int | None = None,
    batching: Batching | None = None,
    queue_size: int | None = None,
    queue_timeout: float | None = None,
    memory_limit: int | str | MemoryBudget | None = None,
    preprocess: Preprocess | Mapping[str, Preprocess] | None = None,
) -> StreamedModel: ...
def compile_model(
    source: Source | Topology,
    device: str | int = "auto",
    shapes: Mapping[str, Sequence[Dimension]] | None = None,
    outputs: Sequence[str] | None = None,
    precision: str | None = None,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    placement: Mapping[str, str] | None = None,
    placement_fallback: Sequence[str] | None = None,
    config: Mapping[str, Any] | None = None,
    weights: str | None = None,
    hint: str = "latency",
    streams: int | None = None,
    batching: Batching | None = None,
    queue_size: int | None = None,
    queue_timeout: float | None = None,
    context: Any = None,
    queue: Any = None,
    memory_limit: int | str | MemoryBudget | None = None,
    preprocess: Preprocess | Mapping[str, Preprocess] | None = None,
) -> Model | StreamedModel:
    """Compile an ONNX model, or a topology written by hand, for a device.

    A model whose input shapes are fixed, by itself or by *shapes*, is compiled now; of another one a program is
    compiled at the first run with shapes of a family, or by :meth:`Model.prepare`, and bound to each set of shapes.

    Args:
        source: Path of an ONNX file, its bytes, a ``ModelProto``, a :class:`Topology`, or the path of a saved model: as
            :func:`clgraph.load`, or with other shapes or outputs compiled. A file of more than 16 MiB or of weights
            alone stays mapped: it may be removed or replaced while the model is in use; when it is written to or cut,
            runs and compilations that begin later raise ``ModelError``.
        device: ``auto``, ``cpu``, ``gpu``, ``host``, ``null`` (a dry run without OpenCL), ``pocl:0``, an index or a
            part of the name; ``clgraph devices`` lists what there is. ``auto`` leaves it to ``CLGRAPH_DEVICE``.
        shapes: Shapes of inputs by name, theirs from now on; a dimension is a size, or a name or ``None`` where it
            stays open, as in ``{"x": ("batch", 3, 640, 640)}``. They cannot contradict declared sizes. An input that
            the model has a value for is to be fed where it has a shape here.
        outputs: The results to compute, by name: outputs of the model, or any value in it. All outputs by default.
        precision: ``f32``; ``f16`` stores values between operators and weights in half precision, but for the nodes
            that ``config={"keep_f32": [...]}`` names, and adds up in single; ``auto`` does so on GPUs, where the range
            suffices; ``bf16`` rounds both sides of products with constant weights to bfloat16 on CPUs, and adds up in
            single; ``tf32x3`` and ``f16x3`` are ``f32``, of which NVIDIA's matrix units multiply parts. Inputs and
            outputs keep their types. ``None`` leaves it to ``CLGRAPH_PRECISION``.
        threads: Worker threads on a CPU device; all usable cores by default.
        cache_dir: Folder for compiled kernels and models; the user's cache folder by default.
        placement: Devices of parts of the model: of the nodes whose annotation, name, ONNX operator type or kind fits a
            pattern (``{"encoder*": "gpu:0", "head": "cpu"}``); the first pattern that fits counts. The others run on
            *device*; several, as ``"gpu:0,pocl:0"``, share them out by estimated time.
        placement_fallback: Devices that may run what its own device refuses; without, that is an error.
        config: Further options by name, as in :class:`clgraph.settings.Settings`.
        weights: ``int8`` or ``int4`` store the constant float weights of large products and embeddings in few bits, but
            for those of nodes that ``config={"keep_f32": [...]}`` names. ``config={"weight_group": 64}`` lets 64 share
            a scale, 128 by default. ``explain`` has the error of each. ``None`` leaves it to ``CLGRAPH_WEIGHTS``.
        hint: ``latency`` gives one request all cores; ``throughput`` returns a :class:`StreamedModel`, which shares
            them out to several *streams* (docs/throughput.md).
        streams, batching, queue_size, queue_timeout: Of those: how many, by default one a core or what its trial found
            on this machine; how concurrent requests become batches; how many requests may wait, 64 by default; how
            many seconds one more waits for room, ``None`` for ever.
        context, queue: In place of *device*, a context or a command queue of pyopencl's, or the address of one: the
            model's memory and kernels are in that context, its commands on that queue (docs/interoperability.md).
        memory_limit: Bytes, or ``"512 MiB"``, that the model may take of each device, its clones, stages and streams
            together, or a :class:`MemoryBudget` that several models share: shapes that would take more are refused
            before their memory is allocated (docs/memory.md).
        preprocess: What is done to images of bytes that are fed in the place of the only input, or of inputs by name;
            *shapes* are the images' then (docs/preprocessing.md).

    A model that was compiled before, for the same shapes, device, options and version of clgraph, comes out of the
    model cache, which ``Model.notes`` says; ``config={"model_cache": 0}`` compiles it in any case.

    Raises:
        ModelError: The file cannot be read, or what it holds is not a well-formed graph.
        UnsupportedError: Lists what of the model clgraph does not have.
        DeviceError: There is no such device; lists those there are.
        MemoryLimitError: The model takes more than *memory_limit*; says what would help.
        ClgraphError: Anything else that is wrong with the model, its shapes or the options.
    """
    callers = callers_queue(device, context, queue)
    if callers is not None:
        device = callers.name
    about: dict[str, Any] = {
        "streams": streams,
        "batching": batching,
        "queue_size": queue_size,
        "queue_timeout": queue_timeout,
    }
    about = {name: value for name, value in about.items() if value is not None}
    if hint == "throughput":
        if callers is not None:
            raise OptionError(
                "streams have queues of their own: the hint throughput goes with no context or queue (in Python)"
            )
        shared = {
            "shapes": shapes,
            "outputs": outputs,
            "precision": precision,
            "weights": weights,
            "cache_dir": cache_dir,
            "placement": placement,
            "placement_fallback": placement_fallback,
            "config": config,
            "preprocess": preprocess,
        }
        return _streams(source, device, threads, memory_limit, shared, about)
    if hint != "latency":
        raise OptionError(f"hint={hint!r} is neither 'latency' nor 'throughput'")
    if about:
        raise OptionError(f"{next(iter(about))} is about streams: give hint='throughput', too")
    shapes = by_name(shapes)
    if isinstance(outputs, str):
        raise OptionError(f"outputs are a list of names, as [{outputs!r}]")
    further = {"placement": placement, "placement_fallback": placement_fallback, **dict(config or {})}
    options = with_one_budget(
        options_of(device, threads, cache_dir, further).with_(
            precision=precision, weights=weights, memory_limit=memory_limit
        )
    )
    with PAUSED, loading_drivers(options):
        model = _compiled(source, outputs, shapes, options, preprocess)
        _count_first_as_lasting()
        return model


def _streams(
    source: Source | Topology,
    device: str | int,
    threads: int | None,
    memory_limit: int | str | MemoryBudget | None,
    shared: Mapping[str, Any],
    about: Mapping[str, Any],
) -> StreamedModel:
    """Return the model in streams, *about* which there are options; those that are *shared* are of each stream's."""
    from clgraph.compilation.sources import images_of
    from clgraph.compilation.streaming import compile_streams

    options = options_of(device, threads, shared["cache_dir"], shared["config"]).with_(
        precision=shared["precision"], weights=shared["weights"], memory_limit=memory_limit
    )
    compile_for, images = partial(compile_model, source, **shared), images_of(shared["preprocess"])
    return compile_streams(compile_for, source, with_one_budget(options), images=images, **about)


def _compiled(
    source: Source | Topology,
    outputs: Sequence[str] | None,
    shapes: Mapping[str, Sequence[Dimension]] | None,
    options: Settings,
    preprocess: object,
) -> Model:
    """Return the model out of a file or the model cache, or compiled; what that takes is imported here."""
    from clgraph.compilation.sources import images_of

    images = images_of(preprocess)
    if isinstance(source, str | os.PathLike) and is_saved(Path(source)):
        from clgraph.compilation.saved_models import load_saved

        if not (shapes or outputs is not None or options.placement or images):
            return load_saved(source, options)
        from clgraph.compilation.load import saved_topology

        source = saved_topology(source, options)
    if isinstance(source, bytearray | memoryview):
        source = bytes(source)  # the caller may write to them while the model is in use
    load_extensions(options)
    if not options.model_cache:
        return _anew(source, outputs, shapes, options, images, None)
    from clgraph.compilation.cached_models import cached_model
    from clgraph.compilation.model_cache import Cached

    cached = Cached.of(source, outputs, shapes, options, images)
    anew = partial(_anew, source, outputs, shapes, options, images, cached)
    return (None if cached is None else cached_model(cached, anew)) or anew()


def _anew(
    source: Source | Topology,
    outputs: Sequence[str] | None,
    shapes: Mapping[str, Sequence[Dimension]] | None,
    options: Settings,
    images: Mapping[str, Preprocess],
    cached: Cached | None,
) -> Model:
    # Imported only where something is to be compiled: it takes longer than all of a start out of the cache.
    from clgraph.compilation.models import compile_source

    if cached is None:
        return compile_source(source, outputs, shapes, options, images=images)
    from clgraph.compilation.cache_entries import keep_later, stage_of

    model = compile_source(source, outputs, shapes, options, partial(stage_of, cached), images)
    keep_later(cached, model)
    return model


compile_model.__qualname__ = "compile"  # what Python says of arguments that it does not know names it so


def load_model(
    path: Source,
    device: str | int = "auto",
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
    *,
    context: Any = None,
    queue: Any = None,
    weights_from: Source | Topology | None = None,
) -> Model:
    """Load a model that :meth:`clgraph.Model.save` has written.

    Programs saved for the same device, driver, workers, options and sources of clgraph are run as they are, on weights
    that stay in the mapped file; so are families of shapes, to which any shape of theirs is bound. Others are compiled
    anew, which the log, ``Model.notes`` and ``explain`` say.

    Args:
        path: The file. An ONNX file is compiled, as by :func:`clgraph.compile`, and so is what else that takes.
        device, threads, cache_dir, config, context, queue: As for :func:`clgraph.compile`.
        weights_from: The ONNX model, as :func:`clgraph.compile` takes it, that a file saved without weights was made
            of. The model is compiled for what was asked for last, or comes out of the model cache; options that are
            not given are those that it was compiled with.

    Raises:
        ModelError: The file is missing, cut, damaged, of a newer version, or no model; or it has no weights, and they
            are not given, or another model's.
        UnsupportedError: It needs an operator of a plugin that is not there.
        DeviceError: There is no such device.
        ClgraphError: Anything that is wrong with the options.
    """
    if not isinstance(path, str | os.PathLike) or (not is_saved(Path(path)) and is_model(Path(path))):
        if weights_from is not None:
            raise OptionError("--weights-from (in Python, weights_from) is for models saved without weights")
        return compile_model(
            path, device, threads=threads, cache_dir=cache_dir, config=config, context=context, queue=queue
        )
    callers = callers_queue(device, context, queue)
    options = options_of(device if callers is None else callers.name, threads, cache_dir, config)
    options = with_one_budget(options)
    with PAUSED, loading_drivers(options):
        if weights_from is not None:
            from clgraph.compilation.weights_apart import load_apart

            given = {name for name, value in (config or {}).items() if value is not None}
            return load_apart(path, weights_from, options, given)
        from clgraph.compilation.saved_models import load_saved

        model = load_saved(path, options)
        _count_first_as_lasting()
        return model


_count_first_as_lasting = functools.cache(count_as_lasting)
"""Once a process: where models are compiled again and again, full collections must have their turn."""
