"""Text from language models in exported folders: a decoder with its cache, a tokenizer, a way to choose tokens."""

from clgraph.generate.chat import Message
from clgraph.generate.language_model import LanguageModel, load
from clgraph.generate.options import Options
from clgraph.generate.texts import Generation, TextStream

__all__ = ["Generation", "LanguageModel", "Message", "Options", "TextStream", "load"]
