from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from clgraph.errors import ClgraphError, ModelError, UnsupportedError
from clgraph.generate.folder import read_folder
from clgraph.generate.options import Options


def write(folder: Path, name: str, content: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def test_a_folder_of_genai_says_how_its_model_is_used(tmp_path):
    decoder = {"filename": "m.onnx", "inputs": {"input_ids": "ids", "past_key_names": "k%d", "unknown": "x"}}
    about = {"context_length": 90, "decoder": decoder, "eos_token_id": [7, 8], "bos_token_id": 1}
    search = {"max_length": 64, "do_sample": True, "temperature": 0.5, "top_k": 3, "top_p": 0.9}
    write(tmp_path, "genai_config.json", {"model": about, "search": search})
    write(tmp_path, "m.onnx", "")
    found = read_folder(tmp_path)
    assert (found.model, found.longest, found.begin, found.ends) == (tmp_path / "m.onnx", 64, 1, {7, 8})
    assert (found.names.input_ids, found.names.past_key_names, found.names.logits) == ("ids", "k%d", "logits")
    assert found.options == Options(temperature=0.5, top_k=3, top_p=0.9)


def test_a_folder_of_optimum_says_how_its_model_is_used(tmp_path):
    write(tmp_path, "config.json", {"max_position_embeddings": 128, "eos_token_id": 2, "bos_token_id": 1})
    write(tmp_path, "onnx/model.onnx", "")
    found = read_folder(tmp_path)
    assert (found.model, found.longest, found.begin, found.ends) == (tmp_path / "onnx" / "model.onnx", 128, 1, {2})
    assert found.options == Options()
    write(tmp_path, "generation_config.json", {"eos_token_id": [4, 5], "do_sample": True, "max_new_tokens": 9})
    found = read_folder(tmp_path)
    assert (found.ends, found.options) == ({4, 5}, Options(temperature=1.0, max_tokens=9))


@pytest.mark.parametrize("name", ["max_position_embeddings", "n_positions"])
def test_the_length_of_a_text_has_the_names_that_models_give_it(tmp_path, name):
    write(tmp_path, "config.json", {name: 96})
    write(tmp_path, "model.onnx", "")
    assert read_folder(tmp_path).longest == 96


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    write(tmp_path, "config.json", "\ufeff" + json.dumps({"bos_token_id": 1}))
    write(tmp_path, "model.onnx", "")
    assert read_folder(tmp_path).begin == 1


def test_what_is_asked_for_and_not_done_is_said(tmp_path):
    plain = {"num_beams": 1, "num_return_sequences": 1, "min_length": 0, "no_repeat_ngram_size": 0, "length_penalty": 1}
    write(tmp_path, "m.onnx", "")
    decoder = {"decoder": {"filename": "m.onnx"}}
    write(tmp_path, "genai_config.json", {"model": decoder, "search": plain})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_folder(tmp_path)
    write(tmp_path, "genai_config.json", {"model": decoder, "search": plain | {"num_beams": 4, "min_length": 9}})
    with pytest.warns(UserWarning, match="search: num_beams 4, min_length 9: clgraph chooses tokens one by one"):
        read_folder(tmp_path)


def _searched(**options):
    return {"model": {"decoder": {}}, "search": options}


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("other.json", {}, ModelError, "has neither genai_config.json .* nor config.json"),
        ("genai_config.json", {"model": {"decoder": {}}}, ModelError, "has no model: there is no model.onnx"),
        ("genai_config.json", {}, ModelError, "genai_config.json has no model, which describes"),
        ("genai_config.json", {"model": {}}, ModelError, "genai_config.json: model has no decoder, which describes"),
        ("genai_config.json", {"model": {"context_length": -5, "decoder": {}}}, ModelError, "length is -5, not a"),
        ("config.json", {}, ModelError, "there is no model.onnx and no onnx/model.onnx"),
        ("genai_config.json", "{", ModelError, "cannot be read as JSON"),
        ("genai_config.json", [1], ModelError, "holds no JSON object but list"),
        ("genai_config.json", {"model": 3}, ModelError, "model is 3, not an object"),
        ("genai_config.json", {"model": {"decoder": {"filename": 3}}}, ModelError, "filename is 3, not a text"),
        ("genai_config.json", _searched(top_k="a"), ModelError, "search: top_k is 'a', not an integer"),
        ("genai_config.json", _searched(top_k=True), ModelError, "search: top_k is True, not an integer"),
        ("genai_config.json", _searched(do_sample=1), ModelError, "do_sample is 1, not true or false"),
        ("genai_config.json", "[" * 100_000, ModelError, "cannot be read as JSON: maximum recursion depth"),
        ("genai_config.json", _searched(top_p=10**400), ModelError, "search: top_p has 401 digits, more than a number"),
        ("genai_config.json", _searched(top_p=2), ModelError, "search: top_p=2.0 is not above 0"),
        ("genai_config.json", {"model": {"eos_token_id": ["a"], "decoder": {}}}, ModelError, "is .* not a token's id"),
        ("genai_config.json", {"model": {"vision": {}}}, UnsupportedError, "has vision besides its decoder"),
        ("config.json", {"is_encoder_decoder": True}, UnsupportedError, "is of a model with an encoder"),
        ("genai_config.json", {"model": {"decoder": {"pipeline": []}}}, UnsupportedError, "is a pipeline"),
    ],
)
def test_a_folder_that_lacks_something_is_one_clear_error(tmp_path, name, content, error, message):
    write(tmp_path, name, content)
    if "there is no" not in message:
        write(tmp_path, "model.onnx", "")
    with pytest.raises(error, match=message):
        read_folder(tmp_path)


def test_what_is_no_folder_is_an_error(tmp_path):
    write(tmp_path, "model.onnx", "")
    for path, what in ((tmp_path / "gone", "there is no folder"), (tmp_path / "model.onnx", "is a file")):
        with pytest.raises(ClgraphError, match=what):
            read_folder(path)
