from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from clgraph.errors import InputError, ModelError
from clgraph.generate.chat import Message, chat_text
from clgraph.generate.options import Options
from clgraph.generate.texts import TextStream, TokenStream
from clgraph.generate.tokenizer import DecodeStream, Tokenizer
from tests.support.decoder_folder import CHAT_TEMPLATE, tokenizer

TEXT = "Im Café roch es nach 東京 \N{SNOWMAN}, und Schnee \N{KISSING CAT FACE WITH CLOSED EYES} lag."


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("words")
    tokenizer(320).save(str(folder / "tokenizer.json"))
    return Tokenizer(folder)


class Recited:
    """A model whose greatest logits spell given tokens."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.left = list(tokens)
        self.read: list[int] = []
        self.pushed: Sequence[int] = ()

    def push(self, tokens: Sequence[int]) -> None:
        self.pushed = tokens

    def logits(self) -> np.ndarray:
        self.read += self.pushed
        logits = np.zeros(320, np.float32)
        logits[self.left.pop(0)] = 1
        return logits


def stream(words: Tokenizer, text: str, ends: frozenset[int] = frozenset({2}), **options: object) -> TextStream:
    ids = [*words.encode(text, begin=False), 2, 40, 41]
    chosen = Options(**options)  # type: ignore[arg-type]  # fields of Options
    tokens = TokenStream(Recited(ids), [1, 9], chosen, ends, 400, 0)
    return TextStream(tokens, DecodeStream(words), chosen.stop)


def test_pieces_are_the_text_and_none_ends_inside_a_character(words):
    found = stream(words, TEXT)
    pieces = list(found)
    assert "".join(pieces) == TEXT == found.result.text
    assert all(pieces)
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert len(pieces) > len(TEXT) / 3
    assert found.result.reason == "end"
    assert found.result.tokens[-1] == 2
    assert list(found) == []


def test_bytes_that_are_no_character_are_replaced_in_the_end(words):
    ids = words.encode("東", begin=False)[:-1]
    pieces = DecodeStream(words)
    assert [pieces.add(token) for token in ids] == [""] * len(ids)
    assert pieces.end() == words.decode(ids) == "\N{REPLACEMENT CHARACTER}"


def test_characters_of_byte_tokens_wait_for_their_last_byte(tmp_path):
    from tokenizers import Tokenizer as Made
    from tokenizers import decoders, models

    vocabulary = {"<unk>": 0} | {f"<0x{i:02X}>": i + 1 for i in range(256)} | {"▁a": 257}
    made = Made(models.BPE(vocabulary, [], byte_fallback=True, unk_token="<unk>"))
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.save(str(tmp_path / "tokenizer.json"))
    pieces, euro = DecodeStream(Tokenizer(tmp_path)), [b + 1 for b in "€".encode()]
    got = [pieces.add(token) for token in [257, 257, *euro, *euro, 257]]
    assert got == ["a", " a", "", "", "€", "", "", "€", " a"]


@pytest.mark.parametrize(
    ("stop", "want"),
    [
        (("roch",), "Im Café "),
        (("nowhere", "京 \N{SNOWMAN}, u"), "Im Café roch es nach 東"),
        (("nach 東X", "es"), "Im Café roch "),
        (("Schnee, ", "lag"), TEXT[: TEXT.index("lag")]),
        (("Im",), ""),
    ],
)
def test_a_text_ends_in_front_of_a_stop_text_and_shows_nothing_of_it(words, stop, want):
    found = stream(words, TEXT, stop=stop)
    assert "".join(found) == want == found.result.text
    assert found.result.reason == "stop"


def test_what_may_have_become_a_stop_text_is_there_in_the_end(words):
    found = stream(words, "it waited, and wai", stop=("waited quick",))
    assert "".join(found) == "it waited, and wai"
    assert found.result.reason == "end"


def test_a_text_ends_by_tokens_and_by_length(words):
    ids = words.encode(TEXT, begin=False)
    for options, ends, count, reason in (
        ({"max_tokens": 4}, {2}, 4, "length"),
        ({"stop_tokens": frozenset({ids[5]})}, {2}, ids.index(ids[5]) + 1, "end"),
        ({"ignore_end": True, "max_tokens": len(ids) + 3}, {2}, len(ids) + 3, "length"),
        ({}, {ids[2]}, ids.index(ids[2]) + 1, "end"),
    ):
        found = stream(words, TEXT, frozenset(ends), **options)
        text = "".join(found)
        assert (len(found.result.tokens), found.result.reason) == (count, reason)
        assert text == words.decode([*ids, 2, 40, 41][: count - (reason == "end")])


def test_the_model_reads_the_prompt_and_then_each_token_once(words):
    found = stream(words, "the clock")
    recited = found._tokens._reader
    list(found)
    assert recited.read == [1, 9, *found.result.tokens[:-1]]  # type: ignore[attr-defined]  # a Recited
    assert found.result.prompt == (1, 9)


def test_a_missing_or_wrong_tokenizer_is_an_error(tmp_path):
    with pytest.raises(ModelError, match=r"has no tokenizer.json"):
        Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is not a tokenizer"):
        Tokenizer(tmp_path)


def test_what_is_no_text_is_an_error(words):
    with pytest.raises(InputError, match="not UTF-8 text, at character 2"):
        words.encode("ab\udcff")


def config(folder: Path, text: str) -> None:
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")


def test_a_chat_template_is_applied_from_any_of_its_places(tmp_path):
    import json

    said = [Message("system", "Be brief."), Message("user", "Why?")]
    want = "<s>[system] Be brief.\n[user] Why?\n[assistant] "
    several = [{"name": "tools", "template": "x"}, {"name": "default", "template": CHAT_TEMPLATE}]
    for template, token in ((CHAT_TEMPLATE, "<s>"), (several, {"content": "<s>"})):
        config(tmp_path, json.dumps({"chat_template": template, "bos_token": token}))
        assert chat_text(tmp_path, said) == want
    (tmp_path / "chat_template.jinja").write_text("{{ messages[-1].content }}!")
    assert chat_text(tmp_path, said) == "Why?!"


@pytest.mark.parametrize(
    ("template", "want"),
    [
        ("{% for m in messages %}{% if loop.last %}{% break %}{% endif %}{{ m.role }}{% endfor %}", "system"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}.", "<Hü>."),
        ("{{ messages[0] | tojson }}", '{"role": "system", "content": "<Hü>"}'),
        ("{{ strftime_now('%Y') | int > 2000 }}", "True"),
        ("{{ bos_token }}{{ eos_token }}", ""),
    ],
)
def test_chat_templates_have_what_they_have_at_hugging_face(tmp_path, template, want):
    (tmp_path / "chat_template.jinja").write_text(template)
    assert chat_text(tmp_path, [Message("system", "<Hü>"), Message("user", "Why?")]) == want


def test_a_chat_template_that_is_no_text_is_an_error(tmp_path):
    (tmp_path / "chat_template.jinja").write_bytes(b"\xff\xfe")
    with pytest.raises(ModelError, match=r"chat_template.jinja cannot be read as text"):
        chat_text(tmp_path, [Message("user", "Why?")])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "has no chat template"),
        ("{% if %}", "the chat template of .* fails"),
        ("{{ 1 / 0 }}", "the chat template of .* fails: division by zero"),
        ("{{ messages.append(1) }}", "the chat template of .* fails: access to .* is unsafe"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages.append(1) }}", "fails: .*unsafe"),
    ],
)
def test_a_chat_template_that_is_missing_or_refuses_is_an_error(tmp_path, template, message):
    if template is not None:
        (tmp_path / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelError, match=message):
        chat_text(tmp_path, [Message("user", "Why?")])
