"""What is written to the model cache again: what is new, or was lost."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import pytest

from clgraph.compilation import keeper
from clgraph.compilation.keeper import Keeper
from clgraph.graph.program import Program
from clgraph.model.keys import Key
from clgraph.model.specialisation import Specialisation
from clgraph.settings import Settings

FIRST, SECOND, THIRD = (Key(((n, 8),)) for n in (2, 3, 4))


def made(*keys: Key, bound: bool = False) -> dict[Key, Specialisation]:
    return {key: Specialisation(Program([], [], []), None, (), {}, Settings(), bound=bound) for key in keys}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[Key]]:
    """What was written, at once: the keys of the programs."""
    monkeypatch.setattr(keeper.Later, "start", keeper.Later.finish)
    return []


def writing(written: list[list[Key]]) -> Keeper:
    def write(programs: Mapping[Key, Specialisation]) -> None:
        written.append(list(programs))

    return Keeper(write)


def test_what_is_there_is_written_once(written: list[list[Key]]) -> None:
    keep = writing(written)
    for keys in ((FIRST,), (FIRST,), (FIRST, SECOND), (SECOND, FIRST)):
        keep(made(*keys))
    assert written == [[FIRST], [FIRST, SECOND]]


def test_members_alone_are_nothing_new(written: list[list[Key]]) -> None:
    keep = writing(written)
    keep(made(FIRST, bound=True))
    assert written == []


def test_what_the_file_has_is_written_again_with_what_is_new(written: list[list[Key]]) -> None:
    keep = writing(written)
    keep.has([FIRST, SECOND], lambda: made(FIRST, SECOND))
    keep(made(FIRST))
    assert written == []
    keep(made(FIRST, THIRD))
    assert written == [[SECOND, FIRST, THIRD]]


def test_what_a_damaged_file_had_is_written_when_it_is_made_again(written: list[list[Key]]) -> None:
    keep = writing(written)
    keep.has([FIRST, SECOND], lambda: made(FIRST, SECOND))
    keep.forget()
    keep(made(FIRST))
    assert written == [[FIRST]]


def test_what_waits_is_written_when_the_model_is_closed_and_held_no_longer() -> None:
    written: list[list[Key]] = []
    keep, programs = writing(written), made(FIRST)
    held = weakref.ref(programs[FIRST].program)
    keep(programs)
    del programs
    assert held() is not None
    assert written == [], "it waits for two seconds"
    keep.finish()
    assert written == [[FIRST]]
    assert held() is None
    keep.finish()
    assert written == [[FIRST]]


def test_of_programs_that_no_family_has_the_last_are_kept(written: list[list[Key]]) -> None:
    keys = [Key(((n, 8),)) for n in range(keeper.MOST_WHOLE + 3)]
    writing(written)(made(*keys))
    assert written == [keys[3:]]
