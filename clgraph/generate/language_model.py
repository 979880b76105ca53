"""A language model: a compiled decoder with the tokenizer and settings of its folder."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any

from clgraph.errors import InputError, OptionError
from clgraph.generate.batch import readers
from clgraph.generate.chat import Message, chat_text
from clgraph.generate.decoding import DecoderSequence, Decoding
from clgraph.generate.feeding import feeding_of, vocabulary_of
from clgraph.generate.folder import ModelFolder, read_folder
from clgraph.generate.options import Options
from clgraph.generate.texts import Generation, TextStream, TokenStream
from clgraph.generate.tokenizer import DecodeStream, Tokenizer
from clgraph.model.model import Model

Prompt = str | Sequence[int]
"""A text, which the tokenizer reads, or the ids of its tokens."""


def load(
    folder: str | os.PathLike[str],
    device: str = "auto",
    *,
    threads: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> LanguageModel:
    """Return the language model of a folder that ONNX Runtime GenAI's builder or Hugging Face's Optimum has written.

    Args:
        folder: Has ``genai_config.json``, or ``config.json`` and perhaps ``generation_config.json``; the model; and
            ``tokenizer.json``, unless prompts are ids.
        device, threads, cache_dir, config: As :func:`clgraph.compile` has them.

    Raises:
        ModelError: A file is missing or does not hold what it should.
        UnsupportedError: The model is no decoder of text with a cache, or has operators that are not there.
        ClgraphError: The device or an option is wrong.
    """
    from clgraph.compilation.entry import compile_model

    found = read_folder(Path(folder))
    model = compile_model(found.model, device, threads=threads, cache_dir=cache_dir, config=config)
    return LanguageModel(found, model)


class LanguageModel:
    """A decoder with the tokenizer and the settings of its folder.

    Attributes:
        folder: What its folder says; ``folder.options`` are used where a call gives none.
        model: The compiled decoder.
    """

    def __init__(self, folder: ModelFolder, model: Model) -> None:
        """Take what a folder says and its model, compiled. Raises ``UnsupportedError`` where that is no decoder."""
        self.folder, self.model = folder, model
        self._feeding = feeding_of(model, folder.names)
        self._vocabulary = vocabulary_of(model, self._feeding)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer. Raises ``ModelError`` where there is none, ``OptionError`` without its package."""
        return Tokenizer(self.folder.path)

    def stream(self, prompt: Prompt, options: Options | None = None) -> TextStream:
        """Return the pieces of the text behind *prompt*, made as they are asked for.

        Raises:
            InputError: The prompt has no token, one that is none, or more than the model reads.
            OptionError: *options* are none.
            ModelError: The tokenizer is missing. The iterator raises as :class:`TextStream`.
        """
        return self._stream(prompt, self._options(options), 0)

    def generate(self, prompt: Prompt, options: Options | None = None) -> Generation:
        """Return the text behind *prompt*. Raises as :meth:`stream` and its iterator."""
        return _drained(self.stream(prompt, options))

    def stream_all(self, prompts: Sequence[Prompt], options: Options | None = None) -> Iterator[tuple[int, str]]:
        """Return pieces of the texts behind several prompts, each with its prompt's number, in turn.

        They are a batch of one program where the model can pad them, else take turns; each gets the tokens that it gets
        alone, and ends by itself. Texts of one seed draw apart.

        Raises:
            As :meth:`stream`.
        """
        return _in_turn(self._streams(prompts, options))

    def generate_all(self, prompts: Sequence[Prompt], options: Options | None = None) -> list[Generation]:
        """Return the texts behind several prompts. Raises as :meth:`stream_all`."""
        streams = self._streams(prompts, options)
        for _ in _in_turn(streams):
            pass
        return [stream.result for stream in streams]

    def tokens(self, prompt: Sequence[int], options: Options | None = None) -> TokenStream:
        """Return the tokens behind those of *prompt*, made as they are asked for; no tokenizer is needed.

        Raises:
            InputError: As :meth:`stream`.
        """
        return self._tokens(self._ids(prompt), self._options(options), 0)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Return the prompt for an answer to *messages*, by the folder's chat template.

        Raises:
            ModelError: The folder has no template or tokenizer.
            OptionError: The packages of the extra ``generate`` are not installed.
        """
        text = chat_text(self.folder.path, messages)
        return self.tokenizer.encode(text, begin=False)

    def _streams(self, prompts: Sequence[Prompt], options: Options | None) -> list[TextStream]:
        every, options = [self._ids(prompt) for prompt in prompts], self._options(options)
        found = readers(self.model, self._feeding, every)
        return [self._stream(ids, options, i, found[i] if found else None) for i, ids in enumerate(every)]

    def _stream(
        self, prompt: Prompt, options: Options, number: int, reader: DecoderSequence | None = None
    ) -> TextStream:
        tokens = self._tokens(self._ids(prompt), options, number, reader)
        return TextStream(tokens, DecodeStream(self.tokenizer), options.stop)

    def _options(self, options: Options | None) -> Options:
        """Return *options*, those of the folder where there are none."""
        if options is not None and not isinstance(options, Options):
            raise OptionError(f"options are clgraph.generate.Options(...), not {reprlib.repr(options)}")
        return options or self.folder.options

    def _ids(self, prompt: Prompt) -> list[int]:
        """Return the tokens of *prompt*, which the model can read."""
        given = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        try:
            ids, longest = [index(token) for token in given], self.folder.longest
        except TypeError as error:
            raise InputError(f"a prompt is a text or a list of token ids, not {reprlib.repr(prompt)}") from error
        if not ids and self.folder.begin is not None:
            ids = [self.folder.begin]
        if not ids:
            raise InputError("the prompt has no token, and the model's folder names none that texts begin with")
        if odd := [token for token in ids if token < 0 or (self._vocabulary and token >= self._vocabulary)]:
            why = ": the tokenizer in its folder is another model's" if isinstance(prompt, str) else ""
            has = f"ids begin at 0, and the model has {self._vocabulary}{why}"
            raise InputError(f"the prompt has a token {odd[0]}; {has}")
        if longest is not None and len(ids) >= longest:
            raise InputError(
                f"the prompt has {len(ids)} tokens and the model's longest text {longest}: shorten it, to leave room "
                "for an answer"
            )
        return ids

    def _tokens(
        self, ids: list[int], options: Options, number: int, reader: DecoderSequence | None = None
    ) -> TokenStream:
        most = None if self.folder.longest is None else self.folder.longest - len(ids)
        reader = reader or Decoding(self.model, self._feeding)
        return TokenStream(reader, ids, options, self.folder.ends, most, number)


def _drained(stream: TextStream) -> Generation:
    for _ in stream:
        pass
    return stream.result


def _in_turn(streams: Sequence[TextStream]) -> Iterator[tuple[int, str]]:
    """Return the pieces of *streams*, of which each makes one token in turn, as those of a batch must."""
    running = dict(enumerate(streams))
    while running:
        for number, stream in list(running.items()):
            if piece := stream.step():
                yield number, piece
            if stream.over:
                del running[number]
