"""Families of shapes in files whose header says something else, checksums right: one error, or what can be read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clgraph
from clgraph.errors import ClgraphError, ModelError
from tests.support.open_models import reshaping
from tests.support.saved import rewritten
from tests.support.saved_families import SHAPES, of_family, results
from tools.fuzzing.files import changed

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["families"].__setitem__("format", 99),
        lambda h: h["families"].__setitem__("known", [[]]),
        lambda h: h["families"].__setitem__("known", 3),
        lambda h: h["families"].__setitem__("circumstances", 3),
        lambda h: h["families"].__setitem__("notes", 3),
        lambda h: h["families"]["known"][0].__setitem__(0, [["x"], [["a", {}]], []]),
        lambda h: h["families"]["known"][0].__setitem__(2, "{"),
        of_family(lambda f: f["rules"].pop()),
        of_family(lambda f: f["rules"][0].__setitem__(0, [999])),
        of_family(lambda f: f["rules"][0].__setitem__(5, [])),
        of_family(lambda f: f["rules"][0].__setitem__(1, 5)),
        of_family(lambda f: f["rules"][1].__setitem__(6, 1)),
        of_family(lambda f: f["rules"][0].__setitem__(8, [2, 3])),
        of_family(lambda f: f.__setitem__("guards", [[], [], [], [["c", [99, "F32", [1]]]]])),
        of_family(lambda f: f.__setitem__("packings", [[0, ["d", "F32"], [0, "F32", [1]]]])),
        of_family(lambda f: f.__setitem__("layers", [[1]])),
        of_family(lambda f: f["program"].__setitem__("format", 0)),
    ],
)
def test_foreign_families_are_a_model_error(device: str, family_file: Path, change: Callable[[Any], None]) -> None:
    forged = rewritten(family_file, change)
    with pytest.raises(ModelError):
        results(clgraph.load(forged, device), SHAPES[1:2])


def test_whatever_a_family_with_a_fitting_checksum_says_is_read_or_one_error(tmp_path: Path) -> None:
    model = clgraph.compile(reshaping(), device="host")
    model.prepare({"x": (4, 6)}, {"shape": [8, 3]})
    model.save(tmp_path / "m.clg")
    content = (tmp_path / "m.clg").read_bytes()
    for seed in range(200):
        (tmp_path / "m.clg").unlink()
        (tmp_path / "m.clg").write_bytes(content)

        def forge(header: Any, seed: int = seed) -> None:
            header["families"] = changed(header["families"], np.random.default_rng(seed))

        def forge_inside(header: Any, seed: int = seed) -> None:
            of_family(lambda f: f.update(changed(f, np.random.default_rng(seed))))(header)

        path = rewritten(tmp_path / "m.clg", forge if seed % 4 == 0 else forge_inside)
        with contextlib.suppress(ClgraphError), clgraph.load(path, device="host") as loaded:
            loaded.prepare({"x": (5, 6)}, {"shape": [10, 3]})
