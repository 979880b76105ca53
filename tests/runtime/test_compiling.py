"""Libraries are compiled in a process of their own, for the device that this one has described."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from dataclasses import replace

import pytest

from clgraph.core import progress
from clgraph.core.turns import in_turn
from clgraph.errors import KernelBuildError
from clgraph.runtime.engine import Engine
from clgraph.runtime.programs import Programs

pytestmark = pytest.mark.opencl


@pytest.mark.parametrize("measured", [True, False])
def test_a_library_is_compiled_with_features_that_only_a_measurement_tells(engine: Engine, measured: bool) -> None:
    # The process that compiles has measured nothing.
    features = engine.info.features - {"fetch_ahead"} | ({"fetch_ahead"} if measured else set())
    device = replace(engine.device, info=replace(engine.info, features=frozenset(features)))
    text = "#ifdef CLGRAPH_FETCH_AHEAD\n#error it is known\n#else\n#error it is unknown\n#endif\n"
    with pytest.raises(KernelBuildError, match="it is known" if measured else "it is unknown"):
        Engine(device).build(text, "library x", library=True)


def test_libraries_that_are_missing_are_compiled_side_by_side(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each waits for the other.
    both = threading.Barrier(2, timeout=60)

    def library(self: Programs, text: str, key: str, what: str, cached: bytes | None) -> str:
        both.wait()
        return f"the program of {what}"

    monkeypatch.setattr(Programs, "_library", library)
    monkeypatch.setattr("clgraph.runtime.programs.usable_cores", lambda: 2)
    opened = Engine(engine.device)
    texts = {f"// {uuid.uuid4()}": f"library {name}" for name in "ab"}
    one, _ = texts
    assert opened.programs.build_side_by_side({one: texts[one]}) == 0, "one alone is left to who needs it"
    assert opened.programs.build_side_by_side(texts) == 2
    assert opened.programs._built == {(text, True): f"the program of {what}" for text, what in texts.items()}
    assert opened.programs.build_side_by_side(texts) == 0


def test_who_waits_for_a_library_is_told_and_finds_what_another_has_compiled(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(
        "clgraph.runtime.compiling.compile_library", lambda *_, **__: pytest.fail("it is compiled a second time")
    )
    monkeypatch.setattr(Programs, "_taken_back", lambda self, text, binary, what: f"{what}: {binary.decode()}")
    caplog.set_level(logging.WARNING, "clgraph")
    programs = Engine(engine.device).programs
    text = f"// {uuid.uuid4()}"
    key = programs._key(text, True)
    waits = threading.Thread(target=programs.build, args=(text, "library x"), kwargs={"library": True})
    with in_turn(programs._cache.turn_path(key), 60):
        waits.start()
        until = time.monotonic() + 10
        while not caplog.records and time.monotonic() < until:
            waits.join(0.01)
        programs._cache.write(key, b"made")
    waits.join()
    assert caplog.records
    assert caplog.records[0].getMessage() == (
        f"library x is being compiled for {engine.info.name}, once on this machine: 0 s so far"
    )
    assert programs._built[text, True] == "library x: made"


def test_who_wants_a_library_waits_while_it_is_compiled_and_others_go_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def compiled(*_: object, **__: object) -> bytes:
        begun.set()
        assert over.wait(60)
        return b"made"

    monkeypatch.setattr("clgraph.runtime.compiling.compile_library", compiled)
    monkeypatch.setattr(Programs, "_taken_back", lambda self, text, binary, what: what)
    monkeypatch.setattr(Programs, "_load", lambda self, text, key, what, cached: what)
    programs = Engine(engine.device).programs
    missing, there, kernel = (f"// {uuid.uuid4()}" for _ in range(3))
    programs._cache.write(programs._key(there, True), b"made")
    new = list[bool]()
    want = [
        threading.Thread(target=lambda: new.append(programs.build(missing, "library x", library=True)))
        for _ in range(2)
    ]
    for thread in want:
        thread.start()
    assert begun.wait(60)
    others = threading.Thread(
        target=lambda: (programs.build(there, "library y", library=True), programs.build(kernel, "z"))
    )
    others.start()
    others.join(30)
    went_on = not others.is_alive()
    over.set()
    for thread in (*want, others):
        thread.join(60)
    assert went_on
    assert sorted(new) == [False, True], "one thread compiles it, the other takes what that has made"
