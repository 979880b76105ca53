# needs: fastembed
"""Embed sentences with fastembed, in this process and in others, by a small network in the layout that it expects."""

import json
from pathlib import Path

import numpy as np
import onnx
from fastembed import TextEmbedding
from fastembed.rerank.cross_encoder import TextCrossEncoder
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dog", "hello", "world"],
]
TEXTS = ["hello world", "the quick brown fox jumps over the lazy dog", "world over the fox", "fox"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def folder(name: str, width: int, result: str) -> str:
    """Write a network that tells *width* numbers of each token, one of all tokens together; return its folder."""
    place = Path(name)
    place.mkdir(exist_ok=True)
    tokens = Tokenizer(models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokens.pre_tokenizer = pre_tokenizers.Whitespace()
    tokens.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokens.save(str(place / "tokenizer.json"))
    (place / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (place / "tokenizer_config.json").write_text(json.dumps({"max_length": 512, "pad_token": "[PAD]"}))
    special = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "unk": "[UNK]", "mask": "[MASK]"}
    (place / "special_tokens_map.json").write_text(json.dumps({f"{k}_token": v for k, v in special.items()}))
    table = np.random.default_rng(0).standard_normal((len(WORDS), width)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["words"])]
    if width == 1:
        nodes += [helper.make_node("ReduceMean", ["words"], [result], axes=[1], keepdims=0)]
    else:
        nodes += [helper.make_node("ReduceMean", ["words"], ["all"], axes=[1])]
        nodes += [helper.make_node("Add", ["words", "all"], [result])]
    values = [helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in INPUTS]
    results = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", values, results, [numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (place / "onnx").mkdir(exist_ok=True)
    for path in ("model.onnx", "model_optimized.onnx", "onnx/model.onnx"):
        onnx.save(model, place / path)
    return name


def main() -> None:
    """Print the first numbers of each text, and how well each answers a question."""
    embedding = TextEmbedding(
        "BAAI/bge-small-en-v1.5", specific_model_path=folder("embedding", 384, "last_hidden_state")
    )
    for processes in (None, 2):
        for vector in embedding.embed(TEXTS, batch_size=2, parallel=processes):
            print(np.round(vector[:4].astype(np.float64), 4).tolist())
    encoder = TextCrossEncoder("Xenova/ms-marco-MiniLM-L-6-v2", specific_model_path=folder("encoder", 1, "logits"))
    print(np.round(list(encoder.rerank("hello", TEXTS)), 4).tolist())


if __name__ == "__main__":
    main()
