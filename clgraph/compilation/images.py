"""Images of files of compiled models: in the model cache, what a fresh process binds in place of their programs.

The image of a file, an entry of the cache or a model that was saved, has the format of saved models
(:mod:`clgraph.saved.container`). Its header says what the file is for and how that begins, the circumstances of its
program, and either ``none``, why there is no image, or the image of its network. Constants lie in the file, which stays
mapped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clgraph.core.digests import blake2
from clgraph.core.log import Log
from clgraph.core.well_formed import well_formed
from clgraph.engines.opening import device_infos, open_engines
from clgraph.engines.option_checks import ANNOTATIONS
from clgraph.errors import ClgraphError, ModelError, NoImageError
from clgraph.handlers import pass_on
from clgraph.model.model import Model
from clgraph.network.image import run_of
from clgraph.runtime.engine import Engine
from clgraph.saved.circumstances import circumstances
from clgraph.saved.container import Contents, identity_of, map_file

if TYPE_CHECKING:
    from clgraph.core.mapped import MappedFile
    from clgraph.graph.fed_indices import FedIndices
    from clgraph.network.network import Network
    from clgraph.network.quick import QuickRun
    from clgraph.runtime.host import HostEngine
    from clgraph.selector.query import DeviceInfo
    from clgraph.settings import Settings

_log = Log(__name__)

Engines = Mapping[str, "Engine | HostEngine"]


class Image:
    """What the image of a file runs, and what a model tells without its program.

    Attributes:
        file: The file, mapped.
        device: What it runs on.
        inputs: The names of the model's inputs, in order; ``indices`` those whose elements pick from constants.
    """

    def __init__(self, contents: Contents, file: MappedFile, engine: Engine, device: DeviceInfo) -> None:
        """Bind what *contents* hold; raises as :func:`clgraph.network.image.run_of`, ``ModelError`` if damaged."""
        self.file, self.device = file, device
        with well_formed(contents.path):
            header = contents.header
            self.inputs = tuple(header["inputs"])
            self.indices = _indices(header["indices"])
            self.quick: QuickRun = run_of(header["image"], contents.raw, file, engine)


def _indices(rows: Sequence[Any]) -> tuple[FedIndices, ...]:
    if not rows:
        return ()
    from clgraph.graph.fed_indices import FedIndices  # few models pick from constants

    return tuple(FedIndices(*row) for row in rows)


def read_image(path: Path, of: Path | MappedFile, kept_for: str, options: Settings) -> Image | None:
    """Return the image at *path*, which whoever asks trusts, of the file *of*, at a path or mapped.

    ``None`` where it does not fit or is damaged: it will be made anew. Raises as opening the devices does.
    """
    engines = open_engines(options)
    devices = device_infos(engines, options)
    try:
        contents, file = Contents(path), map_file(of) if isinstance(of, Path) else of
        header = contents.header
        found = [header.get(name) for name in ("kept_for", "entry", "circumstances")]
        if found != [kept_for, identity_of(file), told(engines, devices, options)] or "none" in header:
            return None
        engine, device = engines[header["image"]["placement"]], next(iter(devices.values()))
        return Image(contents, file, engine, device) if isinstance(engine, Engine) else None
    except (ClgraphError, LookupError) as error:
        pass_on(error)
        _log.info("%s is not used: %s", path, error)
        return None


def keep_image(path: Path, contents: Contents, kept_for: str, options: Settings, model: Model) -> bool:
    """Keep the image of *model*, just loaded out of the file with *contents*; else why there is none.

    Returns whether anything was written. What cannot be costs the next start, no more.
    """
    if type(model) is not Model or not model.is_static or options.memory_limit:
        return False
    devices = next(iter(model.compiled.values())).devices
    here = told(open_engines(options), devices, options)
    try:
        if _has_answer(path, contents, kept_for, here):
            return False
        _write(path, contents, kept_for, here, model)
    except ClgraphError as error:
        _log.info("%s: no image is kept: %s", contents.path, error)
        return False
    return True


def _has_answer(path: Path, contents: Contents, kept_for: str, here: str) -> bool:
    """Whether the file at *path* says why there is no image of that with *contents* under circumstances *here*."""
    try:
        header = Contents(path).header if path.is_file() else {}
    except ModelError:
        return False
    found = [header.get(name) for name in ("kept_for", "entry", "circumstances")]
    return "none" in header and found == [kept_for, contents.identity, here]


def _write(path: Path, contents: Contents, kept_for: str, here: str, model: Model) -> None:
    from clgraph.network.imaging import image_of
    from clgraph.saved.container import Blobs

    blobs = Blobs()
    header: dict[str, Any] = {"kept_for": kept_for, "entry": contents.identity, "circumstances": here}
    try:
        network = _only_network(model)
        header["image"] = image_of(network, contents.file, blobs.add)
        header["inputs"] = list(model.input_names)
        header["indices"] = [[i.name, i.size, i.layer] for i in model.topology.indices]
    except NoImageError as error:
        if not error.lasts:
            return
        header["none"] = str(error)
        _log.info("%s has no image: %s", contents.path, error)
    blobs.write(path, header, in_cache=True, all_checked=True)


def _only_network(model: Model) -> Network:
    """Return what runs *model*, which answers every run with feeds of its only shapes alike."""
    made = list(model.compiled.values())
    if len(made) != 1 or (network := made[0].network) is None:
        raise NoImageError("it is not one program")
    if ANNOTATIONS in made[0].notes:
        raise NoImageError("annotations of it did nothing, of which every load warns")
    if not model.runs_alike:
        raise NoImageError("a run depends on more than the shapes of what is fed")
    return network


def told(engines: Engines, devices: Mapping[str, DeviceInfo], options: Settings) -> str:
    """Return what stands for the circumstances of a program and of the binaries that it runs."""
    found = [circumstances(devices, options), *sorted([*sorted(info.features)] for info in devices.values())]
    labels = [engine.device.label for engine in engines.values() if isinstance(engine, Engine)]
    return blake2(json.dumps([found, labels], sort_keys=True).encode()).hexdigest()
