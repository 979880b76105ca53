"""Folders as exporters of language models write them: a model with its weights beside it, settings, a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx

from tests.support.decoder_weights import Decoder
from tests.support.decoders import decoder_model

SENTENCES = (
    "The kettle sang on the stove while the rain drew long lines down the window.",
    "Nobody had asked the old clock for the time since the radio came.",
    "A heron stood in the shallow water and waited, and waited, and then it was quick.",
    "Über den Dächern lag Schnee; im Café roch es nach Kaffee und Zimt.",
    "Numbers like 3, 14 and 159 are only strange until one has counted with them.",
)
"""What tokenizers are trained on."""

PAD, BEGIN, END = "<pad>", "<s>", "</s>"
"""The special tokens, with the ids 0, 1 and 2."""

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)


def write_decoder_folder(
    folder: Path, d: Decoder, *, end: int | list[int] = 2, chat_template: str | None = None, **search: Any
) -> Path:
    """Write *d* as its exporter would, and return *folder*.

    ``genai`` models have ``genai_config.json``, the others ``config.json`` and ``generation_config.json``; all have
    ``tokenizer.json`` and ``tokenizer_config.json``.

    Args:
        end: Ids of the tokens that end a text.
        search: Entries of genai_config's ``search``, of generation_config in the other exports.
    """
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(
        decoder_model(d),
        str(folder / "model.onnx"),
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=1024,
    )
    tokenizer(d.vocabulary).save(str(folder / "tokenizer.json"))
    about = {"bos_token": BEGIN, "eos_token": END, "pad_token": PAD, "tokenizer_class": "PreTrainedTokenizerFast"}
    _write(folder / "tokenizer_config.json", about | ({"chat_template": chat_template} if chat_template else {}))
    if d.export == "genai":
        _write(folder / "genai_config.json", {"model": _genai(d, end), "search": _search(d) | search})
    else:
        _write(folder / "config.json", _config(d, end))
        _write(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": end, "pad_token_id": 0} | search)
    return folder


def tokenizer(vocabulary: int) -> Any:
    """Return a tokenizer of bytes and the pairs that :data:`SENTENCES` have most, of at most *vocabulary* tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[PAD, BEGIN, END], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(SENTENCES, trainer)
    made.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, 1)])
    return made


def _write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")


def _genai(d: Decoder, end: int | list[int]) -> dict[str, Any]:
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask", **names}
    outputs = {n.replace("past", "present"): t.replace("past_key_values", "present") for n, t in names.items()}
    return {
        "bos_token_id": 1,
        "context_length": d.positions,
        "decoder": {
            "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
            "filename": "model.onnx",
            "head_size": d.head_size,
            "hidden_size": d.width,
            "inputs": inputs,
            "outputs": {"logits": "logits", **outputs},
            "num_attention_heads": d.heads,
            "num_hidden_layers": d.layers,
            "num_key_value_heads": d.shared,
        },
        "eos_token_id": end,
        "pad_token_id": 0,
        "type": "llama",
        "vocab_size": d.vocabulary,
    }


def _search(d: Decoder) -> dict[str, Any]:
    return {
        "do_sample": False,
        "max_length": d.positions,
        "min_length": 0,
        "num_beams": 1,
        "past_present_share_buffer": True,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
    }


def _config(d: Decoder, end: int | list[int]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "bos_token_id": 1,
        "eos_token_id": end,
        "pad_token_id": 0,
        "hidden_size": d.width,
        "intermediate_size": d.inner,
        "num_hidden_layers": d.layers,
        "num_attention_heads": d.heads,
        "num_key_value_heads": d.shared,
        "head_dim": d.head_size,
        "max_position_embeddings": d.positions,
        "rms_norm_eps": 1e-5,
        "vocab_size": d.vocabulary,
    }
