"""Texts to tokens and back, by ``tokenizer.json`` and the package ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clgraph.errors import InputError, ModelError, OptionError

FILE = "tokenizer.json"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""What bytes become that are no character, or not yet."""


class Tokenizer:
    """The tokenizer of a folder."""

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer of *folder*.

        Raises:
            OptionError: The package ``tokenizers`` is not installed.
            ModelError: There is no ``tokenizer.json``, or it is none.
        """
        path = folder / FILE
        if not path.is_file():
            raise ModelError(
                f"{folder} has no {FILE}, which turns text into tokens: add it (in Python, prompts may be token ids)"
            )
        try:
            import tokenizers
        except ImportError as error:
            raise OptionError("tokenizers is not installed: pip install 'clgraph-opencl[generate]'") from error
        try:
            self._made: Any = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            raise ModelError(f"{path} is not a tokenizer: {' '.join(str(error).split())}") from error

    def encode(self, text: str, *, begin: bool = True) -> list[int]:
        """Return the tokens of *text*; with *begin*, with what the tokenizer puts around texts.

        Raises:
            InputError: The text has half a pair of surrogates, which bytes of another encoding become, or what the
                tokenizer has no token for.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"the prompt is not UTF-8 text, at character {error.start}") from error
        try:
            ids: list[int] = self._made.encode(text, add_special_tokens=begin).ids
        except Exception as error:  # tokenizers raises Exception itself
            raise InputError(f"the tokenizer cannot read the prompt: {' '.join(str(error).split())}") from error
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of *tokens*, without special ones; ids that it does not know are nothing."""
        text: str = self._made.decode(list(tokens), skip_special_tokens=True)
        return text


class DecodeStream:
    """Decodes the tokens of one text incrementally.

    A character may span several tokens, and the text of a token may depend on the one before it. Each new piece of text
    is therefore the difference of two decodings that start one piece earlier: with and without the tokens since the
    last piece. Nothing is returned while the decoding ends inside a character.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Start a text of *tokenizer*."""
        self._tokenizer = tokenizer
        self._tokens: list[int] = []
        self._start = self._known = 0

    def add(self, token: int) -> str:
        """Append *token* and return the text that it completes; empty inside a character."""
        self._tokens.append(token)
        return self._more(ended=False)

    def end(self) -> str:
        """Return the remaining text; bytes of an incomplete character become U+FFFD."""
        return self._more(ended=True)

    def _more(self, *, ended: bool) -> str:
        before = self._tokenizer.decode(self._tokens[self._start : self._known])
        text = self._tokenizer.decode(self._tokens[self._start :])
        if len(text) <= len(before) or (text.endswith(REPLACEMENT) and not ended):
            return ""
        self._start, self._known = self._known, len(self._tokens)
        return text[len(before) :]
