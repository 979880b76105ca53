import copy
import os
import pickle
import runpy
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from types import SimpleNamespace

import platformdirs
import pytest

import clgraph
from clgraph.errors import OptionError
from clgraph.settings import Settings, option_table, settings, user_cache_dir
from tests.conftest import pytest_configure

ROOT = Path(__file__).resolve().parents[1]


def test_every_option_has_a_variable_and_a_line():
    table = option_table()
    assert [variable for variable, _, _ in table] == sorted(
        {v for v, _, _ in table}, key=[v for v, _, _ in table].index
    )
    assert all(variable.startswith("CLGRAPH_") and doc.endswith(".") for variable, _, doc in table)


def test_values_are_read_with_their_types():
    read = settings(
        {
            "CLGRAPH_THREADS": "3",
            "CLGRAPH_STRICT": "yes",
            "CLGRAPH_CACHE_DIR": "/a/b",
            "CLGRAPH_DENY_KERNELS": "one, two",
            "CLGRAPH_FORCE_KERNELS": "conv1=a.b,fc = c",
            "CLGRAPH_POCL_ISA": "AVX2",
            "HOME": "/nobody",
        }
    )
    assert read == Settings(
        threads=3,
        strict=True,
        cache_dir=Path("/a/b"),
        deny_kernels=frozenset({"one", "two"}),
        force_kernels=(("conv1", "a.b"), ("fc", "c")),
        pocl_isa="avx2",
    )


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("CLGRAPH_THREAD", "2", "CLGRAPH_THREAD is not an option"),
        ("CLGRAPH_THREADS", "many", "CLGRAPH_THREADS=many"),
        ("CLGRAPH_THREADS", "0", "at least 1"),
        ("CLGRAPH_STRICT", "maybe", "neither 1 nor 0"),
        ("CLGRAPH_FORCE_KERNELS", "conv1", "NODE=IMPLEMENTATION"),
        ("CLGRAPH_POCL_ISA", "mmx", "one of avx512_bf16, avx512_vnni, avx512, avx_vnni, avx2, avx, sse2"),
    ],
)
def test_what_means_nothing_is_refused_by_name(variable, value, said):
    with pytest.raises(OptionError, match=said):
        settings({variable: value})


def test_the_suites_own_variables_are_no_options():
    suites = {"CLGRAPH_TEST_DEVICES": "pocl", "CLGRAPH_TEST_ISA": "avx2", "CLGRAPH_TEST_OPTIMISED": "1"}
    suites["CLGRAPH_TEST_CLASS"] = "gpu"
    assert settings(suites) == Settings()


def test_what_the_shell_sets_reaches_no_test(monkeypatch):
    shell = {"CLGRAPH_DEVICE": "nowhere", "CLGRAPH_THREADS": "1", "CLGRAPH_NO_OPTION": "1", "CLGRAPH_TUNING": "x.json"}
    monkeypatch.setattr(os, "environ", dict(os.environ) | shell)
    runpy.run_path(str(ROOT / "tests" / "conftest.py"))
    assert settings() == Settings(tuning="off", model_cache=0)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("not opencl", "(not opencl) and not slow"), ("opencl or slow", "opencl or slow"), ("slow", "slow"), ("", "")],
)
def test_slow_tests_run_where_the_selection_names_them_or_nothing(given, meant):
    config = SimpleNamespace(option=SimpleNamespace(markexpr=given))
    for _ in range(2):  # a worker is given what its controller has made
        pytest_configure(config)
    assert config.option.markexpr == meant


def test_none_leaves_an_option_and_an_unknown_one_is_refused():
    base = Settings(threads=2)
    assert base.with_(threads=None, device="cpu") == Settings(threads=2, device="cpu")
    with pytest.raises(OptionError, match="'speed' is not an option"):
        base.with_(speed=3)


def test_options_may_be_given_as_text_or_collections() -> None:
    changed = Settings().with_(
        threads="3", disable_passes="init, partition", deny_kernels=["a.b"], force_kernels={"n": "c"}
    )
    assert (changed.threads, changed.disable_passes) == (3, {"init", "partition"})
    assert (changed.deny_kernels, changed.force_kernels) == ({"a.b"}, (("n", "c"),))
    with pytest.raises(OptionError, match="threads=0"):
        Settings().with_(threads="0")


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_numbers_are_checked_as_their_text_is(value):
    with pytest.raises(OptionError, match=f"threads={value}"):
        Settings().with_(threads=value)


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("placement", ["head=host"], "'head=host' is not a pair of names"),
        ("placement", {3: "host"}, "is not a pair of names"),
        ("placement", {"head": None}, "is not a pair of names"),
        ("placement_fallback", [None], "is not a collection of names"),
        ("threads", [2], "several values where one is expected"),
    ],
)
def test_collections_that_fit_no_option_are_refused(option, value, said):
    with pytest.raises(OptionError, match=said):
        Settings().with_(**{option: value})


def test_pairs_may_be_given_as_a_mapping_or_as_pairs():
    assert Settings().with_(placement={"head": 0}).placement == (("head", "0"),)
    assert Settings().with_(placement=[("head", "host"), ["*", "cpu"]]).placement == (("head", "host"), ("*", "cpu"))


def test_a_device_may_be_given_by_its_number():
    assert Settings().with_(device=0).device == "0"


def test_empty_variables_count_as_unset() -> None:
    found = settings({"CLGRAPH_CACHE_DIR": "", "CLGRAPH_WINOGRAD": "", "CLGRAPH_THREADS": ""})
    assert found == settings({})


@pytest.mark.parametrize("named", [None, "", " ", "relative", "/absolute", "~/.elsewhere"])
def test_the_cache_is_where_the_system_keeps_caches_of_users(named, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    assert user_cache_dir() == Path(platformdirs.user_cache_dir("clgraph"))


def test_an_argument_that_there_is_not_is_one_of_compile() -> None:
    with pytest.raises(TypeError, match=r"^compile\(\) got an unexpected keyword argument 'providers'"):
        clgraph.compile(clgraph.Topology(), providers=[])  # type: ignore[call-overload]  # there is none


def test_options_are_what_the_standard_library_says_of_a_frozen_dataclass() -> None:
    made, same = Settings(threads=2, weights="int8"), Settings(weights="int8", threads=2)
    other = replace(made, threads=3)
    assert (made == same, made == other, hash(made) == hash(same), made == "x") == (True, False, True, False)
    assert list(vars(made)) == [f.name for f in fields(Settings)]
    assert repr(made).startswith("Settings(device='auto'")
    assert pickle.loads(pickle.dumps(made)) == copy.copy(made) == made
    with pytest.raises(FrozenInstanceError, match="threads"):
        made.threads = 4  # type: ignore[misc]  # that is refused
    with pytest.raises(FrozenInstanceError, match="threads"):
        del made.threads
    with pytest.raises(TypeError, match="strange"):
        Settings(strange=1)  # type: ignore[call-arg]  # that is refused
