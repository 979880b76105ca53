"""Saved models that are damaged or forged are one error."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClgraphError, ModelError
from clgraph.ops.activation import Activation
from clgraph.saved.container import VERSION
from tests.support.saved import HEAD, feeds_of, rewritten
from tools.fuzzing.files import changed


def damaged(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


def test_a_damaged_byte_is_a_model_error_or_does_no_harm(saved: Path, tmp_path: Path) -> None:
    data = saved.read_bytes()
    broken = tmp_path / "broken.clg"
    header_end = HEAD + struct.unpack_from("<Q", data, 16)[0]
    errors = 0
    for at in sorted({*range(HEAD), *range(HEAD, len(data), 1000)}):
        broken.write_bytes(damaged(data, at))
        try:
            loaded = clgraph.load(broken, device="host")
            loaded.run(feeds_of(loaded))
            assert 12 <= at < 16 or at >= header_end, f"byte {at} of the header was not missed"
        except ModelError:
            errors += 1
    assert errors > 40


@pytest.mark.parametrize("keep", [0, 1, 7, 63, 64, 1000, -1, -64, -1000])
def test_a_file_that_is_cut_is_a_model_error(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(ModelError):
        clgraph.load(saved, device="host")


def test_a_damaged_table_of_integers_is_found(tmp_path: Path) -> None:
    topology = clgraph.Topology()
    x = topology.input("x", (4,))
    topology.output("y", topology.add("y", Activation("relu"), x))
    numbers = topology.constant("numbers", np.arange(100_000))
    topology.output("numbers", numbers)
    path = tmp_path / "m.clg"
    clgraph.compile(topology, device="host").save(path)
    path.write_bytes(damaged(path.read_bytes(), path.stat().st_size - 5000))
    with pytest.raises(ModelError, match="checksum"):
        clgraph.load(path, device="host").run({"x": np.zeros(4, np.float32)})


def test_a_newer_version_says_so(saved: Path) -> None:
    with pytest.raises(ModelError, match=f"format {VERSION + 1}"):
        clgraph.load(rewritten(saved, version=VERSION + 1), device="host")


def test_the_checksum_of_older_versions_is_known(saved: Path) -> None:
    loaded = clgraph.load(rewritten(saved, version=2), device="host")
    loaded.run(feeds_of(loaded))
    saved.write_bytes(damaged(saved.read_bytes(), HEAD))
    with pytest.raises(ModelError, match="header has another checksum"):
        clgraph.load(saved, device="host")


def _set(*path: object, to: object) -> object:
    """Return what changes the value at *path* in a header, also inside of what is text in it."""

    def changed(held: Any, way: tuple[object, ...]) -> Any:
        if not way:
            return to
        if isinstance(held, str):
            return json.dumps(changed(json.loads(held), way))
        held[way[0]] = changed(held[way[0]], way[1:])
        return held

    return lambda header: changed(header, path)


@pytest.mark.parametrize(
    "change",
    [
        _set("programs", to=None),
        _set("programs", 0, "program", "nodes", 0, 2, to=[99]),
        _set("programs", 0, "program", "values", 0, to=[1]),
        _set("programs", 0, "program", "values", 0, 1, to="layout"),
        _set("programs", 0, "program", "values", 0, 1, 5, to="0000"),
        _set("programs", 0, "program", to={}),
        _set("programs", 0, "passes", to=[[]]),
        _set("topology", to=[]),
        _set("topology", "inputs", to=[["x"]]),
        _set("blobs", to=[]),
        _set("blobs", 0, to=[1 << 60, 4, 0]),
        _set("blobs", 0, to=[0, -4, 0]),
        _set("libraries", to=3),
    ],
)
def test_a_foreign_header_is_a_model_error(saved: Path, change: object) -> None:
    with pytest.raises(ModelError):
        clgraph.load(rewritten(saved, change), device="host")


def _forged(path: Path, seed: int, part: str) -> Path:
    """Change a value or two of the topology, or of the planned program, and make the checksum fit."""

    def change(header: Any) -> None:
        random = np.random.default_rng(seed)
        if part == "program":
            entry = header["programs"][0]
            entry["program"] = json.dumps(changed(json.loads(entry["program"]), random))
        else:
            header["topology"] = changed(header["topology"], random)

    return rewritten(path, change)


@pytest.mark.parametrize("part", ["topology", "program"])
def test_whatever_a_file_with_a_fitting_checksum_says_is_read_or_one_error(saved: Path, part: str) -> None:
    content = saved.read_bytes()
    for seed in range(300):
        saved.unlink()
        saved.write_bytes(content)
        forged = _forged(saved, seed, part)
        with contextlib.suppress(ClgraphError), clgraph.load(forged, device="host") as model:
            assert model.topology.layers
            str(model.explain())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t["layers"][0].__setitem__(1, 5), "5 is not a primitive"),
        (lambda t: t["layers"][0].__setitem__(4, [[]]), "layers are not of the form"),
        (lambda t: t["layers"][0].__setitem__(5, True), "layers are not of the form"),
        (lambda t: t["constants"][0].__setitem__(0, {}), "constants are not of the form"),
        (lambda t: t["metadata"].__setitem__("a", 1), "metadata are not of the form"),
        (lambda t: t["op_types"].__setitem__("a", []), "op_types are not of the form"),
        (lambda t: t["inputs"][0].__setitem__(2, [1, -3]), r"has the shape \[1, -3\]"),
        (lambda t: t["layers"][0][1].__setitem__(2, ["strides", ["t", "x", 1]]), "Convolution.strides is"),
    ],
)
def test_a_topology_with_a_fitting_checksum_and_a_wrong_type_is_a_model_error(saved: Path, change, said: str) -> None:
    def forge(header: Any) -> None:
        change(header["topology"])

    def read() -> None:
        clgraph.load(forged, device="null").reshape({"x": (1, 3, 12, 12)})

    forged = rewritten(saved, forge)
    with pytest.raises(ModelError, match=said):
        read()
