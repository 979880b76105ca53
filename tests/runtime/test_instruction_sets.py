"""One record decides what a CPU runs: by its flags, whatever LLVM calls it."""

import json
import platform
from itertools import pairwise
from pathlib import Path

import pytest

from clgraph.runtime import instruction_sets as sets
from clgraph.runtime.instruction_sets import (
    InstructionSet,
    cpu_flags,
    cpu_identity,
    for_width,
    instruction_sets,
    of_host,
)

TABLE = json.loads((Path(__file__).parents[1] / "data" / "cpus.json").read_text(encoding="utf-8"))


def flags_of(name: str) -> frozenset[str]:
    """Return the flags that the table gives for a kind of CPU."""
    found: set[str] = set()
    for flag in TABLE["base"].get(name, "").split():
        found |= flags_of(flag[1:]) if flag.startswith("+") else {flag}
    return frozenset(found)


@pytest.fixture(autouse=True)
def _x86(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.fixture
def cpuinfo(monkeypatch, tmp_path):
    def write(text: str) -> None:
        (tmp_path / "cpuinfo").write_text(text, encoding="utf-8")
        monkeypatch.setattr(sets, "CPUINFO", tmp_path / "cpuinfo")

    return write


@pytest.mark.parametrize(("cpu", "kind", "reported", "record", "built_in"), TABLE["cpus"], ids=lambda v: str(v)[:20])
def test_a_cpu_gets_the_widest_record_that_its_flags_allow(cpu, kind, reported, record, built_in):
    widest = of_host(flags_of(kind))[0]
    assert (widest.name, widest.built_in) == (record, built_in)
    assert widest.cpu == {
        "avx512_bf16": "cascadelake",
        "avx512_vnni": "cascadelake",
        "avx512": "skylake-avx512",
        "avx_vnni": "haswell",
        "avx2": "haswell",
    }.get(record, {"avx": "sandybridge", "sse2": "x86-64"}.get(record))


@pytest.mark.parametrize("missing", ["abm", "movbe", "f16c", "bmi1", "bmi2", "fma"])
def test_avx2_alone_is_not_enough_for_what_llvm_emits_for_haswell(missing):
    assert of_host(flags_of("haswell") - {missing})[0].name == "avx"


def test_records_get_narrower_and_every_flag_of_a_narrower_one_is_in_the_wider():
    records = [r for r in instruction_sets() if r.machine == "x86_64"]
    assert [r.name for r in records] == ["avx512_bf16", "avx512_vnni", "avx512", "avx_vnni", "avx2", "avx", "sse2"]
    # CPUs with AVX-512 need not have AVX-VNNI.
    beside = [r for r in records if r.name == "avx_vnni"]
    rest = [r for r in records if r not in beside]
    for wide, narrow in (*pairwise(rest), (beside[0], rest[3])):
        assert wide.simd >= narrow.simd
        assert wide.flags > narrow.flags
        # Products of 16 bits are for those that have none of bytes.
        assert wide.features >= narrow.features - {"short_pairs"}
        assert ("short_pairs" in narrow.features) != ("byte_pairs" in narrow.features)


def test_what_only_some_cpus_of_a_record_have_is_a_feature_where_their_flags_say_so():
    found = {kind: of_host(flags_of(kind)) for kind in ("cascadelake", "icelake", "sapphire")}
    assert {kind: (sets[0].name, "vbmi" in sets[0].features) for kind, sets in found.items()} == {
        "cascadelake": ("avx512_vnni", False),
        "icelake": ("avx512_vnni", True),
        "sapphire": ("avx512_bf16", True),
    }
    assert "vbmi" not in found["sapphire"][-1].features | found["sapphire"][2].features
    assert found["cascadelake"][0].identity != found["icelake"][0].identity
    tiles = of_host(flags_of("sapphire") | {"amx_bf16"})
    assert "amx_bf16" in tiles[0].features - found["sapphire"][0].features
    assert "amx_bf16" not in tiles[1].features


def test_a_record_survives_json():
    for record in (*instruction_sets(), *of_host(flags_of("sapphire"))):
        assert InstructionSet.from_data(json.loads(json.dumps(record.to_data()))) == record


def test_a_cpu_is_known_by_its_first_entry_without_what_changes_from_moment_to_moment(cpuinfo):
    entry = "processor\t: {0}\nmodel name\t: AMD EPYC\ncpu MHz\t\t: {1}\nflags\t\t: {2}\n\n"
    cpuinfo(entry.format(0, 2600, "avx2 fma") + entry.format(1, 2700, "sse2"))
    assert cpu_flags() == {"avx2", "fma"}
    first = cpu_identity()
    cpuinfo(entry.format(0, 3000, "avx2 fma"))
    assert cpu_identity() == first
    cpuinfo(entry.format(0, 3000, "avx2"))
    assert cpu_identity() != first


def test_a_file_that_cannot_be_read_says_nothing(cpuinfo, monkeypatch, tmp_path):
    monkeypatch.setattr(sets, "CPUINFO", tmp_path)  # a folder: open() raises OSError
    assert cpu_flags() == frozenset()
    assert of_host()[0].name == "sse2"
    cpuinfo("")
    assert of_host()[0].name == "sse2"


def test_another_driver_gets_one_record_for_each_width_up_to_what_it_reports(cpuinfo, monkeypatch):
    cpuinfo(f"flags\t: {' '.join(flags_of('icelake'))}\n")
    assert [(r.name, r.simd) for r in for_width(16)] == [("avx512_vnni", 16), ("avx2", 8), ("sse2", 4)]
    assert [r.simd for r in for_width(8)] == [8, 4]
    assert [r.simd for r in for_width(1)] == [4]
    cpuinfo("")
    assert [(r.name, r.simd) for r in for_width(16)] == [("avx512", 16), ("avx", 8), ("sse2", 4)]
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert [(r.name, r.simd, r.features) for r in for_width(4)] == [("neon", 4, {"fma"})]
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert [(r.name, r.simd) for r in for_width(16)] == [("generic", 4)]
