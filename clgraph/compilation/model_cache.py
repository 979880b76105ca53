"""Models out of the model cache, and into it once a process has time for that."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from clgraph.compilation.cache_files import ModelCache, kept_for
from clgraph.compilation.cache_sources import CacheSource, Images, source_of
from clgraph.compilation.keeper import Keeper
from clgraph.compilation.load import Loader, read_topology
from clgraph.compilation.sources import OpenShapes
from clgraph.core.cache_folder import cache_folder
from clgraph.core.digests import blake2
from clgraph.core.frozen import frozen
from clgraph.core.log import Log
from clgraph.core.mapped import files_of
from clgraph.core.registry import third_party
from clgraph.core.version import __version__
from clgraph.engines.opening import open_engines
from clgraph.engines.records import is_dry
from clgraph.errors import ClgraphError, ModelError
from clgraph.graph.program import Program
from clgraph.graph.topology import Topology
from clgraph.model.keys import Key
from clgraph.model.model import Model
from clgraph.model.specialisation import Specialisation
from clgraph.runtime.engine import Engine
from clgraph.saved.circumstances import digests_in
from clgraph.saved.container import Contents
from clgraph.saved.source_digests import digest_of
from clgraph.saved.topologies import SavedTopology
from clgraph.selector.sources import kernel_directories
from clgraph.settings import Settings

if TYPE_CHECKING:
    from clgraph.compilation.compiler import Compiler

_log = Log(__name__)

NOTE = "out of the model cache: no pass was run"

_APART = ("cli", "debugging", "demo", "explorer", "generate", "onnxruntime", "ray", "serving", "tuner")
"""Packages of clgraph that no compiled model depends on: they lie above this one."""
_NOT_IN_KEY = ("cache_dir", "log_level", "memory_limit", "model_cache")


@frozen
class Cached:
    """One call of ``clgraph.compile`` whose model may be in the cache.

    Attributes:
        key: What the compiled model depends on beside the source and the device.
    """

    source: CacheSource
    outputs: tuple[str, ...] | None
    shapes: OpenShapes
    options: Settings
    key: str
    images: Images
    cache: ModelCache = field(init=False)

    def __post_init__(self) -> None:
        folder, limit = cache_folder(self.options.cache_dir) / "compiled", self.options.model_cache << 20
        object.__setattr__(self, "cache", ModelCache(folder, limit))

    @staticmethod
    def of(
        source: object,
        outputs: Sequence[str] | None,
        shapes: OpenShapes | None,
        options: Settings,
        images: Images | None = None,
    ) -> Cached | None:
        """Return the call; ``None`` where it is none that the cache serves.

        It serves files that have been left alone for a while and models in memory, on one device, where nothing but
        clgraph itself decides what is computed and nothing is to be seen or checked on the way.
        """
        if not options.model_cache:
            return None
        if options.placement or options.placement_fallback or options.placement_budget:
            return None
        if options.poison or options.verify_passes:
            return None
        if options.dump_graphs is not None or is_dry(options) or options.device == "host" or "," in options.device:
            return None
        if third_party() or (found := source_of(source)) is None:
            return None
        names = None if outputs is None else tuple(outputs)
        key = _key(names, shapes or {}, options, images or {})
        return Cached(found, names, shapes or {}, options, key, images or {})

    def model(self) -> Model | None:
        """Return the model, ready to run; ``None`` where the cache does not have it, or what it has is damaged."""
        return self._kept()

    def stage(self, compiler: Compiler, topology: Topology) -> Model:
        """Return the model of a stage: what was compiled of it before is not compiled again.

        Stages are entries of their own, because data decide which of them run, and on which types.
        """
        types = ",".join(str(s.dtype) for s in topology.inputs.values())
        entry = replace(self, key=f"{self.key} {topology.label} {types}")
        if (found := entry._kept(topology, compiler)) is not None:
            return found
        model = Model(topology, compiler.context.default, compiler.specialise)
        entry.keep_later(model)
        return model

    def _kept(self, stage: Topology | None = None, compiler: Compiler | None = None) -> Model | None:
        """Return the model in the cache, of a *stage* not prepared yet; *compiler* compiles what there is not."""
        content = self.source.content(self.cache)
        if content is None:
            return None
        entry = self.cache.entry(self.source.nbytes, content, self.key)
        if not self.cache.has(entry):
            return None
        try:
            contents = self._contents(entry, content)
            topology = self._topology(contents, content) if stage is None else stage
            keeper = Keeper(partial(self._write, topology))
            loader = Loader(contents, self.options, NOTE, partial(self._lose, entry, ref(keeper)), compiler)
            if not loader.fits():
                return None
            fixed = all(s.is_fixed for s in topology.inputs.values())
            model = loader.model(topology, prepared=fixed) if stage is None else loader.unprepared(topology)
        except (ModelError, OSError) as error:
            self._drop(entry, error)
            return None
        self.cache.note_use(entry)
        keeper.has(loader.held, loader.programs)
        model.when_compiled(keeper)
        return model

    def _topology(self, contents: Contents, content: str) -> Topology:
        """Return the topology of an entry, whose layers are read when another shape is to be compiled."""
        topology = read_topology(contents)
        assert isinstance(topology, SavedTopology)
        topology.read_by(self.source.reader(content, self.outputs, self.shapes, self.images))
        return topology

    def _lose(self, entry: Path, keeper: ReferenceType[Keeper], error: ModelError) -> None:
        """Drop a damaged *entry*, and have *keeper* forget it: that keeps alive who calls this."""
        self._drop(entry, error)
        if (found := keeper()) is not None:
            found.forget()

    def _drop(self, entry: Path, error: Exception) -> None:
        _log.warning("%s is compiled anew: the model cache: %s", self.source, error)
        with contextlib.suppress(OSError):
            self.cache.drop(entry)

    def _contents(self, entry: Path, content: str) -> Contents:
        contents = Contents(entry)
        if contents.header.get("kept_for") != kept_for(content, self.key):
            raise ModelError(f"{entry} was kept for something else")
        return contents

    def keep_later(self, model: Model) -> None:
        """Write what *model* compiles to the cache when the process has time for it, if it can be there."""
        files = files_of(model.topology.constants.values())
        if type(model) is Model and not model.topology.scattered and all(map(self.source.holds, files)):
            model.when_compiled(Keeper(partial(self._write, model.topology)))

    def _keep_binaries(self, programs: Sequence[Program]) -> None:
        """Keep binaries of the kernels of *programs* beside the model: a start then builds none of its text."""
        from clgraph.network.node_steps import kernel_texts

        for placement, engine in open_engines(self.options).items():
            if isinstance(engine, Engine):
                for program in programs:
                    engine.programs.keep_binaries(kernel_texts(program, placement))

    def _write(self, topology: Topology, made: Mapping[Key, Specialisation]) -> None:
        from clgraph.model.save import save_model

        try:
            content = self.source.learn(self.cache)
            programs = [s.program for s in made.values() if not s.bound]
            constants = (v.constant for program in programs for v in program.constants)
            size = sum(array.nbytes for array in constants if array is not None)
            if content is None or size > self.cache.limit or third_party():
                return
            entry = self.cache.entry(self.source.nbytes, content, self.key)
            save_model(topology, made, entry, kept_for=kept_for(content, self.key))
            self.cache.trim()
            self._keep_binaries([s.program for s in made.values()])
        except (ClgraphError, OSError) as error:
            _log.info("%s is not kept in the model cache: %s", self.source, error)


def _key(outputs: tuple[str, ...] | None, shapes: OpenShapes, options: Settings, images: Images) -> str:
    values = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in _NOT_IN_KEY}
    spelled = {n: sorted(v) if isinstance(v, frozenset) else str(v) for n, v in values.items()}
    bound = sorted((str(name), [str(size) for size in shape]) for name, shape in shapes.items())
    done = sorted((name, repr(p)) for name, p in images.items())
    code = _code(kernel_directories(), options.cache_dir)
    return json.dumps([__version__, code, outputs, bound, spelled, done], sort_keys=True)


@functools.cache
def _code(directories: tuple[Path, ...], cache_dir: Path) -> str:
    """Return a digest of all code that makes a program of a file: clgraph's, the kernels', the version of onnx."""
    package = Path(__file__).parents[1]
    with os.scandir(package) as entries:
        parts = sorted(e.path for e in entries if e.is_dir() and e.name not in (*_APART, "__pycache__"))
    digest = blake2(digest_of((*map(Path, parts), *directories), digests_in(cache_dir)).encode())
    files = sorted(package.glob("*.py"))
    onnx = importlib.util.find_spec("onnx")
    if onnx is not None and onnx.origin is not None:
        files.append(Path(onnx.origin).parent / "version.py")
    for file in files:
        digest.update(file.read_bytes() if file.is_file() else b"")
    return digest.hexdigest()
