"""Options: those of onnxruntime are there, a misspelt one is an error, and none does nothing in silence."""

from __future__ import annotations

import logging
from typing import Any

import onnxruntime
import pytest

import clgraph.onnxruntime as ours
from clgraph.onnxruntime import notes, statuses
from clgraph.onnxruntime.loading import compilation_of
from clgraph.onnxruntime.providers import provided
from tests.support.ort_models import identity


def plain(given: Any) -> dict[str, Any]:
    """Return the attributes of options, as numbers and texts."""
    names = [n for n in dir(given) if not n.startswith("_") and not callable(getattr(given, n))]
    values = {n: getattr(given, n) for n in names}
    return {n: int(v) if hasattr(v, "value") else v for n, v in values.items()}


def test_attributes_and_defaults_are_onnxruntimes() -> None:
    for name in ("SessionOptions", "RunOptions"):
        theirs, own = (plain(getattr(module, name)()) for module in (onnxruntime, ours))
        assert {n: own[n] for n in theirs} == theirs
        assert all(isinstance(getattr(getattr(ours, name), n), property) for n in getattr(ours, name).defaults)


def test_deterministic_computing_is_the_models() -> None:
    options = ours.SessionOptions()
    options.use_deterministic_compute = True
    for given, wanted in ((options, {"deterministic": "1"}), (ours.SessionOptions(), {})):
        compilation = compilation_of(identity(), given, provided([]))
        assert {k: v for k, v in compilation.provided.config.items() if k == "deterministic"} == wanted


def test_misspelt_options_and_other_types_are_errors() -> None:
    options = ours.SessionOptions()
    with pytest.raises(AttributeError, match="'intra_op_threads'"):
        options.intra_op_threads = 1
    with pytest.raises(TypeError, match="intra_op_num_threads is of type int, not 'a'"):
        options.intra_op_num_threads = "a"
    with pytest.raises(TypeError, match="two texts"):
        options.add_session_config_entry("a", 1)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(RuntimeError, match="no configuration entry 'b'"):
        options.get_session_config_entry("b")
    options.add_session_config_entry("a", "1")
    assert options.get_session_config_entry("a") == "1"


def test_what_means_nothing_here_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_said", set())
    options = ours.SessionOptions()
    options.graph_optimization_level = ours.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.intra_op_num_threads = 1
    with caplog.at_level(logging.INFO, "clgraph.onnxruntime"):
        options.say_unused()
        options.say_unused()
    assert [r.message.partition(":")[0] for r in caplog.records] == [
        "SessionOptions.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL",
        "session configuration session.intra_op.allow_spinning = 0",
    ]


def test_what_would_change_results_is_refused() -> None:
    options = ours.SessionOptions()
    with pytest.raises(statuses.Fail, match="custom_op"):
        options.register_custom_ops_library("lib.so")
    for what in ("load", "save"):
        with pytest.raises(statuses.NotImplemented, match="own format"):
            options.add_session_config_entry(f"session.{what}_model_format", "ORT")
    options.optimized_model_filepath = "model.ort"
    with pytest.raises(statuses.NotImplemented, match="own format"):
        ours.InferenceSession(identity(), options)


def test_exceptions_have_onnxruntimes_names() -> None:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    theirs = {n for n in dir(state) if isinstance(getattr(state, n), type) and issubclass(getattr(state, n), Exception)}
    assert {kind.__name__ for kind in statuses.EXCEPTIONS} == theirs


def test_what_is_changed_after_a_session_was_made_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLGRAPH_DEVICE", "host")
    options = ours.SessionOptions()
    options.add_free_dimension_override_by_name("n", 2)
    session = ours.InferenceSession(identity(), options, ["CPUExecutionProvider"])
    options.by_name["n"] = 7
    options.set_load_cancellation_flag(True)
    session.set_providers(["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [2, 3]
