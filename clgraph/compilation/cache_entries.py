"""Entries of the model cache: saved models, and what is compiled of a model on their way there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from clgraph.compilation.cache_sources import Read
from clgraph.compilation.images import keep_image
from clgraph.compilation.keeper import Keeper
from clgraph.compilation.load import Loader, read_topology
from clgraph.core.log import Log
from clgraph.core.mapped import files_of
from clgraph.engines.opening import open_engines
from clgraph.errors import ClgraphError, ModelError
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.handlers import pass_on, suppressed
from clgraph.model.keys import Key
from clgraph.model.model import Model
from clgraph.model.specialisation import Specialisation
from clgraph.runtime.engine import Engine
from clgraph.saved.container import Contents
from clgraph.saved.topologies import SavedTopology

if TYPE_CHECKING:
    from clgraph.compilation.compiler import Compiler
    from clgraph.compilation.model_cache import Cached

_log = Log(__name__)

NOTE = "out of the model cache: no pass was run"


def load_entry(
    call: Cached, content: str, stage: Topology | None = None, compiler: Compiler | None = None
) -> Model | None:
    """Return the model in the cache, or the unprepared model of a *stage*; *compiler* compiles programs that it lacks.

    ``None`` where what the cache has does not fit or is damaged.
    """
    try:
        contents = _contents(call, content)
        if stage is not None:
            return load_contents(call, content, contents, stage, compiler=compiler, is_stage=True)
        read = call.source.reader(content, call.outputs, call.shapes, call.images)
        model = load_contents(call, content, contents, topology_of(contents, read))
    except (ModelError, OSError) as error:
        pass_on(error)
        drop(call, content, error)
        return None
    if model is not None:
        keep_image(call.cache.image(call.entry(content)), contents, call.kept_for(content), call.options, model)
    return model


def _contents(call: Cached, content: str) -> Contents:
    contents = Contents(call.entry(content))
    if contents.header.get("kept_for") != call.kept_for(content):
        raise ModelError(f"{contents.path} was kept for something else")
    return contents


def topology_of(contents: Contents, read: Read) -> Topology:
    """Return the topology of an entry, whose layers are *read* when another shape is to be compiled."""
    topology = read_topology(contents)
    assert isinstance(topology, SavedTopology)
    topology.read_by(read)
    return topology


def load_contents(
    call: Cached,
    content: str,
    contents: Contents,
    topology: Topology,
    *,
    compiler: Compiler | None = None,
    is_stage: bool = False,
) -> Model | None:
    """Return the model in an entry, ``None`` where it does not fit; raises ``ModelError`` where it is damaged."""
    keeper = Keeper(partial(_write, call, topology))
    loader = Loader(contents, call.options, NOTE, partial(_lose, call, content, ref(keeper)), compiler)
    if not loader.fits():
        return None
    fixed = all(s.is_fixed for s in topology.inputs.values())
    model = loader.unprepared(topology) if is_stage else loader.model(topology, prepared=fixed)
    call.cache.note_use(call.entry(content))
    keeper.has(loader.held, loader.programs)
    model.when_compiled(keeper)
    return model


def stage_of(call: Cached, compiler: Compiler, topology: Topology) -> Model:
    """Return the model of a stage of what *call* compiles: what was compiled of it before is not compiled again.

    Stages are entries of their own, because data decide which of them run, and on which types.
    """
    types = ",".join(str(s.dtype) for s in topology.inputs.values())
    call = replace(call, key=f"{call.key} {topology.label} {types}")
    stored = call.source.content(call.cache)
    if stored is not None and call.cache.has(call.entry(stored)):
        found = load_entry(call, stored, topology, compiler)
        if found is not None:
            return found
    model = Model(topology, compiler.context.default, compiler.specialise)
    keep_later(call, model)
    return model


def keep_later(call: Cached, model: Model) -> None:
    """Write what *model* compiles to the cache when the process has time for it, if it can be there."""
    files = files_of(model.topology.constants.values())
    if type(model) is Model and not model.topology.scattered and all(map(call.source.holds, files)):
        model.when_compiled(Keeper(partial(_write, call, model.topology)))


def drop(call: Cached, content: str, error: Exception) -> None:
    """Drop a damaged entry."""
    _log.warning("%s is compiled anew: the model cache: %s", call.source, error)
    with suppressed(OSError):
        call.cache.drop(call.entry(content))


def _lose(call: Cached, content: str, keeper: ReferenceType[Keeper], error: ModelError) -> None:
    """Drop a damaged entry, and have *keeper* forget it: that keeps alive who calls this."""
    drop(call, content, error)
    if (found := keeper()) is not None:
        found.forget()


def _write(call: Cached, topology: Topology, made: Mapping[Key, Specialisation]) -> None:
    from clgraph.model.save import save_model

    try:
        content = call.source.learn(call.cache)
        programs = [s.program for s in made.values() if not s.bound]
        constants = (v.constant for program in programs for v in program.constants)
        size = sum(array.nbytes for array in constants if array is not None)
        if content is None or size > call.cache.limit or call.is_foreign():
            return
        save_model(topology, made, call.entry(content), kept_for=call.kept_for(content))
        call.cache.trim()
        _keep_binaries(call, [s.program for s in made.values()])
    except (ClgraphError, OSError) as error:
        pass_on(error)
        _log.info("%s is not kept in the model cache: %s", call.source, error)


def _keep_binaries(call: Cached, programs: Sequence[Program]) -> None:
    """Keep binaries of the kernels of *programs* beside the model: a start then builds none of its text."""
    from clgraph.network.node_steps import kernel_texts

    for placement, engine in open_engines(call.options).items():
        if isinstance(engine, Engine):
            for program in programs:
                engine.programs.keep_binaries(kernel_texts(program, placement))
