"""Texts cut into words or letters: ONNX Runtime's Tokenizer, which converters of text pipelines write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from clgraph.core.frozen import frozen
from clgraph.core.memo import Remembering, remembered
from clgraph.errors import ShapeError
from clgraph.graph.importing import MICROSOFT, OnnxNode, onnx
from clgraph.graph.primitive import Array, OfHostValues, Primitive, primitive
from clgraph.ops.patterns import compiled, translated

BEGIN, END = "\x02", "\x03"
"""What stands around the tokens of a text that are marked."""


@primitive
@frozen
class Tokenizer(OfHostValues, Remembering):
    """The tokens of every text of x ``[C]`` or ``[N, C]``, as ``[..., most tokens]``, filled up.

    Attributes:
        separators: Patterns of RE2 to cut at, one after the other; what is left in between are the tokens. One that is
            empty cuts between any two letters.
        expression: The pattern that tokens match; ``""`` where there are separators.
        fewest: Letters; what has fewer is not a token.
        filling: What is put behind the tokens of texts that have fewer than others.
        mark: Whether a letter 2 stands in front of each text's tokens and a 3 behind them, where any text has tokens.
    """

    separators: tuple[str, ...] = ()
    expression: str = ""
    fewest: int = 1
    filling: str = ""
    mark: bool = False

    kind: ClassVar[str] = "tokenizer"

    def reference(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        if x.ndim not in (1, 2):
            raise ShapeError(f"texts {list(x.shape)} are neither [C] nor [N, C]")
        tokens_of = _cutter(self)
        long_enough = None if self.fewest == 1 else lambda token: len(token) >= self.fewest
        found = [list(filter(long_enough, tokens_of(text))) for text in x.ravel().tolist()]
        most = max(map(len, found), default=0)
        if self.mark and most:
            found, most = [[BEGIN, *tokens, END] for tokens in found], most + 2
        y = np.full((x.size, most), self.filling, object)
        for row, tokens in zip(y, found, strict=True):
            row[: len(tokens)] = tokens
        return (y.reshape(*x.shape, most),)


@remembered
def _cutter(of: Tokenizer) -> Callable[[str], Iterable[str]]:
    """Return what yields the tokens of a text, and empty texts."""
    if of.separators == ("",) or (of.expression == "." and not of.separators):
        return iter
    patterns = [re.compile(translated(p)) for p in of.separators or (of.expression,)]
    first = patterns[0]
    if len(patterns) == 1 and not first.groups and not has_ways(first.pattern):
        return first.split if of.separators else first.findall
    return partial(_cut, separators=patterns) if of.separators else partial(_matches, pattern=first)


def _cut(text: str, separators: list[re.Pattern[str]]) -> Iterator[str]:
    if not separators:
        yield text
        return
    start = 0
    for begin, end in _places(text, separators[0]):
        yield from _cut(text[start:begin], separators[1:])
        start = end
    yield from _cut(text[start:], separators[1:])


def _matches(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    for begin, end in _places(text, pattern):
        yield text[begin:end]


def _places(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Yield where *pattern* matches, the longest matches first, where Python takes the first of several ways."""
    at, may_be_longer = 0, has_ways(pattern.pattern)
    while at <= len(text) and (found := pattern.search(text, at)) is not None:
        begin, end = found.span()
        if may_be_longer:
            end = next((e for e in range(len(text), end, -1) if pattern.fullmatch(text, begin, e)), end)
        yield begin, end
        at = end + (end == begin)


def has_ways(pattern: str) -> bool:
    """Whether *pattern* may match texts of several lengths of which Python does not take the longest."""
    return "|" in pattern or re.search(r"[*+?}]\?", pattern) is not None


@onnx("Tokenizer", since=(1,), domain=MICROSOFT)
def import_tokenizer(node: OnnxNode) -> Primitive:
    separators, expression = tuple(node.attribute("separators", ())), node.attribute("tokenexp", "")
    fewest = node.attribute("mincharnum", 1)
    if not separators and not expression:
        raise node.unsupported("separators or tokenexp say what tokens are: there is neither")
    if fewest < 1:
        raise node.unsupported(f"mincharnum is {fewest}; it must be at least 1")
    letters = separators == ("",)
    if fewest > 1 and (letters or expression == "."):
        raise node.unsupported(f"letters are one letter long, mincharnum is {fewest}")
    for text in () if letters else separators or (expression,):
        pattern = compiled(text, node)
        if separators and pattern.match("") is not None:
            raise node.unsupported(f"the separator {text!r} matches between any two letters")
        if has_ways(pattern.pattern) and re.search(r"\\[bBZ]|\$", pattern.pattern) is not None:
            raise node.unsupported(f"pattern {text!r} has alternatives and asks for what is behind them")
    pad, mark = node.attribute("pad_value", ""), bool(node.attribute("mark", 0))
    return Tokenizer(separators, expression, fewest, pad, mark)
