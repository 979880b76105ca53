# needs: tokenizers --no-deps: traceforge-title-model traceforge-toolkit
"""Name what a program has done: a T5 of eight bits, an encoder and a decoder that reads all of every beam each time.

One rounding beside a half changes its logits by 5 %: the texts are such that no other title comes near.
"""

import importlib.util
import sys
import types

folder = importlib.util.find_spec("traceforge").submodule_search_locations[0]
for name, path in (("traceforge", folder), ("traceforge.title", f"{folder}/title")):
    package = types.ModuleType(name)  # their own import asks for databases and other models
    package.__path__ = [path]
    sys.modules[name] = package
from traceforge.title.inference import TitleModel

model = TitleModel.load()
for context in (
    "intent: fix the failing login test | actions: grep, view, edit, pytest | files: auth/session.py, test_login.py",
    "actions: edit, bash | files: README.md | symbols: install, usage | notes: wrote how to install it with pip",
):
    print(model.title(context))
