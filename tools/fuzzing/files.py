"""clgraph's own files, damaged: saved models, dumps, entries of the model cache, tuning. One error, or made anew.

Bytes are changed as they lie. Where there is JSON its values are changed too, and the checksum of a saved model's
header is made to fit again, so that what reads it is reached; such a model is loaded but not run: a saved model is a
program, and one that is forged with care may do what it likes.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import clgraph
from clgraph.compilation import cache_files, keeper
from clgraph.engines.opening import tuning_identity
from clgraph.errors import ClgraphError
from clgraph.runtime.device import find_device
from clgraph.saved.container import _HEAD, ALIGNMENT, MAGIC, VERSION
from clgraph.selector.costs import shipped
from clgraph.selector.tuning import Tuning, write_tuning
from tools.fuzzing.damage import damaged
from tools.fuzzing.judging import Array, Outcome, judged, place
from tools.fuzzing.seeds import networks

Random = np.random.Generator

VALUES = (None, True, 0, -1, 1, 2**31, 2**63, 1e300, "", "x", [], {}, [[]], -(2**63), "0" * 300)
"""What values of JSON become."""


class Files:
    """A small network in every form that clgraph keeps it in.

    Attributes:
        folder: Where the files lie.
    """

    def __init__(self, folder: Path, device: str) -> None:
        """Compile, save and dump it."""
        self.folder, self.device = folder, device
        seed = networks()[0]
        self.feeds = dict(seed.feeds)
        self.model = folder / "model.onnx"
        onnx.save(seed.model, self.model)
        dumps = {"dump_graphs": folder / "dumps", "dump_data": True, "model_cache": 0}
        with clgraph.compile(self.model, device, config=dumps) as model:
            self.wanted = model.run(self.feeds)
            model.save(folder / "model.clg")
        self.saved = (folder / "model.clg").read_bytes()
        found = sorted((folder / "dumps").glob("[0-9]*.json"))
        self.dumps = [found[0], found[len(found) // 2], found[-1]]
        identity = tuning_identity(find_device(device))
        write_tuning(folder / "tuning.json", identity, Tuning(shipped("cpu"), {"[]": {"matmul.ref": 1e-3}}))
        self.tuning = (folder / "tuning.json").read_bytes()
        self.entry = self._fill_cache()
        self.kept = self.entry.read_bytes()

    def judge(self, random: Random) -> tuple[str, Outcome]:
        """Damage one file; return its kind and what became of that."""
        kind = str(random.choice(list(KINDS)))
        try:
            return kind, KINDS[kind](self, random)
        except ClgraphError as error:
            return kind, judged(error)
        except Exception as error:  # anything else must not come out of clgraph: that is what is looked for
            return kind, Outcome("raised", f"{place(error)} {type(error).__name__}: {error}")

    def compile(self, **config: Any) -> clgraph.Model:
        """Compile the network with a cache of its own."""
        return clgraph.compile(self.model, self.device, cache_dir=self.folder / "cache", config=config)

    def equal(self, results: Mapping[str, Array]) -> bool:
        """Return whether *results* are the undamaged network's."""
        same = results.keys() == self.wanted.keys()
        return same and all(np.array_equal(results[name], array) for name, array in self.wanted.items())

    def _fill_cache(self) -> Path:
        time.sleep(1.25 * cache_files.SETTLED_SECONDS)  # models in files that were written just now are not kept
        waits = keeper.Later.start
        keeper.Later.start = keeper.Later.finish  # type: ignore[method-assign]
        try:
            self.compile(model_cache=64).close()
        finally:
            keeper.Later.start = waits  # type: ignore[method-assign]
        (entry,) = (self.folder / "cache" / "compiled").glob("*.clg")
        return entry


@cache
def files_of(device: str) -> Files:
    """Return the files, made once a process in a folder that stays until it ends."""
    folder = tempfile.TemporaryDirectory(prefix="clgraph-fuzz-")
    made = Files(Path(folder.name), device)
    made.owner = folder  # type: ignore[attr-defined]
    return made


def _saved(files: Files, random: Random) -> Outcome:
    """Flip, cut or repeat bytes of a saved model, load and run it."""
    return _run_saved(files, damaged(files.saved, random))


def _run_saved(files: Files, data: bytes) -> Outcome:
    path = files.folder / "damaged.clg"
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    with clgraph.load(path, files.device) as model:
        results = model.run(files.feeds)
    # Large arrays of floats have no checksum that is looked at: other bytes there are other weights.
    return Outcome("equal" if files.equal(results) else "other weights")


def _header(files: Files, random: Random) -> Outcome:
    """Change values of a saved model's header behind its checksum, and load it."""
    magic, version, _, size, _, _ = _HEAD.unpack(files.saved[: _HEAD.size])
    assert (magic, version) == (MAGIC, VERSION)
    header = json.loads(files.saved[_HEAD.size : _HEAD.size + size])
    text = json.dumps(changed(header, random)).encode()
    blobs = files.saved[_HEAD.size + size + -size % ALIGNMENT :]
    filled = text + bytes(-len(text) % ALIGNMENT)
    total = _HEAD.size + len(filled) + len(blobs)
    head = _HEAD.pack(MAGIC, VERSION, 0, len(text), total, hashlib.sha256(text).digest())
    path = files.folder / "forged.clg"
    path.unlink(missing_ok=True)
    path.write_bytes(head + filled + blobs)
    clgraph.load(path, files.device).close()
    return Outcome("loaded")


def _dump(files: Files, random: Random) -> Outcome:
    """Change bytes or values of a dump, load it and run it by the references."""
    source = files.dumps[int(random.integers(len(files.dumps)))]
    data = source.read_bytes()
    data = damaged(data, random) if random.random() < 0.3 else json.dumps(changed(json.loads(data), random)).encode()
    path = source.with_name("damaged.json")
    path.write_bytes(data)
    with clgraph.load_dump(path) as model:
        results = model.run(files.feeds)
    return Outcome("equal" if files.equal(results) else "another program")


def _constants(files: Files, random: Random) -> Outcome:
    """Change bytes of a dump's constants."""
    source = files.dumps[0]
    (folder,) = source.parent.glob("constants")
    path = sorted(folder.iterdir())[int(random.integers(len(list(folder.iterdir()))))]
    before = path.read_bytes()
    try:
        path.write_bytes(damaged(before, random))
        with clgraph.load_dump(source) as model:
            results = model.run(files.feeds)
    finally:
        path.write_bytes(before)
    return Outcome("equal" if files.equal(results) else "other weights")


def _cache(files: Files, random: Random) -> Outcome:
    """Change bytes of an entry of the model cache: it is found out, or is as good as before."""
    files.entry.unlink(missing_ok=True)
    files.entry.write_bytes(damaged(files.kept, random))
    with files.compile(model_cache=64) as model:
        results = model.run(files.feeds)
        taken = any("model cache" in note for note in model.notes)
    if files.equal(results):
        return Outcome("equal", "out of the cache" if taken else "made anew")
    return Outcome("other weights" if taken else "differs", "of a damaged entry of the model cache")


def _image(files: Files, random: Random) -> Outcome:
    """Change bytes of the image of an entry: it is found out, and made anew."""
    files.entry.unlink(missing_ok=True)
    files.entry.write_bytes(files.kept)
    image = files.entry.with_suffix(".image")
    if not image.exists():
        files.compile(model_cache=64).close()
    before = image.read_bytes()
    image.unlink()
    image.write_bytes(damaged(before, random))
    with files.compile(model_cache=64) as model:
        results = model.run(files.feeds)
    return Outcome("equal" if files.equal(results) else "differs", "of a damaged image")


def _tuning(files: Files, random: Random) -> Outcome:
    """Change bytes or values of a tuning file."""
    data = files.tuning
    data = damaged(data, random) if random.random() < 0.3 else json.dumps(changed(json.loads(data), random)).encode()
    path = files.folder / f"tuning-{random.integers(2**40)}.json"
    path.write_bytes(data)
    try:
        with files.compile(model_cache=0, tuning=str(path)) as model:
            results = model.run(files.feeds)
    finally:
        path.unlink()
    close = all(np.allclose(results[name], array, 1e-4, 1e-5) for name, array in files.wanted.items())
    return Outcome("equal" if close else "differs", "" if close else "a tuning changes results")


KINDS: dict[str, Callable[[Files, Random], Outcome]] = {
    "saved": _saved,
    "header": _header,
    "dump": _dump,
    "constants": _constants,
    "cache": _cache,
    "image": _image,
    "tuning": _tuning,
}


def changed(value: Any, random: Random) -> Any:
    """Return JSON after one or two changes of a value somewhere in it."""
    made = copy.deepcopy(value)
    for _ in range(int(random.integers(1, 3))):
        places = list(_places(made))
        container, key = places[int(random.integers(len(places)))]
        choice = random.random()
        if choice < 0.15:
            del container[key]
        elif choice < 0.25 and isinstance(container, list):
            container.insert(key, copy.deepcopy(container[key]))
        elif choice < 0.5 and isinstance(container[key], int | float):
            container[key] = container[key] + int(random.integers(-3, 4))
        elif choice < 0.6 and isinstance(container[key], list) and len(container[key]) > 1:
            container[key].reverse()
        else:
            container[key] = copy.deepcopy(VALUES[int(random.integers(len(VALUES)))])
        if not made:
            break
    return made


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)
