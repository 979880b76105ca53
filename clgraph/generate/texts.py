"""Texts as they are generated: tokens, pieces of text, and what became of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Literal

from clgraph.core.frozen import frozen
from clgraph.generate.decoding import DecoderSequence
from clgraph.generate.options import Options
from clgraph.generate.sampling import Sampler
from clgraph.generate.tokenizer import DecodeStream

Reason = Literal["end", "stop", "length"]
"""A token that the folder or the options name, a text of the options, or as many tokens as were asked for or fit."""


@frozen(kw_only=True)
class Generation:
    """What was generated.

    Attributes:
        text: Without what ended it; empty where there is no tokenizer.
        prompt, tokens: Ids; with the token that ended the text.
        reason: Why it is over; ``None`` while it is not.
        prompt_seconds: What the prompt took, compilation for its length included.
        seconds: What the tokens behind the first one took.
    """

    text: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    reason: Reason | None
    prompt_seconds: float
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Return how many tokens a second there were behind the first one; 0 where there was none."""
        return (len(self.tokens) - 1) / self.seconds if len(self.tokens) > 1 and self.seconds else 0.0


class TokenStream:
    """The tokens of one text, made as they are asked for.

    Attributes:
        tokens: Those there are.
        reason: As :class:`Generation`'s.
    """

    def __init__(
        self,
        reader: DecoderSequence,
        prompt: Sequence[int],
        options: Options,
        ends: frozenset[int],
        most: int | None,
        number: int,
    ) -> None:
        """Take a text that has not begun; *most* tokens fit behind the prompt."""
        self.prompt, self.tokens, self._seen = tuple(prompt), list[int](), list(prompt)
        self.reason: Reason | None = None
        self.prompt_seconds = self.seconds = 0.0
        self._reader, self._making = reader, self._make()
        reader.push(self.prompt)
        self._sampler = Sampler(options, number)
        self._ends = options.stop_tokens | (frozenset() if options.ignore_end else ends)
        self._most = min((n for n in (most, options.max_tokens) if n is not None), default=None)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        """Return the next token; there is none behind an error.

        Raises:
            GenerationError: The model's logits are no numbers.
            ClgraphError: The model does not run.
        """
        return next(self._making)

    def _make(self) -> Iterator[int]:
        while self.reason is None:
            start = time.perf_counter()
            token = self._sampler.choose(self._reader.logits(), self._seen)
            seconds = time.perf_counter() - start
            if self.tokens:
                self.seconds += seconds
            else:
                self.prompt_seconds = seconds
            self.tokens.append(token)
            self._seen.append(token)
            if token in self._ends:
                self.reason = "end"
            elif len(self.tokens) == self._most:
                self.reason = "length"
            else:
                self._reader.push((token,))
            yield token

    def stop(self) -> None:
        """Make no more tokens: a text of the options has occurred."""
        self.reason = "stop"


class TextStream:
    """An iterator of the pieces of one text, each as soon as it is known.

    A piece never ends inside a character, nor in what may become one of the options' *stop* texts.
    """

    def __init__(self, tokens: TokenStream, decode: DecodeStream, stop: Sequence[str]) -> None:
        """Take the tokens and what reads them."""
        self._tokens, self._decode, self._stop = tokens, decode, tuple(stop)
        self._text, self._held = "", ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next piece, not empty. Raises as :class:`TokenStream`."""
        while not self.over:
            if found := self.step():
                return found
        raise StopIteration

    def step(self) -> str:
        """Make one token; return the piece that is known with it, which may be empty. Raises as ``__next__``."""
        token = next(self._tokens)
        ended = self._tokens.reason
        piece = "" if ended == "end" else self._decode.add(token)
        if ended is not None:
            piece += self._decode.end()
        found = self._released(piece, ended=ended is not None)
        self._text += found
        return found

    @property
    def over(self) -> bool:
        """Whether there are no more pieces."""
        return self._tokens.reason is not None

    @property
    def result(self) -> Generation:
        """What there is so far; all of it when the iterator is at its end."""
        made = self._tokens
        return Generation(
            text=self._text,
            prompt=made.prompt,
            tokens=tuple(made.tokens),
            reason=made.reason,
            prompt_seconds=made.prompt_seconds,
            seconds=made.seconds,
        )

    def _released(self, piece: str, *, ended: bool) -> str:
        """Return what is known not to belong to a stop text; end the text in front of one that is there."""
        text = self._held + piece
        if places := [place for stop in self._stop if (place := text.find(stop)) >= 0]:
            self._tokens.stop()
            self._held = ""
            return text[: min(places)]
        held = 0 if ended else max((_begun(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]


def _begun(text: str, stop: str) -> int:
    """Return how many characters at the end of *text* begin *stop*."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
