"""Folders of exported language models: which file is the model, how it is fed, what ends a text.

Two kinds are read: those of ONNX Runtime GenAI, with ``genai_config.json``, and those of Hugging Face's Optimum, with
``config.json`` and perhaps ``generation_config.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clgraph.core.frozen import frozen
from clgraph.core.warn import warn
from clgraph.errors import ModelError, OptionError, UnsupportedError
from clgraph.generate.options import Options

GENAI, CONFIG, GENERATION = "genai_config.json", "config.json", "generation_config.json"
FILES = ("model.onnx", "onnx/model.onnx", "decoder_model.onnx")
"""Where Optimum's models lie in their folders."""


@frozen(kw_only=True)
class Names:
    """What a decoder's inputs and outputs are called; ``%d`` stands for the layer.

    Layers without attention carry the latest columns of a convolution, or what a recurrence has come to.
    """

    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"
    logits: str = "logits"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"
    past_conv_names: str = "past_conv.%d"
    present_conv_names: str = "present_conv.%d"
    past_recurrent_names: str = "past_recurrent.%d"
    present_recurrent_names: str = "present_recurrent.%d"
    past_ssm_names: str = "past_ssm.%d"
    present_ssm_names: str = "present_ssm.%d"


@frozen(kw_only=True)
class ModelFolder:
    """What a folder says about its model.

    Attributes:
        model: The ONNX file.
        longest: Most tokens of a text, prompt included; ``None`` where nothing is said.
        begin: The token that a text starts with, where there is one.
        ends: The tokens that end one.
        options: How the folder wants tokens to be chosen.
    """

    path: Path
    model: Path
    names: Names
    longest: int | None
    begin: int | None
    ends: frozenset[int]
    options: Options


def read_folder(path: Path) -> ModelFolder:
    """Return what the folder at *path* says.

    Raises:
        ModelError: There is no such folder, a file is missing, or one does not hold what it should.
        UnsupportedError: The model has parts besides a decoder.
    """
    if not path.is_dir():
        what = f"{path} is a file" if path.exists() else f"there is no folder {path}"
        raise ModelError(f"{what}; a language model is a folder with {GENAI} or {CONFIG}, a model and tokenizer.json")
    if (path / GENAI).is_file():
        return _of_genai(path, _Settings.read(path / GENAI))
    if (path / CONFIG).is_file():
        return _of_optimum(path, _Settings.read(path / CONFIG))
    raise ModelError(
        f"{path} has neither {GENAI} (of ONNX Runtime GenAI's builder) nor {CONFIG} (of Hugging Face's Optimum), which "
        "say how its model is used; export it with one of them"
    )


_NEUTRAL = {
    "num_beams": 1.0,
    "num_return_sequences": 1.0,
    "no_repeat_ngram_size": 0.0,
    "min_length": 0.0,
    "min_new_tokens": 0.0,
    "min_p": 0.0,
    "typical_p": 1.0,
}
"""Settings that are not followed, by the value with which they change no token."""


@frozen
class _Settings:
    """A part of a JSON file.

    Attributes:
        where: The file, and the place in it.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def read(cls, path: Path) -> _Settings:
        """Return the content of *path*; raises ``ModelError`` where that is no JSON object."""
        try:
            values = json.loads(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError, RecursionError) as error:
            raise ModelError(f"{path} cannot be read as JSON: {error}") from error
        if not isinstance(values, dict):
            raise ModelError(f"{path} holds no JSON object but {type(values).__name__}")
        return cls(values, str(path))

    def part(self, name: str) -> _Settings:
        """Return the object *name*, an empty one where it is missing."""
        return _Settings(self._get(name, dict, "an object") or {}, f"{self.where}: {name}")

    def required(self, name: str) -> _Settings:
        """Return the object *name*; raises ``ModelError`` where it is missing."""
        if name not in self.values:
            raise ModelError(f"{self.where} has no {name}, which describes how the model is used: export it again")
        return self.part(name)

    def count(self, name: str) -> int | None:
        """Return the number *name* of tokens; 0 says nothing."""
        found = self.integer(name)
        if found is not None and found < 0:
            raise ModelError(f"{self.where}: {name} is {found}, not a number of tokens")
        return found

    def integer(self, name: str) -> int | None:
        """Return the integer *name*."""
        found: int | None = self._get(name, int, "an integer")
        return found

    def number(self, name: str, default: float) -> float:
        """Return the number *name*."""
        found = self._get(name, (int, float), "a number")
        try:
            return default if found is None else float(found)
        except OverflowError as error:
            raise ModelError(f"{self.where}: {name} has {len(str(found))} digits, more than a number has") from error

    def text(self, name: str, default: str) -> str:
        """Return the text *name*."""
        found: str | None = self._get(name, str, "a text")
        return default if found is None else found

    def tokens(self, name: str) -> frozenset[int]:
        """Return the ids *name*: one, a list or none."""
        found = self._get(name, (int, list), "a token's id or a list of them")
        several = found if isinstance(found, list) else [] if found is None else [found]
        if any(type(token) is not int for token in several):
            raise ModelError(f"{self.where}: {name} is {several!r}, not a token's id or a list of them")
        return frozenset(several)

    def flag(self, name: str) -> bool:
        """Return the truth value *name*."""
        return bool(self._get(name, bool, "true or false"))

    def options(self) -> Options:
        """Return how tokens are to be chosen; those of greedy folders where nothing is said."""
        drawn = self.flag("do_sample")
        ignored = {name: found for name, plain in _NEUTRAL.items() if (found := self.number(name, plain)) != plain}
        if ignored:
            said = ", ".join(f"{name} {found:g}" for name, found in ignored.items())
            warn(f"{self.where}: {said}: clgraph chooses tokens one by one, without this")
        try:
            return Options(
                max_tokens=self.integer("max_new_tokens"),
                temperature=self.number("temperature", 1.0) if drawn else 0.0,
                top_k=self.integer("top_k") or 0,
                top_p=self.number("top_p", 1.0),
                repetition_penalty=self.number("repetition_penalty", 1.0),
            )
        except OptionError as error:
            raise ModelError(f"{self.where}: {error}") from error

    def _get(self, name: str, types: Any, wanted: str) -> Any:
        found = self.values.get(name)
        if found is not None and (not isinstance(found, types) or (isinstance(found, bool) and types is not bool)):
            raise ModelError(f"{self.where}: {name} is {found!r}, not {wanted}")
        return found


def _of_genai(path: Path, settings: _Settings) -> ModelFolder:
    about, search = settings.required("model"), settings.part("search")
    if others := [name for name in ("encoder", "vision", "speech", "embedding") if name in about.values]:
        raise UnsupportedError(f"{path} has {others[0]} besides its decoder: only models of text alone are run")
    decoder = about.required("decoder")
    if "pipeline" in decoder.values:
        raise UnsupportedError(f"{path} is a pipeline of several models: only decoders of one file are run")
    defaults, parts = Names(), (decoder.part("inputs"), decoder.part("outputs"))
    given = {
        name: part.text(name, getattr(defaults, name))
        for part in parts
        for name in part.values
        if name in Names.__dataclass_fields__
    }
    lengths = [n for n in (about.count("context_length"), search.count("max_length")) if n]
    return ModelFolder(
        path=path,
        model=_file(path, (decoder.text("filename", "model.onnx"),)),
        names=Names(**given),
        longest=min(lengths, default=None),
        begin=about.integer("bos_token_id"),
        ends=about.tokens("eos_token_id"),
        options=search.options(),
    )


def _of_optimum(path: Path, config: _Settings) -> ModelFolder:
    if config.flag("is_encoder_decoder"):
        raise UnsupportedError(
            f"{config.where} is of a model with an encoder: only decoders alone are run; compile its files one by one"
        )
    generation = _Settings.read(path / GENERATION) if (path / GENERATION).is_file() else _Settings({}, GENERATION)
    begin = generation.integer("bos_token_id")
    return ModelFolder(
        path=path,
        model=_file(path, FILES),
        names=Names(),
        longest=config.count("max_position_embeddings") or config.count("n_positions"),
        begin=config.integer("bos_token_id") if begin is None else begin,
        ends=generation.tokens("eos_token_id") or config.tokens("eos_token_id"),
        options=generation.options(),
    )


def _file(path: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (path / name).is_file():
            return path / name
    raise ModelError(f"{path} has no model: there is no {' and no '.join(names)}")
