"""From the shared options to a compiled model and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

import clgraph
from clgraph.cli.options import DeviceOptions, ModelOptions, refuse_idle
from clgraph.cli.output import remark
from clgraph.cli.progress import working
from clgraph.compilation.load import read_topology
from clgraph.compilation.preprocessing import preprocessed
from clgraph.compilation.weights_apart import apart_topology
from clgraph.core.dtype import DType
from clgraph.core.layout import Shape
from clgraph.engines.opening import load_extensions, options_of
from clgraph.engines.option_checks import is_about_annotation
from clgraph.errors import InputError
from clgraph.graph.primitive import Array
from clgraph.graph.signature import Signature
from clgraph.graph.topology import Topology
from clgraph.model.model import Model
from clgraph.model.specialisation import Shapes
from clgraph.ops.preprocess import Preprocess
from clgraph.saved.container import Contents, is_dump, is_saved
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.debugging.dumped import DumpedProgram


def load(options: ModelOptions) -> Model:
    """Return the model with its device opened; compiled when its shapes are known.

    Raises:
        ClgraphError: Anything that is wrong with the model, the device or the options.
    """
    return remarked(_loaded(options))


def remarked(model: Model) -> Model:
    """Return *model*, whose options that did nothing are shown when the command is over; the log has annotations."""
    context = click.get_current_context()
    context.call_on_close(lambda: remark(line for line in model.unused if not is_about_annotation(line)))
    return model


def _loaded(options: ModelOptions) -> Model:
    where = options.where
    if options.images or not is_saved(options.model):
        _refuse_weights(options)
    if is_saved(options.model) and not options.images:
        return _load_saved(options)
    if is_dump(options.model):
        refuse_idle("preprocess", "with a dump: its program is compiled already")
        return _load_dump(options)
    with working(f"compiling {options.model.name}"):
        return clgraph.compile(
            options.model,
            device=where.device,
            shapes=dict(options.shapes),
            threads=where.threads,
            cache_dir=where.cache_dir,
            config=dict(options.config),
            preprocess=options.images,
        )


def load_program(options: ModelOptions) -> DumpedProgram:
    """Return the program in a dump; raises like :func:`load`."""
    from clgraph.debugging.dumped import read_dump

    where = options.where
    return read_dump(options.model, where.device, where.threads, where.cache_dir, dict(options.config))


def _load_dump(options: ModelOptions) -> Model:
    from clgraph.debugging.dumped import load_dump

    where = options.where
    with working(f"loading {options.model.name}"):
        model = load_dump(options.model, where.device, where.threads, where.cache_dir, dict(options.config))
        model.prepare(dict(options.shapes))
        return model


def _load_saved(options: ModelOptions) -> Model:
    where = options.where
    with working(f"loading {options.model.name}"):
        model = clgraph.load(
            options.model,
            device=where.device,
            threads=where.threads,
            cache_dir=where.cache_dir,
            config=dict(options.config),
            weights_from=options.weights_from,
        )
        return model.reshape(dict(options.shapes)) if options.shapes else model


def load_topology(options: ModelOptions) -> tuple[Topology, Settings]:
    """Return the model uncompiled, and the options to compile it with. Raises like :func:`load`."""
    from clgraph.frontend.onnx_loader import load_onnx

    where = options.where
    settings = options_of(where.device, where.threads, where.cache_dir, options.config)
    load_extensions(settings)
    if not is_saved(options.model):
        _refuse_weights(options)
        topology = load_onnx(options.model)
    elif options.weights_from is None:
        topology = read_topology(Contents(options.model))
    else:
        topology = apart_topology(options.model, options.weights_from, settings)
    return preprocessed(topology, options.images) if options.images else topology, settings


def _refuse_weights(options: ModelOptions) -> None:
    """Raise ``click.UsageError`` where weights are given for what has its own."""
    if options.weights_from is not None:
        raise click.UsageError(
            "--weights-from does nothing with --preprocess: give that when the model is saved"
            if is_saved(options.model)
            else f"--weights-from is for models saved without weights, and {options.model.name} is not a saved model"
        )


def compiled(options: ModelOptions) -> Model:
    """Return the model compiled for the shapes that *options* give; raises like :func:`load`, and for open shapes."""
    model = load(options)
    if not options.shapes and not model.is_static and not model.is_compiled:
        check_shapes(model.topology, {})
    return model


def check_shapes(topology: Topology, shapes: Shapes) -> None:
    """Raise ``InputError`` with the option to give when an input's shape is open, or *shapes* name an unknown input."""
    if unknown := sorted(set(shapes) - set(topology.inputs)):
        raise InputError(f"no input is called {unknown[0]!r}; the inputs are {', '.join(map(repr, topology.inputs))}")
    for signature in topology.inputs.values():
        if not signature.is_fixed and signature.name not in shapes:
            option = f"--shape {_example(signature)}"
            raise InputError(f"input {signature} has dynamic dimensions; give their sizes: {option}")


def open_model(where: DeviceOptions, path: Path, images: Preprocess | None = None) -> Model:
    """Return the model at *path* on the device of *where*, fed *images* or what its file says."""
    config = dict(where.config)
    return remarked(
        clgraph.compile(
            path, where.device, threads=where.threads, cache_dir=where.cache_dir, config=config, preprocess=images
        )
    )


def random_feeds(model: Model | Topology, shapes: Mapping[str, Shape], seed: int) -> dict[str, Array]:
    """Return an array an input: normal floats, small integers, coins for booleans.

    Raises:
        InputError: The shape of an input is open or it holds no numbers, or *shapes* names none.
    """
    topology = model if isinstance(model, Topology) else model.topology
    check_shapes(topology, shapes)
    if others := [s for s in topology.inputs.values() if s.host_type and s.name not in shapes]:
        raise InputError(f"input {others[0]} cannot be filled with random values; give it by --input, or from Python")
    random = np.random.default_rng(seed)
    return {
        s.name: _random(random, s.dtype or DType.F32, topology.shape_of(s.name, shapes))
        for s in topology.inputs.values()
        if not s.host_type
    }


def _random(random: np.random.Generator, dtype: DType, shape: Shape) -> Array:
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.floating:
        return random.standard_normal(shape).astype(dtype.numpy)
    return random.integers(0, 8, shape).astype(dtype.numpy)


def _example(signature: Signature) -> str:
    sizes = [str(d) if isinstance(d, int) else "SIZE" for d in signature.shape or ("SIZE",)]
    return f"{signature.name}={','.join(sizes)}"
