"""Schemas out of the cache folder are those of onnx, and are asked for where onnx was asked before."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from onnx import defs

from clgraph.frontend import kept_schemas, protobuf
from clgraph.frontend.kept_schemas import Schemas
from clgraph.frontend.signatures import OperatorSignature

ASKED = (("Conv", 13, ""), ("Resize", 13, ""), ("Conv", 9, ""), ("LabelEncoder", 2, "ai.onnx.ml"), ("Gelu", 19, ""))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that onnx is asked for, in a process in which nobody else has registered any."""
    found: list[str] = []

    def get(op_type: str, opset: int, domain: str) -> defs.OpSchema:
        found.append(op_type)
        return defs.get_schema(op_type, opset, domain)

    told = SimpleNamespace(get_schema=get, SchemaError=defs.SchemaError)
    monkeypatch.setattr(protobuf, "defs", told, raising=False)
    monkeypatch.setattr(kept_schemas, "_may_differ", lambda: False)
    return found


def _answers(schemas: Schemas) -> list[Any]:
    return [schemas.newest_opset(), *(schemas.find(*operator) for operator in ASKED)]


def _kept(folder: Path) -> Schemas:
    schemas = Schemas(folder)
    _answers(schemas)
    schemas.keep()
    return schemas


def test_every_schema_is_kept_as_it_is() -> None:
    for schema in defs.get_all_schemas_with_history():
        signature = OperatorSignature.of(schema)
        assert OperatorSignature.of_json(json.loads(json.dumps(signature.to_json()))) == signature


def test_what_onnx_has_said_it_is_not_asked_again(asked: list[str], tmp_path: Path) -> None:
    first = _answers(_kept(tmp_path))
    assert first == _answers(Schemas())
    assert first[0] == defs.onnx_opset_version()
    assert [found and found[0] for found in first[1:]] == [11, 13, 1, 2, None]
    asked.clear()
    again = Schemas(tmp_path)
    assert _answers(again) == first
    assert not asked
    assert again.find("Relu", 13, "") is not None
    assert asked == ["Relu"]


def test_another_library_is_asked_anew(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "in bytes of a foreign encoding \udce9"
    monkeypatch.setattr(kept_schemas, "_library", lambda: library)
    library.write_bytes(b"one")
    _kept(tmp_path / "kept")
    library.write_bytes(b"the next")
    asked.clear()
    _kept(tmp_path / "kept")
    assert asked == [op_type for op_type, *_ in ASKED]
    assert len(list((tmp_path / "kept").iterdir())) == 1
    monkeypatch.setattr(kept_schemas, "_library", lambda: None)
    assert Schemas(tmp_path / "kept").find("Relu", 13, "") is not None


def test_a_damaged_file_is_none(asked: list[str], tmp_path: Path) -> None:
    _kept(tmp_path)
    (path,) = tmp_path.iterdir()
    for content in (b"", b"[1, 2]", b"[", b'["a"]', path.read_bytes()[:-9]):
        path.write_bytes(content)
        asked.clear()
        _answers(Schemas(tmp_path))
        assert len(asked) == len(ASKED), content


def test_schemas_that_others_may_have_registered_are_neither_taken_nor_kept(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_schemas, "_may_differ", lambda: True)
    _kept(tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(kept_schemas, "_may_differ", lambda: False)
    _kept(tmp_path)
    monkeypatch.setattr(kept_schemas, "_may_differ", lambda: True)
    asked.clear()
    _answers(Schemas(tmp_path))
    assert len(asked) == len(ASKED)
