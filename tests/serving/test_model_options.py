from __future__ import annotations

import re
from pathlib import Path

import pytest

from clgraph.errors import OptionError
from clgraph.ops.preprocess import Preprocess
from clgraph.serving.model_options import ServedModelOptions, read_options
from clgraph.throughput.batching import Batching


def _read(folder: Path, text: str) -> ServedModelOptions:
    path = folder / "model.toml"
    path.write_text(text)
    return read_options(path)


def test_options_are_read_with_their_types(tmp_path: Path) -> None:
    text = """
precision = "f16"
threads = 2
keep_f32 = ["head/*"]
versions = 2
streams = 3
queue = 9
weights = "int8"
timeout = 1.5
outputs = ["y"]
[shapes]
x = ["batch", 3, 224, 224]
[prepare]
x = [[1, 8], 3, 224, 224]
[batching]
maximum = 8
pad = {x = 0}
"""
    assert _read(tmp_path, text) == ServedModelOptions(
        precision="f16",
        threads=2,
        keep_f32=("head/*",),
        versions=2,
        streams=3,
        queue=9,
        weights="int8",
        batching=Batching(maximum=8, pad={"x": 0}),
        timeout=1.5,
        outputs=("y",),
        shapes={"x": ("batch", 3, 224, 224)},
        prepare={"x": ((1, 8), 3, 224, 224)},
    )
    assert _read(tmp_path, "") == ServedModelOptions()
    of_one = _read(tmp_path, '[preprocess]\nsize = [8, 9]\nmean = [124, 116, 104]\nimage = "BGR"')
    assert of_one.preprocess == Preprocess("BGR", size=(8, 9), mean=(124, 116, 104))
    by_name = _read(tmp_path, '[preprocess.left]\nsize = "fed"\n[preprocess.right]')
    assert by_name.preprocess == {"left": Preprocess(size="fed"), "right": Preprocess()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preprocess = 3", "preprocess = 3 must be a table of what docs/preprocessing.md lists"),
        ("[preprocess]\nstd = 3", "must be a table of what docs/preprocessing.md lists"),
        ('[preprocess]\nimage = "CMYK"', "'CMYK'"),
        ('[preprocess]\nmean = "grey"', "mean"),
        ("thread = 2", "'thread' is not an option; did you mean 'threads'"),
        ('dump_graphs = "/tmp/x"', "'dump_graphs' is not an option"),
        ('cache_dir = "/tmp/x"', "'cache_dir' is not an option"),
        ('modules = ["/tmp/x.py"]', "'modules' is not an option"),
        ("threads = 0", "threads = 0 must be a whole number from 1 on"),
        ("threads = true", "threads = True must be"),
        ('threads = "2"', "threads = '2' must be"),
        ("streams = 1.0", "streams = 1.0 must be"),
        ("timeout = inf", "timeout = inf must be a number of seconds"),
        ("timeout = -1", "timeout = -1 must be"),
        ('keep_f32 = "head"', "keep_f32 = 'head' must be a list of patterns"),
        ("shapes = [1]", r"shapes = \[1\] must be a table"),
        ("[shapes]\nx = 1", "must be a table of lists"),
        ("[prepare]\nx = [[1, 2, 3]]", "must be a table of lists"),
        ('hint = "fast"', "hint = 'fast' must be 'latency' or 'throughput'"),
        ('hint = "latency"\nstreams = 2', "do nothing with hint = 'latency'"),
        ("[batching]\nmost = 1", "a table of maximum"),
        ("[batching]\npad = 1", "a table of maximum"),
        ("precision =", "cannot be read"),
    ],
)
def test_what_is_no_option_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OptionError, match=f"model.toml.*{message}"):
        _read(tmp_path, text)


def test_the_file_that_the_page_shows_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    options = _read(tmp_path, text)
    assert (options.device, options.streams, options.prepare) == ("cpu", 2, {"x": ((1, 8), 3, 224, 224)})
