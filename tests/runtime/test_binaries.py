import warnings

import pytest

from clgraph.runtime.binaries import LOG_LINES, ProgramCache, first_error, first_lines, options_for, text_key


def test_a_program_under_another_ones_name_is_not_taken_for_it(tmp_path):
    cache = ProgramCache(tmp_path)
    cache.write("k", b"binary")
    (tmp_path / "k.bin").rename(tmp_path / "j.bin")
    assert cache.read("j") is None


def test_a_link_in_place_of_a_program_is_neither_read_nor_written_through(tmp_path):
    cache = ProgramCache(tmp_path / "programs")
    cache.write("k", b"binary")
    (tmp_path / "programs" / "k.bin").rename(tmp_path / "victim")
    (tmp_path / "programs" / "k.bin").symlink_to(tmp_path / "victim")
    before = (tmp_path / "victim").read_bytes()
    assert cache.read("k") is None
    cache.write("k", b"other")
    assert cache.read("k") == b"other"
    assert (tmp_path / "victim").read_bytes() == before


def test_what_was_written_is_read_back(tmp_path):
    cache = ProgramCache(tmp_path / "programs")
    assert cache.read("k") is None
    cache.write("k", b"binary\n\0")
    cache.write("empty", b"")
    assert cache.read("k") == b"binary\n\0"
    assert cache.read("empty") == b""
    assert sorted(p.name for p in (tmp_path / "programs").iterdir()) == ["empty.bin", "k.bin"]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b + b"x", lambda b: b"ELF" + b[3:]])
def test_a_damaged_or_foreign_entry_is_absent(tmp_path, damage):
    cache = ProgramCache(tmp_path)
    cache.write("k", b"binary")
    path = tmp_path / "k.bin"
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("k") is None
    cache.write("k", b"again")
    assert cache.read("k") == b"again"


def test_a_folder_that_cannot_be_written_warns_once(tmp_path):
    (tmp_path / "file").touch()
    cache = ProgramCache(tmp_path / "file" / "programs")
    with pytest.warns(UserWarning, match="not kept"):
        cache.write("k", b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write("k", b"x")
    assert cache.read("k") is None


def test_texts_are_not_confused_with_their_concatenation():
    assert text_key("ab", "c") != text_key("a", "bc")
    assert text_key("ab", "c") == text_key("ab", "c")


def test_a_log_is_cut_to_its_first_lines():
    log = "\n\n".join(f"line {i}" for i in range(LOG_LINES + 3))
    assert first_lines(log).splitlines()[-2:] == [f"line {LOG_LINES - 1}", "... 3 more lines"]
    assert first_lines("one\n\n") == "one"


def test_only_libraries_use_opencl_c_3_and_only_with_the_atomics_for_it():
    assert "CL3.0" in options_for(frozenset({"acq_rel"}), True)
    assert "YIELD" not in options_for(frozenset({"acq_rel"}), True)
    assert "YIELD" in options_for(frozenset({"acq_rel", "yield"}), True)
    assert "CL1.2" in options_for(frozenset({"acq_rel", "yield"}), False)
    assert "YIELD" not in options_for(frozenset({"yield"}), False)
    assert "CL1.2" in options_for(frozenset(), True)
    assert "fast" not in options_for(frozenset(), True)


@pytest.mark.parametrize("feature", ["prefetch", "fetch_ahead", "cycle_counter"])
def test_built_in_functions_of_a_compiler_are_used_only_where_the_device_declares_them(feature):
    assert f"-DCLGRAPH_{feature.upper()}" in options_for(frozenset({feature}), True).split()
    assert feature.upper() not in options_for(frozenset({"acq_rel"}), True)
    assert feature.upper() not in options_for(frozenset({feature}), False)


@pytest.mark.parametrize("library", [True, False])
def test_kernels_for_cpus_without_a_fused_multiply_add_do_not_emulate_it(library):
    assert "-DCLGRAPH_NO_FMA" in options_for(frozenset({"acq_rel"}), library)
    assert "NO_FMA" not in options_for(frozenset({"acq_rel", "fma"}), library)
    assert "NO_FMA" not in options_for(frozenset(), library, kind="gpu")


def test_a_note_is_kept_beside_binaries_and_is_none_of_them(tmp_path):
    cache = ProgramCache(tmp_path / "programs")
    assert cache.note("k") == ""
    cache.keep_note("k", "it crashed")
    assert cache.note("k") == "it crashed"
    assert cache.read("k") is None
    cache.note_path("k").unlink()
    assert cache.note("k") == ""


@pytest.mark.parametrize(
    ("log", "where"),
    [
        (
            "clBuildProgram failed\n\nerror: my.cl:4:19: use of undeclared identifier 'x'\n",
            "my.cl:4: use of undeclared identifier 'x'",
        ),
        ("a/my.cl:7:1: warning: unused\na/my.cl:9:2: error: expected ';'", "a/my.cl:9: expected ';'"),
        ("my.cl:2: fatal error: 'none.h' file not found", "my.cl:2: 'none.h' file not found"),
        ("\n  ptxas died\nmore", "ptxas died"),
        ("", "the compiler says nothing"),
    ],
)
def test_the_first_error_of_a_log_is_found_with_its_file_and_line(log: str, where: str) -> None:
    assert first_error(log) == where
