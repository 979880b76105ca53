"""``clgraph estimate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import clgraph


def test_a_table_says_what_is_taken_and_the_largest_batch(clgraph_command: Callable[..., Any], model: Path) -> None:
    found = clgraph_command("estimate", model, "--device", "null:avx2", "--memory-limit", "8 MiB")
    assert found.status == 0, found.err
    head, row, *rest = found.out.splitlines()
    assert head.split()[:3] == ["device", "constants", "activations"]
    assert row.startswith("pocl:0 ")
    assert rest[0].startswith("shapes  ")
    assert "within 8.0 MiB" in rest[-1]


def test_programs_read_bytes(clgraph_command: Callable[..., Any], model: Path) -> None:
    found = json.loads(clgraph_command("estimate", model, "--device", "null:avx2", "--threads", 4, "--json").out)
    (need,) = found["needs"]
    estimate = clgraph.estimate(model, "null:avx2", threads=4)
    assert need["total"] == estimate.total == sum(v for k, v in need.items() if k not in ("placement", "total"))
    assert found["largest_batch"] is None
    assert found["compiling"]["pocl:0"] >= need["total"]


def test_open_shapes_and_dumps_are_refused(
    clgraph_command: Callable[..., Any], open_model: Path, tmp_path: Path
) -> None:
    refused = clgraph_command("estimate", open_model, "--device", "null")
    assert refused.status == 1
    assert "--shape" in refused.err
    (tmp_path / "01_a.json").write_text("{}")
    assert "is a dump" in clgraph_command("estimate", tmp_path / "01_a.json", "--device", "null").err
